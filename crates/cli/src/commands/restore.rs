use serde_json::json;

use super::store;
use crate::arguments::local::Restore;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::server;

pub fn run(invocation: &Invocation<'_>, arguments: &Restore) -> Result<()> {
    let path = invocation.surroundings.absolute(&arguments.file);
    server::restore(store::options(invocation, &arguments.store)?, &path, arguments.replace)?;
    let shown = path.display().to_string();
    invocation.printer.record(&json!({ "path": shown }), &shown, |printer| {
        printer.note(&format!("restored {shown}; workspaces made since that backup are kept without a record until `stead prune`, and what was deleted since has a record again but no workspace (`stead env reconcile` tells)"));
        printer.hint("stead up");
        Ok(())
    })
}
