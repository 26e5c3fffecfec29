//! What differs between two states of an environment's files.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::changes::{ChangeKind, EntryType, RelativePath};
use crate::hexadecimal;

/// One name that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileDifference {
    /// From the workspace on. What is not UTF-8 is shown as `�`.
    pub path: String,
    /// The path in hexadecimal digits, only where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub kind: ChangeKind,
    /// Of what is there afterwards; of what was there, when it was deleted.
    pub r#type: EntryType,
    /// Of what was there before, only where it was something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_before: Option<EntryType>,
    /// In bytes; not there for what was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_before: Option<u64>,
    /// In bytes; not there for what was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_after: Option<u64>,
    /// In octal digits; not there for what was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_before: Option<String>,
    /// In octal digits; not there for what was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_after: Option<String>,
}

/// What is under a name on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    pub r#type: EntryType,
    pub size: u64,
    pub mode: u32,
}

impl FileDifference {
    pub fn new(path: &RelativePath, kind: ChangeKind, before: Option<Side>, after: Option<Side>) -> Self {
        let text = std::str::from_utf8(path.as_bytes());
        let mode = |side: Side| format!("{:04o}", side.mode & 0o7777);
        let r#type = after.or(before).map_or(EntryType::File, |side| side.r#type);
        Self {
            path: path.to_string(),
            path_bytes: text.is_err().then(|| hexadecimal::write(path.as_bytes())),
            kind,
            r#type,
            type_before: before.map(|before| before.r#type).filter(|before| *before != r#type),
            size_before: before.map(|before| before.size),
            size_after: after.map(|after| after.size),
            mode_before: before.map(mode),
            mode_after: after.map(mode),
        }
    }
}

text_enum! {
    /// What can be said of what a file holds.
    pub enum ContentKind {
        /// Both are text, and the lines that differ are told.
        Text = "text",
        /// At least one is not text.
        Binary = "binary",
        /// At least one is too large to be compared line by line.
        TooLarge = "too_large",
        /// At least one may not be read.
        Unreadable = "unreadable",
        /// Not a file.
        None = "none",
    }
}

/// One name that is not the same in both, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Difference {
    #[serde(flatten)]
    pub file: FileDifference,
    /// Only where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentKind>,
    /// Unified, as `diff -u` writes it; only where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unified: Option<String>,
}

/// A page of differences, in the order of the paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Differences {
    pub items: Vec<Difference>,
    pub has_more: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How many directories could not be looked into, so that differences in them are not told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreadable: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
