//! Searching the files of an environment, by name and by content.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::files::{FileEntry, FilePath};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindOrder {
    pub path: FilePath,
    /// A glob; everything when there is none.
    pub pattern: Option<String>,
    pub ignore_case: bool,
    /// Also what is hidden, and what ignore files name.
    pub all: bool,
    pub limit: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepOrder {
    pub path: FilePath,
    pub pattern: String,
    /// The pattern is a text and no regular expression.
    pub fixed: bool,
    pub ignore_case: bool,
    /// Only files that one of these fits; all when there are none.
    pub globs: Vec<String>,
    pub all: bool,
    /// Lines that are shown before and after each one.
    pub context: u64,
    /// The most matches.
    pub limit: u64,
}

/// What was found by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FilesFound {
    pub items: Vec<FileEntry>,
    /// There is more than the limit.
    pub truncated: bool,
}

/// A line of what is said of a search by content. The last one is `end`; without it the search was cut off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GrepLine {
    Match(LineFound),
    /// Beside a match.
    Context(LineFound),
    End {
        /// Lines that match.
        matches: u64,
        /// Files with such lines.
        files: u64,
        /// Files that could not be read.
        skipped: u64,
        /// There is more than the limit.
        truncated: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LineFound {
    /// What is not UTF-8 is shown as `�`.
    pub path: String,
    /// The path in hexadecimal digits, only where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub line_number: u64,
    /// Where the line begins in the file.
    pub offset: u64,
    /// Without what ends the line.
    pub text: String,
    /// The line in hexadecimal digits, only where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_bytes: Option<String>,
    /// The line is longer than what is shown of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Where in the line, in bytes, each match begins and ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<[u64; 2]>,
}

impl LineFound {
    /// The path as it is, byte for byte.
    pub fn exact_path(&self) -> Vec<u8> {
        self.path_bytes.as_deref().and_then(crate::hexadecimal::read).unwrap_or_else(|| self.path.clone().into_bytes())
    }
}
