//! Files of an environment: what may be asked of them, and what is said back. Everything here is done inside the environment, where it sees
//! what its processes see.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::changes::EntryType;
use crate::error::{Code, Error, Result};
pub use crate::file_search::{FindOrder, GrepLine, GrepOrder, LineFound};
pub use crate::file_watch::FileEvent;
use crate::{Timestamp, hexadecimal};

/// Trees may be deeper than the kernel takes in one call; requests need an end all the same.
const LONGEST_PATH: usize = 64 << 10;

/// A path inside: an absolute one starts at the environment's root, any other one at the workspace. It may hold any byte but NUL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(Vec<u8>);

impl FilePath {
    pub fn parse(field: &str, bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(Error::field(field, "is empty").suggestion("`.` is the workspace, `/` the environment's root"));
        }
        if bytes.contains(&0) || bytes.len() > LONGEST_PATH {
            return Err(Error::field(field, format!("holds a NUL, or is longer than {LONGEST_PATH} bytes")));
        }
        Ok(Self(bytes))
    }

    /// What is known to be a path, because a file system said it.
    pub fn found(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As text, and in hexadecimal digits where that would lose something.
    pub fn shown(&self) -> (String, Option<String>) {
        shown(&self.0)
    }

    /// One name further down.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        match self.0.as_slice() {
            b"." => Self(name.to_vec()),
            path if path.ends_with(b"/") => Self([path, name].concat()),
            path => Self([path, b"/", name].concat()),
        }
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&String::from_utf8_lossy(&self.0))
    }
}

impl Serialize for FilePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&hexadecimal::write(&self.0))
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        hexadecimal::read(&text).map(Self).ok_or_else(|| serde::de::Error::custom("a path is pairs of hexadecimal digits here"))
    }
}

/// What is there under one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileEntry {
    /// As it was asked for, and further down from there. What is not UTF-8 is shown as `�`.
    pub path: String,
    /// The path in hexadecimal digits, only where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub r#type: EntryType,
    pub size: u64,
    /// Permissions, in octal digits.
    #[schema(examples("0644"))]
    pub mode: String,
    pub modified_at: Timestamp,
    /// Where a symbolic link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_bytes: Option<String>,
}

impl FileEntry {
    pub fn new(path: &FilePath, r#type: EntryType, size: u64, mode: u32, modified_at: Timestamp, target: Option<&[u8]>) -> Self {
        let (target, target_bytes) = target.map(shown).unzip();
        let (path, path_bytes) = shown(path.as_bytes());
        Self {
            path,
            path_bytes,
            r#type,
            size,
            mode: format!("{:04o}", mode & 0o7777),
            modified_at,
            target,
            target_bytes: target_bytes.flatten(),
        }
    }

    /// The path as it is, byte for byte.
    pub fn exact_path(&self) -> FilePath {
        let bytes = self.path_bytes.as_deref().and_then(hexadecimal::read);
        FilePath(bytes.unwrap_or_else(|| self.path.clone().into_bytes()))
    }
}

/// As text, and in hexadecimal digits where that would lose something.
fn shown(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(hexadecimal::write(bytes))),
    }
}

/// What a write left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileWritten {
    /// How many bytes the file has now.
    pub size: u64,
}

/// What was unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TreeWritten {
    /// Entries of the archive.
    pub entries: u64,
    /// Bytes of its files.
    pub size: u64,
}

/// A file in one piece of text, as published clients write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFileRequest {
    pub path: String,
    pub content: String,
}

/// From one path to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileTransfer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Instead of `from`, in hexadecimal digits, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_bytes: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Instead of `to`, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_bytes: Option<String>,
    /// Takes the place of what is there.
    #[serde(default)]
    pub overwrite: bool,
}

impl FileTransfer {
    pub fn paths(&self) -> Result<(FilePath, FilePath)> {
        Ok((named("from", self.from.as_deref(), self.from_bytes.as_deref())?, named("to", self.to.as_deref(), self.to_bytes.as_deref())?))
    }
}

/// A directory to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDirectory {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Instead of `path`, in hexadecimal digits, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// Permissions in octal digits, such as `0755`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Makes those that it lies in, and is content with one that is there.
    #[serde(default)]
    pub parents: bool,
}

