//! What can go wrong between a caller and a server.

use std::fmt;

use stead_domain::error::ErrorBody;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered, with an error of its own.
    #[error("{}", body.error.message)]
    Reply { status: u16, body: Box<ErrorBody> },
    #[error("no server answers at {address}: {cause}")]
    Unreachable { address: String, cause: std::io::Error },
    /// The socket is there, and this user may not use it.
    #[error("{address} may not be used by this user")]
    Denied { address: String },
    /// Somebody answers, but with TLS where the address has none, or the other way round.
    #[error("{address} is the wrong kind of address: {} is spoken there", if *secure { "plain http" } else { "https" })]
    Scheme {
        address: String,
        /// Whether the address asked for TLS.
        secure: bool,
        /// The same address with the other scheme.
        instead: String,
    },
    /// The connection broke after the request was on its way: the outcome is unknown.
    #[error("the connection to {address} was lost: {cause}")]
    Lost { address: String, cause: String },
    #[error("{address} did not answer within {seconds} seconds")]
    Timeout { address: String, seconds: u64 },
    /// Something answered that does not speak this API.
    #[error("{address} answered with status {status} and {kind} that this API does not send: {beginning}")]
    NotJson { address: String, status: u16, kind: String, beginning: String },
    /// JSON, but of another shape than this version knows.
    #[error("the reply of {address} is not of the shape that this version knows: {cause}")]
    Shape { address: String, cause: String },
    /// What was to be sent could not be read.
    #[error("what was to be sent could not be read: {cause}")]
    Source { cause: std::io::Error },
    /// A download cannot go on, because the file is another one by now.
    #[error("`{path}` changed while it was read")]
    Changed { path: String },
    #[error("`{url}` is not an address of a server: {problem}")]
    Address { url: String, problem: String },
    #[error("the request could not be written: {cause}")]
    Request { cause: String },
    #[error("the certificate of {address} is not trusted: {problem}")]
    Untrusted { address: String, problem: CertificateProblem },
    #[error("the certificates in {path} cannot be used: {cause}")]
    CertificateFile { path: String, cause: String },
    #[error("TLS cannot be used: {cause}")]
    Tls { cause: String },
}

/// What is wrong with a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateProblem {
    UnknownIssuer,
    /// It is an authority's, and may not be a server's. What `openssl req -x509` makes is one unless it is told otherwise.
    IsAuthority,
    OtherName,
    Expired,
    NotYetValid,
    Other(String),
}

impl fmt::Display for CertificateProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::UnknownIssuer => "it is signed by nobody that is trusted here",
            Self::IsAuthority => "it is the certificate of an authority (CA:TRUE), which signs others and cannot be a server's own",
            Self::OtherName => "it is for other names than the one in the address",
            Self::Expired => "it has expired",
            Self::NotYetValid => "it is not valid yet, or the clock here is wrong",
            Self::Other(text) => text,
        })
    }
}
