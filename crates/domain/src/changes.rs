//! What an environment with `workspace_access: cow` wrote, beside the workspace that it was written over.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::{Error, Result};
use crate::hexadecimal;

const MOST_PATHS: usize = 10_000;
/// Trees may be deeper than the kernel takes in one call; requests need an end all the same.
const LONGEST_PATH: usize = 64 << 10;

text_enum! {
    pub enum ChangeKind {
        /// The workspace has nothing of that name.
        Added = "added",
        /// The workspace has something else there.
        Modified = "modified",
        /// The workspace has it, and inside it was removed.
        Deleted = "deleted",
    }
}

text_enum! {
    pub enum EntryType {
        File = "file",
        Directory = "directory",
        Symlink = "symlink",
        Fifo = "fifo",
        Socket = "socket",
        Device = "device",
    }
}

/// One name that is not as it is in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileChange {
    /// From the workspace on. What is not UTF-8 is shown as `�`.
    pub path: String,
    /// The path in hexadecimal digits, only where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub kind: ChangeKind,
    /// Of what is there now; of what was there, when it was deleted.
    pub r#type: EntryType,
    pub size: u64,
}

impl FileChange {
    pub fn new(path: &RelativePath, kind: ChangeKind, r#type: EntryType, size: u64) -> Self {
        let text = std::str::from_utf8(&path.0);
        let path_bytes = text.is_err().then(|| hexadecimal::write(&path.0));
        Self { path: path.to_string(), path_bytes, kind, r#type, size }
    }
}

/// Which changes are meant; all of them when nothing is named. A directory stands for everything below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeSelection {
    /// From the workspace on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 10_000)]
    pub paths: Option<Vec<String>>,
    /// The same in hexadecimal digits, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 10_000)]
    pub path_bytes: Option<Vec<String>>,
}

impl ChangeSelection {
    /// The paths that are named; none for everything.
    pub fn selected(&self) -> Result<Option<Vec<RelativePath>>> {
        if self.paths.is_none() && self.path_bytes.is_none() {
            return Ok(None);
        }
        let texts = self.paths.iter().flatten().map(|text| RelativePath::parse("paths", text.as_bytes()));
        let bytes = self.path_bytes.iter().flatten().map(|text| RelativePath::parse("path_bytes", &from_hexadecimal(text)?));
        let all = texts.chain(bytes).collect::<Result<Vec<_>>>()?;
        if all.is_empty() || all.len() > MOST_PATHS {
            return Err(Error::field("paths", format!("must name between 1 and {MOST_PATHS} paths; leave it out for all changes")));
        }
        Ok(Some(all))
    }
}

fn from_hexadecimal(text: &str) -> Result<Vec<u8>> {
    hexadecimal::read(text).ok_or_else(|| Error::field("path_bytes", "must be pairs of hexadecimal digits"))
}

/// How many changes were kept or thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettledChanges {
    pub count: u64,
}

/// A path below a directory that never leads out of it: no `..`, no `.`, nothing absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelativePath(Vec<u8>);

impl RelativePath {
    pub fn parse(field: &str, bytes: &[u8]) -> Result<Self> {
        let trimmed = bytes.strip_suffix(b"/").unwrap_or(bytes);
        if trimmed.is_empty() || trimmed.len() > LONGEST_PATH {
            return Err(Error::field(field, "holds a path that is empty or too long"));
        }
        let is_plain = |part: &[u8]| !part.is_empty() && part != b"." && part != b".." && part.len() <= 255 && !part.contains(&0);
        if !trimmed.split(|byte| *byte == b'/').all(is_plain) {
            return Err(Error::field(field, "must hold paths from the workspace on, without `.` or `..`")
                .suggestion("name them as `stead env changes` shows them"));
        }
        Ok(Self(trimmed.to_vec()))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
    }

    /// Goes one name further down.
    pub fn push(&mut self, name: &[u8]) {
        if !self.0.is_empty() {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(name);
    }

    /// Goes one name up.
    pub fn pop(&mut self) {
        let end = self.0.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        self.0.truncate(end);
    }

    /// Whether `other` is this, or lies below it.
    pub fn holds(&self, other: &Self) -> bool {
        other.0.strip_prefix(self.0.as_slice()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::parse("paths", text.as_bytes()).unwrap()
    }

    #[test]
    fn nothing_leads_out() {
        for text in ["", "/", "/etc", "..", "a/../b", "./a", "a//b", "a/.", "a\0b"] {
            assert!(RelativePath::parse("paths", text.as_bytes()).is_err(), "{text:?}");
        }
        assert_eq!(path("a/b/"), path("a/b"));
        assert!(path("a").holds(&path("a/b")) && path("a").holds(&path("a")) && !path("a").holds(&path("ab")));
        let mut deeper = path("a/b");
        deeper.push(b"c");
        assert_eq!(deeper, path("a/b/c"));
        deeper.pop();
        deeper.pop();
        assert_eq!(deeper, path("a"));
        deeper.pop();
        assert_eq!(deeper, RelativePath::default());
    }

    #[test]
    fn names_that_are_no_text_can_be_named() {
        let odd = RelativePath::parse("paths", b"d/\xff").unwrap();
        let change = FileChange::new(&odd, ChangeKind::Added, EntryType::File, 0);
        let selection = ChangeSelection { path_bytes: change.path_bytes.map(|bytes| vec![bytes]), ..ChangeSelection::default() };
        assert_eq!(selection.selected().unwrap(), Some(vec![odd]));
        assert_eq!(ChangeSelection::default().selected().unwrap(), None);
        assert!(ChangeSelection { paths: Some(Vec::new()), path_bytes: None }.selected().is_err());
        assert!(ChangeSelection { paths: None, path_bytes: Some(vec!["zz".to_owned()]) }.selected().is_err());
    }

    proptest! {
        #[test]
        fn whatever_is_taken_has_plain_parts(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(path) = RelativePath::parse("paths", &bytes) {
                prop_assert!(path.parts().all(|part| !part.is_empty() && part != b".." && part != b"." && !part.contains(&b'/')));
            }
        }
    }
}
