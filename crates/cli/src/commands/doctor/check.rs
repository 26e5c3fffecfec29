//! One thing that was looked at.

use serde::{Serialize, Serializer};

use super::repair::Repair;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    Warn,
    Fail,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[derive(Debug, Serialize)]
pub struct Check {
    /// Never changes its meaning, so that it can be looked up.
    pub code: &'static str,
    pub name: &'static str,
    pub status: Status,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    #[serde(skip)]
    pub repair: Option<Repair>,
}

impl Check {
    pub fn ok(code: &'static str, name: &'static str, message: impl Into<String>) -> Self {
        Self { code, name, status: Status::Ok, message: message.into(), next: None, repair: None }
    }

    pub fn warn(code: &'static str, name: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { status: Status::Warn, next: Some(next.into()), ..Self::ok(code, name, message) }
    }

    pub fn fail(code: &'static str, name: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { status: Status::Fail, next: Some(next.into()), ..Self::ok(code, name, message) }
    }

    #[must_use]
    pub fn repaired_by(self, repair: Repair) -> Self {
        Self { repair: Some(repair), ..self }
    }
}
