use serde_json::json;
use stead_domain::{Code, Error};

use super::store;
use crate::arguments::local::Backup;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::server;

pub fn run(invocation: &Invocation<'_>, arguments: &Backup) -> Result<()> {
    let path = invocation.surroundings.absolute(&arguments.file);
    if path.symlink_metadata().is_ok() {
        return Err(Error::new(Code::AlreadyExists, format!("{} is there already", path.display()))
            .suggestion("choose another file")
            .into());
    }
    server::backup(store::options(invocation, &arguments.store)?, &path)?;
    let shown = path.display().to_string();
    invocation.printer.record(&json!({ "path": shown }), &shown, |printer| {
        printer.note(&format!("wrote {shown}; it holds every record, but neither the workspaces nor master.key: keep that one beside it, and both as safe as the data directory"));
        Ok(())
    })
}
