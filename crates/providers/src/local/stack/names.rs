//! The names of several directories in the order of their bytes, some at a time: memory does not grow with a directory.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::vec;

use crate::local::cursor::Cursor;

/// So many are held at a time. For more the directories are read again.
const MOST: usize = 64 * 1024;

/// Where a walk is in a directory.
#[derive(Debug, Default)]
pub struct Names {
    ahead: vec::IntoIter<OsString>,
    /// Everything up to this one was given, or is ahead.
    last: Option<OsString>,
    /// Nothing comes after what is ahead.
    is_read: bool,
}

impl Names {
    /// Begins behind a name, whether it is there or not.
    pub fn after(name: OsString) -> Self {
        Self { last: Some(name), ..Self::default() }
    }

    /// The next one that any of the directories has. They must be the same ones every time.
    pub fn next<'a>(&mut self, directories: impl FnOnce() -> Vec<&'a Cursor>) -> io::Result<Option<OsString>> {
        if self.ahead.len() == 0 && !self.is_read {
            self.read(&directories())?;
        }
        Ok(self.ahead.next())
    }

    fn read(&mut self, directories: &[&Cursor]) -> io::Result<()> {
        let mut found: BTreeSet<OsString> = BTreeSet::new();
        let mut is_cut = false;
        for directory in directories {
            directory.each_name(|name| {
                if self.last.as_deref().is_some_and(|last| name <= last) {
                    return;
                }
                if found.len() >= MOST && found.last().is_some_and(|last| name > last.as_os_str()) {
                    is_cut = true;
                    return;
                }
                if found.insert(name.to_owned()) && found.len() > MOST {
                    is_cut = true;
                    found.pop_last();
                }
            })?;
        }
        self.is_read = !is_cut;
        self.last = found.last().cloned().or_else(|| self.last.take());
        self.ahead = found.into_iter().collect::<Vec<_>>().into_iter();
        Ok(())
    }
}
