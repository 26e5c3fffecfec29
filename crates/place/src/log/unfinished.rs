//! Which processes have no end, as far as their logs say.

use std::fs;
use std::io;
use std::path::Path;

use stead_domain::ids::ProcessId;

use super::reader::last_words;

/// Those of an environment whose end is not written down. They run, or went with whoever kept them.
pub fn unfinished(directory: &Path) -> io::Result<Vec<ProcessId>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        outcome => outcome?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let process = name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|id| id.parse::<ProcessId>().ok());
        if let Some(process) = process
            && last_words(directory, process)?.is_some_and(|words| words.exit.is_none())
        {
            found.push(process);
        }
    }
    found.sort();
    Ok(found)
}
