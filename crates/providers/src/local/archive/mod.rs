//! Layers as one stream, to be carried to another machine, and made again from one that nobody vouches for.
//!
//! It is a tar archive: `stead-archive.json` with the manifest; for each layer its entries below `layers/<number>/` and then
//! `layers/<number>.sha256`, the digest of everything since the layer began; and `end.json` with a digest over all of those. One that was cut
//! off anywhere has no end, and one that was changed anywhere has another.
//!
//! Entries come in the order of a walk, a directory before what is in it, and each name once. So whoever unpacks holds one directory open,
//! makes everything anew and replaces nothing, and there is no way that a link could lead.

mod entry;
mod owners;
mod packing;
mod pieces;
mod sparse;
mod system;
mod tape;
#[cfg(test)]
mod tests;
mod unpacking;

use sha2::{Digest, Sha256};
use stead_app::PlaceError;
use stead_domain::hexadecimal;

pub use packing::pack;
pub use pieces::Pieces;
pub use system::{fingerprint, is_over_host};
pub use tape::Tape;
pub use unpacking::{Target, Wanted, unpack};

const MANIFEST: &[u8] = b"stead-archive.json";
const END: &[u8] = b"end.json";

/// What begins the names of everything in a layer.
fn layer_prefix(number: usize) -> Vec<u8> {
    format!("layers/{number}/").into_bytes()
}

/// The name under which a layer's digest follows it.
fn digest_name(number: usize) -> Vec<u8> {
    format!("layers/{number}.sha256").into_bytes()
}

fn written(hash: Sha256) -> String {
    format!("sha256:{}", hexadecimal::write(&hash.finalize()))
}

/// What is at the end, from the digests of the manifest and of each layer.
fn end(digests: &[String]) -> String {
    let mut hash = Sha256::new();
    digests.iter().for_each(|digest| hash.update(digest));
    format!("{{\"layers\":{},\"digest\":\"{}\"}}\n", digests.len() - 1, written(hash))
}

/// Why an archive cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// An entry that no archive of ours has.
    #[error("its entry `{path}` is refused: {why}")]
    Entry { path: String, why: String },
    #[error("{0}")]
    Archive(String),
    /// Nothing is wrong with it, but it cannot be used here.
    #[error("{message}")]
    Unsupported { message: String, suggestion: String },
    #[error("{path}: {cause}")]
    Io { path: String, cause: std::io::Error },
}

pub type Result<T, E = Trouble> = std::result::Result<T, E>;

impl Trouble {
    fn cut_off() -> Self {
        Self::Archive("the archive ends before its end: it was cut off".to_owned())
    }
}

impl From<Trouble> for PlaceError {
    fn from(trouble: Trouble) -> Self {
        let message = trouble.to_string();
        match trouble {
            Trouble::Entry { path, .. } => {
                Self::Archive { message: format!("the archive cannot be unpacked: {message}"), path: Some(path) }
            }
            Trouble::Archive(_) => Self::Archive { message, path: None },
            Trouble::Unsupported { message, suggestion } => Self::ArchiveUnsupported { message, suggestion },
            Trouble::Io { path, cause } => match cause.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded | std::io::ErrorKind::ReadOnlyFilesystem => {
                    Self::StorageFull(message)
                }
                // The kernel's word for what no archive of ours asks of it.
                std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidFilename | std::io::ErrorKind::FileTooLarge => {
                    Self::Archive { message: format!("the archive cannot be unpacked: {message}"), path: Some(path) }
                }
                _ => Self::Failed(message),
            },
        }
    }
}
