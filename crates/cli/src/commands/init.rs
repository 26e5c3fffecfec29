use serde_json::json;
use stead_domain::definition::DefinitionFile;

use crate::failure::Result;
use crate::invocation::Invocation;
use crate::{atomic_file, definitions};

pub fn run(invocation: &Invocation<'_>) -> Result<()> {
    let below = format!("{}/local-default.json", definitions::DIRECTORY);
    let path = invocation.surroundings.absolute(below.as_ref());
    let text = DefinitionFile::local_default(invocation.now());
    let created = atomic_file::create_new(&path, text.as_bytes(), 0o644)?;
    let printer = invocation.printer;
    printer.record(&json!({ "path": below, "created": created }), &below, |printer| {
        if created {
            printer.note(&format!("wrote {below}"));
            printer.hint("make it an environment: stead env apply -f .");
        } else {
            printer.note(&format!("{below} exists and was left as it is"));
        }
        Ok(())
    })
}
