//! Files that hold keys: readable by their user alone.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::check::Check;
use super::repair::Repair;
use crate::settings::{Credentials, Surroundings};

pub fn of_server(directory: &Path) -> Vec<Check> {
    let owner = examine("SD08", "owner key", &directory.join("owner.key"));
    let master = examine("SD09", "master key", &directory.join("master.key"));
    owner.into_iter().chain(master).collect()
}

pub fn of_user(surroundings: &Surroundings) -> Option<Check> {
    examine("SD10", "your keys", &Credentials::path(surroundings).ok()?)
}

/// None for a file that is not there: each of them is optional.
fn examine(code: &'static str, name: &'static str, path: &Path) -> Option<Check> {
    let metadata = path.symlink_metadata().ok()?;
    let shown = path.display();
    if !metadata.is_file() {
        return Some(Check::fail(code, name, format!("{shown} is not a file"), "move it away"));
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o177 == 0 {
        return Some(Check::ok(code, name, format!("{shown} is yours alone")));
    }
    let check = Check::fail(code, name, format!("{shown} has mode {mode:04o}: others can use it"), format!("chmod 0600 {shown}"));
    Some(check.repaired_by(Repair::SetMode { path: path.to_owned(), mode: 0o600 }))
}
