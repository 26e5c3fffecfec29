//! What can go wrong between a caller and a server.

use stead_domain::error::ErrorBody;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered, with an error of its own.
    #[error("{}", body.error.message)]
    Reply { status: u16, body: Box<ErrorBody> },
    #[error("no server answers at {address}: {cause}")]
    Unreachable { address: String, cause: std::io::Error },
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
    #[error("`{url}` is not an address of a server: {problem}")]
    Address { url: String, problem: String },
    #[error("the request could not be written: {cause}")]
    Request { cause: String },
    #[error("the certificate of {address} is not trusted: {cause}")]
    Untrusted { address: String, cause: String },
    #[error("TLS cannot be used: {cause}")]
    Tls { cause: String },
}
