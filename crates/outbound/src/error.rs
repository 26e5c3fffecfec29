//! Why there is no reply. An address is told without its path, and nothing of what was sent or received is.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("`{0}` is no address such as https://vault.example:8200")]
    Address(String),
    #[error("{address} cannot be reached: {cause}")]
    Unreachable { address: String, cause: std::io::Error },
    #[error("{address} has a certificate that is not trusted here: {cause}")]
    Untrusted { address: String, cause: String },
    #[error("{address} did not answer in time")]
    Late { address: String },
    #[error("{address} broke off: {cause}")]
    Interrupted { address: String, cause: String },
    #[error("{address} answered with more than {limit} bytes")]
    TooLarge { address: String, limit: usize },
    #[error("the certificates of {path} cannot be used: {cause}")]
    Certificates { path: PathBuf, cause: String },
    #[error("this machine has no certificates to trust: {0}")]
    NoCertificates(String),
}