/// A path that is given as text, or in hexadecimal digits.
pub fn named(field: &str, text: Option<&str>, digits: Option<&str>) -> Result<FilePath> {
    match (text, digits) {
        (Some(text), None) => FilePath::parse(field, text),
        (None, Some(digits)) => {
            let field = format!("{field}_bytes");
            let bytes = hexadecimal::read(digits).ok_or_else(|| Error::field(&field, "must be pairs of hexadecimal digits"))?;
            FilePath::parse(&field, bytes)
        }
        (None, None) => {
            Err(Error::field(field, "must be given").suggestion("relative paths start at the workspace, absolute ones at the root"))
        }
        (Some(_), Some(_)) => Err(Error::field(field, format!("is given twice, also as `{field}_bytes`"))),
    }
}

/// Permissions in octal digits.
pub fn parse_mode(text: &str) -> Result<u32> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777 && text.len() <= 5);
    mode.ok_or_else(|| Error::field("mode", "must be octal digits such as `0644`"))
}

/// What is to be done inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FileOrder {
    Stat {
        path: FilePath,
    },
    /// In the order of the paths, what comes after `after`.
    List {
        path: FilePath,
        recursive: bool,
        after: Option<FilePath>,
        limit: u64,
    },
    Read {
        path: FilePath,
        offset: u64,
        length: Option<u64>,
    },
    /// The bytes follow. It is there as a whole or not at all.
    Write {
        path: FilePath,
        mode: Option<u32>,
        /// Makes the directories that it lies in.
        parents: bool,
    },
    /// The bytes follow. With an offset they belong there, and what was written there before is not written again.
    Append {
        path: FilePath,
        offset: Option<u64>,
        mode: Option<u32>,
    },
    Remove {
        path: FilePath,
        recursive: bool,
    },
    MakeDirectory {
        path: FilePath,
        mode: Option<u32>,
        parents: bool,
    },
    Move {
        from: FilePath,
        to: FilePath,
        overwrite: bool,
    },
    Copy {
        from: FilePath,
        to: FilePath,
        overwrite: bool,
    },
    /// Says [`FileWord::Begun`] and then a tar archive of what is there.
    Pack {
        path: FilePath,
    },
    /// A tar archive follows. It is unpacked into this directory, which is made if it is not there, and nowhere else.
    Unpack {
        path: FilePath,
    },
    /// By name.
    Find(FindOrder),
    /// By content. Says [`FileWord::Begun`] and then a [`GrepLine`] on each line.
    Grep(GrepOrder),
    /// Says [`FileWord::Begun`] and then what changes, until nobody listens any more.
    Watch {
        path: FilePath,
        recursive: bool,
    },
}

impl FileOrder {
    /// Whether anything is another afterwards.
    pub fn changes(&self) -> bool {
        self.writes() || matches!(self, Self::Remove { .. } | Self::Move { .. })
    }

    /// Whether it may take more room than there was.
    pub fn writes(&self) -> bool {
        match self {
            Self::Write { .. } | Self::Append { .. } | Self::MakeDirectory { .. } | Self::Copy { .. } | Self::Unpack { .. } => true,
            Self::Stat { .. } | Self::List { .. } | Self::Read { .. } | Self::Remove { .. } | Self::Move { .. } => false,
            Self::Pack { .. } | Self::Find(_) | Self::Grep(_) | Self::Watch { .. } => false,
        }
    }
}

