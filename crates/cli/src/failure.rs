//! Why a command failed, whoever found out: this program, the connection or the server.

use std::io;
use std::path::Path;

use serde_json::Value;
use stead_client::{CertificateProblem, ClientError};
use stead_domain::error::{ErrorBody, ErrorContent};
use stead_domain::{Code, Error};

use crate::exit_status::ExitStatus;

pub type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Debug)]
pub enum Failure {
    /// A code of the table, with all that is known.
    Domain(Error),
    /// The server's own words, kept as they came.
    Reply { status: u16, body: Box<ErrorBody> },
    /// Whoever read our output has gone: nothing more to say, and nobody to say it to.
    OutputClosed,
    /// Everything has been said already; only the exit status is left.
    Told(ExitStatus),
}

impl Failure {
    pub fn exit_status(&self) -> ExitStatus {
        match self {
            Self::Domain(error) => error.code().into(),
            Self::Reply { status, body } => ExitStatus::from_reply(&body.error.code, *status),
            Self::OutputClosed => ExitStatus::Success,
            Self::Told(status) => *status,
        }
    }

    /// The error in the API's shape, when there is still one to show.
    pub fn body(&self) -> Option<ErrorBody> {
        match self {
            Self::Domain(error) => Some(error.body(None)),
            Self::Reply { body, .. } => Some((**body).clone()),
            Self::OutputClosed | Self::Told(_) => None,
        }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::Domain(Error::new(Code::Usage, message))
    }
}

/// What to do next, out of an error's details.
pub fn suggestion(content: &ErrorContent) -> Option<&str> {
    content.details.as_ref()?.get("suggestion").and_then(Value::as_str)
}

/// A file that could not be used, named.
pub fn file_error(doing: &str, path: &Path, error: &io::Error) -> Failure {
    Error::new(Code::LocalFile, format!("cannot {doing} {}: {error}", path.display())).detail("path", path.display().to_string()).into()
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Domain(error)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        let (code, suggestion) = match error {
            ClientError::Denied { .. } => {
                (Code::Forbidden, "run as the user who runs the server, or give its address and a key: --url URL --key-file FILE")
            }
            ClientError::Scheme { instead, secure, .. } => {
                let more = if secure { "; a key then travels unencrypted" } else { "" };
                return Self::Domain(Error::new(Code::Unreachable, message).suggestion(format!("use {instead}{more}")));
            }
            ClientError::Reply { status, body } => return Self::Reply { status, body },
            ClientError::Unreachable { .. } => (Code::Unreachable, "check the address with `stead config show`, or run `stead doctor`"),
            ClientError::Lost { .. } => (Code::Unreachable, "look whether it was done before trying again; `stead doctor` finds more"),
            ClientError::Timeout { .. } => (Code::Unreachable, "try again, or run `stead doctor`"),
            ClientError::NotJson { .. } => (Code::Unreachable, "the address may belong to another service: `stead config show`"),
            ClientError::Shape { .. } => (Code::Unreachable, "the server may be of another version: `stead status`"),
            ClientError::Source { .. } => (Code::LocalFile, "look whether it is still there and may be read"),
            ClientError::Changed { .. } => (Code::Conflict, "read it again from the beginning"),
            ClientError::Address { .. } => (Code::Usage, "give an address such as http://127.0.0.1:7070"),
            ClientError::Request { .. } => (Code::Usage, "check the arguments"),
            ClientError::Untrusted { problem, .. } => (Code::Unreachable, about_certificate(&problem)),
            ClientError::CertificateFile { .. } => (Code::LocalFile, "name a file of certificates in PEM with --ca-file"),
            ClientError::Tls { .. } => (Code::Unreachable, "install the certificates of your system (package ca-certificates)"),
        };
        Self::Domain(Error::new(code, message).suggestion(suggestion))
    }
}

fn about_certificate(problem: &CertificateProblem) -> &'static str {
    match problem {
        CertificateProblem::UnknownIssuer => {
            "if it is the right server, say --ca-file FILE with its certificate or that of its authority; `stead login` keeps it in the profile"
        }
        CertificateProblem::IsAuthority => {
            "give the server a certificate of its own: signed by that authority, or self-signed with -addext basicConstraints=critical,CA:FALSE"
        }
        CertificateProblem::OtherName => "use the name that the certificate is for, or give the server one that names this address",
        CertificateProblem::Expired => "give the server a new certificate",
        CertificateProblem::NotYetValid => "check the clocks here and on the server",
        CertificateProblem::Other(_) => "look at the certificate with openssl s_client -connect HOST:PORT",
    }
}

/// Only output is written with `?` on plain I/O errors; files go through [`file_error`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::OutputClosed;
        }
        Self::Domain(Error::new(Code::LocalFile, format!("cannot write the output: {error}")))
    }
}
