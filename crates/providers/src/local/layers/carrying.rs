//! Layers out of this host and into it, as archives. What arrives lies under names that nobody looks for until all of it is whole and on the
//! disk; whoever is cut off leaves what the next start removes.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use stead_app::{ArchivePieces, ArchiveTarget, IncomingArchive, PackedArchive, PlaceError, ProviderError, UnpackedArchive};
use stead_domain::ids::LayerId;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::{Asked, IMPORTING, LocalLayers, Result, Shelf, blocking, durable};
use crate::local::archive::{self, Pieces, Tape, Target, Wanted};
use crate::local::stack::Trouble;
use crate::local::trash::Trash;
use crate::local::tree;

/// So many pieces wait for whoever takes them.
const PIECES: usize = 4;

pub async fn pack(shelf: Arc<Shelf>, manifest: Vec<u8>, layers: Vec<LayerId>) -> Result<PackedArchive, PlaceError> {
    let stopped = Arc::new(AtomicBool::new(false));
    let _asked = Asked(Arc::clone(&stopped));
    let found = {
        let (shelf, layers) = (Arc::clone(&shelf), layers.clone());
        move |number: usize| layers.get(number).map_or_else(|| Err(std::io::ErrorKind::NotFound.into()), |layer| shelf.find(*layer))
    };
    let count = layers.len();
    // Whatever is in the way is found before the first byte is sent.
    let measured = {
        let (manifest, found, stopped) = (manifest.clone(), found.clone(), Arc::clone(&stopped));
        spawn_blocking(move || archive::pack(&manifest, count, &found, None, &stopped))
    };
    let size = measured.await.map_err(|error| PlaceError::Failed(error.to_string()))??;
    let (sender, pieces) = mpsc::channel(PIECES);
    spawn_blocking(move || {
        let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let mut sink = |piece| sender.blocking_send(Ok(piece)).map_err(gone);
        match archive::pack(&manifest, count, &found, Some(&mut sink), &AtomicBool::new(false)) {
            Ok(_) => {}
            Err(Trouble::At(_, error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(trouble) => drop(sender.blocking_send(Err(trouble.into()))),
        }
    });
    Ok(PackedArchive { size, pieces })
}

impl LocalLayers {
    pub(super) async fn open(&self, pieces: ArchivePieces) -> Result<Box<dyn IncomingArchive>, PlaceError> {
        let stopped = Arc::new(AtomicBool::new(false));
        let mut tape = Tape::new(Pieces::new(pieces, Arc::clone(&stopped)));
        let (shelf, trash, asked) = (Arc::clone(&self.shelf), Arc::clone(&self.trash), Asked(Arc::clone(&stopped)));
        let opened = spawn_blocking(move || tape.manifest().map(|(manifest, digest)| (tape, manifest, digest)));
        let (tape, manifest, digest) = opened.await.map_err(|error| PlaceError::Failed(error.to_string()))??;
        Ok(Box::new(Incoming { tape, manifest, digest, shelf, trash, _asked: asked }))
    }
}

struct Incoming {
    tape: Tape<Pieces>,
    manifest: Vec<u8>,
    digest: String,
    shelf: Arc<Shelf>,
    trash: Arc<Trash>,
    _asked: Asked,
}

#[async_trait]
impl IncomingArchive for Incoming {
    fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    async fn unpack(self: Box<Self>, into: ArchiveTarget) -> Result<Box<dyn UnpackedArchive>, PlaceError> {
        let Self { mut tape, digest, shelf, trash, _asked, .. } = *self;
        let ids: Vec<LayerId> = into.layers.iter().map(|(layer, _)| *layer).collect();
        let mut arrived = Arrived { shelf, trash, layers: ids, entries: 0, size: 0 };
        let work = move || {
            let targets = into.layers.iter().map(|(layer, counted)| Target { directory: arrived.unfinished(*layer), counted: *counted });
            let targets: Vec<Target> = targets.collect();
            let unpacked = archive::unpack(&mut tape, digest, &Wanted { targets: &targets, over_host: into.over_host, most: into.most })?;
            let directories: Vec<PathBuf> = targets.into_iter().map(|target| target.directory).collect();
            let layers = arrived.shelf.layers.clone();
            durable::bring_to_disk(&directories, &[&layers]).map_err(|error| PlaceError::from(Trouble::At(Default::default(), error)))?;
            (arrived.entries, arrived.size) = (unpacked.entries, unpacked.size);
            Ok::<_, PlaceError>(arrived)
        };
        let arrived = spawn_blocking(work).await.map_err(|error| PlaceError::Failed(error.to_string()))??;
        Ok(Box::new(arrived))
    }
}

/// Layers that are whole and have no names yet. Whoever lets go of it throws away what was not placed.
struct Arrived {
    shelf: Arc<Shelf>,
    trash: Arc<Trash>,
    layers: Vec<LayerId>,
    entries: u64,
    size: u64,
}

impl Arrived {
    fn unfinished(&self, layer: LayerId) -> PathBuf {
        self.shelf.layers.join(format!("{IMPORTING}{layer}"))
    }
}

#[async_trait]
impl UnpackedArchive for Arrived {
    fn entries(&self) -> u64 {
        self.entries
    }

    fn size(&self) -> u64 {
        self.size
    }

    async fn place(self: Box<Self>) -> Result<(), ProviderError> {
        blocking(move || {
            for layer in &self.layers {
                fs::rename(self.unfinished(*layer), self.shelf.shelved(*layer))?;
            }
            fs::File::open(&self.shelf.layers)?.sync_all()
        })
        .await
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        let mut moved = false;
        for layer in &self.layers {
            match tree::discard(&self.unfinished(*layer), &self.trash.path().join(format!("{IMPORTING}{layer}"))) {
                Ok(there) => moved |= there,
                Err(error) => {
                    tracing::warn!(%layer, %error, "what was imported in part could not be moved out of the way; the next start does it");
                }
            }
        }
        if moved {
            self.trash.empty_behind();
        }
    }
}
