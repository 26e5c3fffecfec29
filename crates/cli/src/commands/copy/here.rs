//! Trees of this machine, packed and unpacked beside what is sent and received.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bytes::Bytes;
use stead_domain::files::{FileFailure, FilePath};
use stead_domain::{Code, Error};
use stead_place::tree::{Moved, Packing, unpack};
use tokio::sync::mpsc::Sender;
use tokio::task::spawn_blocking;

use super::channel::{Piece, Pieces};
use crate::failure::{Failure, Result};

pub fn as_path(path: &Path) -> FilePath {
    FilePath::found(path.as_os_str().as_bytes())
}

/// Packs what is here; how it went is told beside what was sent.
pub async fn pack(source: &Path, sender: Sender<Piece>) -> Result<Moved> {
    let source = as_path(source);
    in_a_thread(move || {
        let packed = Packing::open(&source)?.pack(|bytes| {
            let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
            sender.blocking_send(Ok(Some(bytes.to_vec()))).map_err(gone)
        });
        // Only a whole one ends.
        if packed.is_ok() {
            let _ = sender.blocking_send(Ok(None));
        }
        packed
    })
    .await
}

/// Unpacks what arrives. It comes from an environment, and stays below the target whatever it says.
pub async fn unpacked(target: &Path, mut pieces: Pieces) -> Result<Moved> {
    let target = as_path(target);
    in_a_thread(move || unpack(&target, || Ok(pieces.wait()?.map(Bytes::from)))).await
}

async fn in_a_thread(work: impl FnOnce() -> std::result::Result<Moved, FileFailure> + Send + 'static) -> Result<Moved> {
    let done = spawn_blocking(work).await.map_err(|error| Error::internal(error.to_string()))?;
    done.map_err(|FileFailure { path, said, why }| {
        let said = if said.is_empty() { format!("{why:?}") } else { said };
        Failure::from(Error::new(Code::LocalFile, format!("`{path}`: {said}")).detail("path", path.to_string()))
    })
}
