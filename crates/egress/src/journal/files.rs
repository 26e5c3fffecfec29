//! The journal's files: appended to, bounded, and read back.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use super::{Entry, JournalOptions, paths};

/// Files that are open; any number of environments may have written once.
const MOST_OPEN: usize = 256;

pub struct Files {
    options: JournalOptions,
    open: HashMap<Arc<str>, (File, u64)>,
}

impl Files {
    pub fn new(options: JournalOptions) -> Self {
        Self { options, open: HashMap::new() }
    }

    /// Blocks. Each environment's lines are written together.
    pub fn append(&mut self, entries: &[(Arc<str>, Entry)]) -> io::Result<()> {
        let mut texts: HashMap<&Arc<str>, Vec<u8>> = HashMap::new();
        for (environment, entry) in entries {
            let text = texts.entry(environment).or_default();
            serde_json::to_writer(&mut *text, entry)?;
            text.push(b'\n');
        }
        // One file that fails must not cost the others their lines.
        let outcomes: Vec<_> = texts.into_iter().map(|(environment, text)| self.append_text(environment, &text)).collect();
        outcomes.into_iter().collect()
    }

    fn append_text(&mut self, environment: &Arc<str>, text: &[u8]) -> io::Result<()> {
        let [older, current] = paths(&self.options.directory, environment);
        if self.open.len() >= MOST_OPEN && !self.open.contains_key(environment) {
            self.open.clear();
        }
        if self.open.get(environment).is_some_and(|(_, size)| *size >= self.options.largest_file) {
            self.open.remove(environment);
            std::fs::rename(&current, &older)?;
        }
        let (file, size) = match self.open.entry(environment.clone()) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&current)?;
                let size = file.metadata()?.len();
                entry.insert((file, size))
            }
        };
        file.write_all(text)?;
        *size += text.len() as u64;
        Ok(())
    }
}

/// Everything that is kept about an environment, oldest first. A line that was cut short by a crash is left out.
pub fn read(directory: &Path, environment: &str) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for path in paths(directory, environment) {
        match File::open(path) {
            Ok(file) => {
                for line in BufReader::new(file).lines() {
                    entries.extend(serde_json::from_str::<Entry>(&line?).ok());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Decision;
    use crate::reason::Reason;
    use crate::sniff::Protocol;

    fn entry(number: u16) -> Entry {
        Entry::new("a.example", number, Protocol::Tcp, Decision::Refused).because(Reason::NotListed)
    }

    #[test]
    fn files_are_bounded_and_read_back_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let options = JournalOptions { directory: directory.path().to_owned(), largest_file: 1000 };
        let mut files = Files::new(options.clone());
        let environment: Arc<str> = "env_1".into();
        for number in 0..200 {
            files.append(&[(environment.clone(), entry(number))]).unwrap();
        }
        let entries = read(directory.path(), "env_1").unwrap();
        assert!((8..30).contains(&entries.len()), "{}", entries.len());
        assert_eq!(entries.last().unwrap().port, 199);
        assert!(entries.is_sorted_by_key(|entry| entry.port));
        // A new relay goes on where the last one was, after a line that it did not finish.
        let [_, current] = paths(directory.path(), "env_1");
        let mut half = OpenOptions::new().append(true).open(current).unwrap();
        half.write_all(b"{\"at\": \"2026\n").unwrap();
        Files::new(options).append(&[(environment, entry(200))]).unwrap();
        assert_eq!(read(directory.path(), "env_1").unwrap().last().unwrap().port, 200);
        assert!(read(directory.path(), "env_2").unwrap().is_empty());
    }
}
