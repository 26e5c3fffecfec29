//! How a command ends.

use std::process::ExitCode;

use stead_domain::Code;
use stead_domain::signal::Signal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Success,
    Failed,
    Usage,
    Conflict,
    NotFound,
    NotAllowed,
    /// What a command inside ended with, or would have.
    Command(u8),
}

impl ExitStatus {
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Conflict => 3,
            Self::NotFound => 4,
            Self::NotAllowed => 5,
            Self::Command(code) => code,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Success,
            2 => Self::Usage,
            3 => Self::Conflict,
            4 => Self::NotFound,
            5 => Self::NotAllowed,
            125..=127 => Self::Command(code),
            _ => Self::Failed,
        }
    }

    /// As a shell says that a signal ended a command.
    pub fn signaled(signal: Signal) -> Self {
        Self::Command(128 + u8::try_from(signal.number()).unwrap_or_default())
    }

    /// From a code of the table, or from the HTTP status when a newer server sent one that is not in it.
    pub fn from_reply(code: &str, status: u16) -> Self {
        if let Some(known) = Code::parse(code) {
            return known.into();
        }
        match status {
            401 | 403 => Self::NotAllowed,
            404 | 410 => Self::NotFound,
            409 | 412 | 423 => Self::Conflict,
            429 => Self::Failed,
            400..=499 => Self::Usage,
            _ => Self::Failed,
        }
    }
}

impl From<Code> for ExitStatus {
    fn from(code: Code) -> Self {
        Self::from_code(code.exit_code())
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_table_keeps_its_exit_code() {
        for code in Code::ALL {
            assert_eq!(ExitStatus::from(*code).code(), code.exit_code(), "{code}");
        }
    }

    #[test]
    fn an_unknown_code_follows_the_status() {
        for (status, expected) in [(400, 2), (401, 5), (403, 5), (404, 4), (409, 3), (412, 3), (422, 2), (429, 1), (500, 1), (503, 1)] {
            assert_eq!(ExitStatus::from_reply("from_the_future", status).code(), expected, "{status}");
        }
        assert_eq!(ExitStatus::from_reply("already_exists", 409), ExitStatus::Conflict);
    }
}
