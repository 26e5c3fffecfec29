//! Watching the files of an environment.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::files::FilePath;

/// What changed. Something may be told twice, and what is gone again before it was seen need not be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileEvent {
    Created(FileNamed),
    /// Its content, its mode or its times.
    Modified(FileNamed),
    Removed(FileNamed),
    Moved {
        from: FileNamed,
        to: FileNamed,
    },
    /// More happened than could be told: look for yourself, and then go on.
    Overflow,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileNamed {
    /// As it was asked for, and further down from there. What is not UTF-8 is shown as `�`.
    pub path: String,
    /// The path in hexadecimal digits, only where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// It is a directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub directory: bool,
}

impl FileNamed {
    pub fn new(path: &FilePath, directory: bool) -> Self {
        let (path, path_bytes) = path.shown();
        Self { path, path_bytes, directory }
    }

    /// The path as it is, byte for byte.
    pub fn exact_path(&self) -> Vec<u8> {
        self.path_bytes.as_deref().and_then(crate::hexadecimal::read).unwrap_or_else(|| self.path.clone().into_bytes())
    }
}

impl FileEvent {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Created(_) => "created",
            Self::Modified(_) => "modified",
            Self::Removed(_) => "removed",
            Self::Moved { .. } => "moved",
            Self::Overflow => "overflow",
        }
    }
}