/// What is said from inside. It comes from where anything may run, and is believed only as far as it concerns files there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum FileWord {
    /// It may be sent what follows.
    Ready,
    Entries {
        entries: Vec<FileEntry>,
    },
    /// It can be done, and what it yields follows.
    Begun,
    /// With the bytes.
    Bytes,
    Events {
        events: Vec<FileEvent>,
    },
    /// It is done. `size` is how far a file reaches, `more` whether a list was cut off, `count` of how many things it was.
    Done {
        size: u64,
        more: bool,
        #[serde(default)]
        count: u64,
    },
    Failed(FileFailure),
}

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFailure {
    pub why: FileProblem,
    pub path: FilePath,
    /// What the kernel said, or how far a file reaches.
    pub said: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileProblem {
    NotFound,
    NotADirectory,
    IsADirectory,
    /// Neither file nor directory: there is nothing to be read from it, or no end of it.
    NotAFile,
    Exists,
    NotEmpty,
    Denied,
    ReadOnly,
    Full,
    /// Longer than the kernel takes.
    TooLong,
    /// Not where the caller believes that it ends.
    WrongOffset,
    /// What was to be unpacked is no archive, or holds what may not be unpacked.
    Archive,
    /// What was to be searched for is no pattern.
    Pattern,
    Other,
}

impl From<FileFailure> for Error {
    fn from(failure: FileFailure) -> Self {
        let FileFailure { why, path, said } = failure;
        let (code, message, suggestion) = match why {
            FileProblem::NotFound => (
                Code::FileNotFound,
                format!("there is no `{path}`"),
                "`stead files ls` shows what is there; relative paths start at the workspace",
            ),
            FileProblem::NotADirectory => {
                (Code::NotADirectory, format!("`{path}` is not a directory, or lies in something that is none"), "name a directory")
            }
            FileProblem::IsADirectory => (
                Code::IsADirectory,
                format!("`{path}` is a directory"),
                "name a file in it; `files/archive` reads and writes whole directories",
            ),
            FileProblem::NotAFile => (
                Code::NotAFile,
                format!("`{path}` is neither a file nor a directory"),
                "pipes, sockets and devices have no content to keep",
            ),
            FileProblem::Exists => {
                (Code::FileExists, format!("`{path}` is there already"), "say `overwrite` to put this in its place, or choose another name")
            }
            FileProblem::NotEmpty => {
                (Code::DirectoryNotEmpty, format!("the directory `{path}` is not empty"), "say `recursive` to remove everything in it")
            }
            FileProblem::Denied => (
                Code::FileDenied,
                format!("`{path}` may not be touched inside: {said}"),
                "its owner or its permissions do not allow it; `stead env posture` shows what is protected",
            ),
            FileProblem::ReadOnly => (
                Code::FileDenied,
                format!("`{path}` is read-only inside"),
                "only the workspace, the runtime directory and what is mounted `rw` can be written; `stead env posture` shows it",
            ),
            FileProblem::Full => {
                (Code::StorageFull, format!("there is no room for `{path}`: {said}"), "remove something, or raise the environment's limit")
            }
            FileProblem::TooLong => (
                Code::PathTooLong,
                format!("a path of {} bytes is longer than the kernel takes: `{}…`", path.as_bytes().len(), shortened(&path)),
                "list without `recursive`, or list, move or remove what lies in it from further down with a command in the environment",
            ),
            FileProblem::WrongOffset => (Code::WrongOffset, format!("`{path}` has {said} bytes"), "go on from there"),
            FileProblem::Archive => (
                Code::InvalidArchive,
                format!("the archive cannot be unpacked: `{path}`: {said}"),
                "send plain tar, whose names and links all lie below its own root",
            ),
            FileProblem::Pattern => return Error::field("pattern", said).suggestion("say `fixed` to search for the text as it is"),
            FileProblem::Other => (Code::FileFailed, format!("`{path}`: {said}"), "`stead files stat` shows what it is"),
        };
        let shown = if why == FileProblem::TooLong { shortened(&path) } else { path.to_string() };
        let error = Error::new(code, message).suggestion(suggestion).detail("path", shown);
        match said.parse::<u64>() {
            Ok(size) if why == FileProblem::WrongOffset => error.detail("size", size),
            _ => error,
        }
    }
}

/// The beginning of a path that is too long to be shown.
fn shortened(path: &FilePath) -> String {
    path.to_string().chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_keeps_every_byte() {
        let odd = FilePath::parse("path", b"dir/\xff \n".to_vec()).unwrap();
        let json = serde_json::to_string(&odd).unwrap();
        assert_eq!(serde_json::from_str::<FilePath>(&json).unwrap(), odd);
        let entry = FileEntry::new(&odd, EntryType::File, 3, 0o100_644, Timestamp::from_microseconds(0), None);
        assert_eq!((entry.exact_path(), entry.mode.as_str()), (odd, "0644"));
        let plain = FilePath::parse("path", "a/ü").unwrap();
        let entry = FileEntry::new(&plain, EntryType::Symlink, 3, 0o777, Timestamp::from_microseconds(0), Some(b"\xfe"));
        assert_eq!((entry.exact_path(), entry.path_bytes, entry.target_bytes.as_deref()), (plain, None, Some("fe")));
        for wrong in [b"".as_slice(), b"a\0b"] {
            assert!(FilePath::parse("path", wrong.to_vec()).is_err());
        }
    }

    #[test]
    fn names_are_joined_as_they_were_asked_for() {
        let path = |text: &str| FilePath::parse("path", text).unwrap();
        for (base, expected) in [(".", "x"), ("/", "/x"), ("a", "a/x"), ("a/", "a/x"), ("/a/b", "/a/b/x")] {
            assert_eq!(path(base).join(b"x"), path(expected));
        }
    }
}
