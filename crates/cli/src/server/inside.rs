//! The directory that places see where their definition names repositories: the program that git asks, and the socket that it asks on.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, linkat};
use stead_app::repositories::pass;
use stead_domain::Result;
use stead_providers::local::inside;
use tokio::net::UnixListener;

use super::directory::cannot_write;

const OURSELVES: &str = "/proc/self/exe";

/// Makes it ready. What stands there from a server before us is replaced, whole and at once: places that are awake see the new one.
pub fn open(data_dir: &Path) -> Result<UnixListener> {
    let directory = inside(data_dir);
    let failed = |error: io::Error| cannot_write(&directory, &error);
    DirBuilder::new().recursive(true).mode(0o755).create(&directory).map_err(failed)?;
    // Whatever the mask is: nobody outside gets here, because what holds it is closed to others.
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).map_err(failed)?;
    put_program(&directory).map_err(failed)?;
    let (made, path) = (directory.join("new"), directory.join(pass::SOCKET));
    let _ = fs::remove_file(&made);
    let listener = bind(&directory, "new").map_err(failed)?;
    fs::set_permissions(&made, Permissions::from_mode(0o666)).and_then(|()| fs::rename(&made, &path)).map_err(failed)?;
    Ok(listener)
}

/// By a path through the open directory, which is short however long its own is.
fn bind(directory: &Path, name: &str) -> io::Result<UnixListener> {
    use std::os::fd::AsRawFd;
    let held = fs::File::open(directory)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{name}", held.as_raw_fd()))
}

/// This very program under another name: a link where that can be, else a copy.
fn put_program(directory: &Path) -> io::Result<()> {
    let (program, made) = (directory.join(pass::PROGRAM), directory.join("program.new"));
    let own = fs::metadata(OURSELVES)?;
    let is_same = |there: fs::Metadata| {
        let same_file = (there.dev(), there.ino()) == (own.dev(), own.ino());
        same_file || (there.len() == own.len() && there.modified().ok() >= own.modified().ok() && there.nlink() == 1)
    };
    if fs::symlink_metadata(&program).is_ok_and(is_same) {
        return Ok(());
    }
    let _ = fs::remove_file(&made);
    let executable = own.mode() & 0o555 == 0o555;
    if !executable || linkat(CWD, OURSELVES, CWD, &made, AtFlags::SYMLINK_FOLLOW).is_err() {
        fs::copy(OURSELVES, &made)?;
        fs::set_permissions(&made, Permissions::from_mode(0o755))?;
    }
    fs::rename(&made, &program)
}
