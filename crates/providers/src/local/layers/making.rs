//! One layer in the place of many, or a copy of one: made beside the others, and put in place by a rename.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use stead_app::PlaceError;
use stead_domain::ids::LayerId;
use tokio::task::spawn_blocking;

use super::systems::Systems;
use super::{Asked, IMPORTING, MAKING, Result, Shelf, durable, make_directory};
use crate::local::stack::{self, Stack, copy_layer, merge_layers};
use crate::local::tree;

/// False where a layer holds a part of a system, and what that lies over is not known any more.
pub async fn merge(shelf: Arc<Shelf>, trash: PathBuf, layers: Vec<LayerId>, into: LayerId, systems: Systems) -> Result<bool, PlaceError> {
    make(shelf, trash, into, move |shelf, unfinished, stopped| {
        let found = layers.iter().map(|layer| shelf.find(*layer)).collect::<Result<Vec<_>>>().map_err(failed)?;
        let below = |part: &Path| systems.below(part).map(Stack::new);
        let merged = merge_layers(&found, &below, unfinished, stopped)?;
        if merged {
            durable::bring_to_disk(&[unfinished.to_owned()], &[&shelf.layers]).map_err(failed)?;
        }
        Ok(merged)
    })
    .await
}

/// A copy that shares its blocks. What cannot be copied so can be sealed as it is, once nothing runs.
pub async fn copy(shelf: Arc<Shelf>, trash: PathBuf, layer: LayerId, into: LayerId) -> Result<(), PlaceError> {
    let made = make(shelf, trash, into, move |shelf, unfinished, stopped| {
        let found = shelf.find(layer).map_err(failed)?;
        copy_layer(&found, unfinished, stopped).map_err(|trouble| match trouble {
            stack::Trouble::Stopped => PlaceError::from(trouble),
            trouble if is_full(&trouble) => PlaceError::from(trouble),
            trouble => PlaceError::NeedsStop(format!(
                "the files cannot be copied beside what runs: {trouble} (XFS and Btrfs can, below the data directory)"
            )),
        })?;
        Ok(true)
    });
    made.await.map(drop)
}

fn is_full(trouble: &stack::Trouble) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(trouble, stack::Trouble::At(_, error) if matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem))
}

fn failed(error: std::io::Error) -> PlaceError {
    PlaceError::Failed(error.to_string())
}

/// Has something put into a new directory beside the layers. What is not whole goes again, also when nobody waits for it any more.
async fn make(
    shelf: Arc<Shelf>,
    trash: PathBuf,
    into: LayerId,
    work: impl FnOnce(&Shelf, &Path, &AtomicBool) -> Result<bool, PlaceError> + Send + 'static,
) -> Result<bool, PlaceError> {
    let stopped = Arc::new(AtomicBool::new(false));
    let _asked = Asked(Arc::clone(&stopped));
    let work = move || {
        let unfinished = shelf.unfinished(into);
        make_directory(&unfinished).map_err(failed)?;
        let made = work(&shelf, &unfinished, &stopped);
        if !matches!(made, Ok(true)) {
            let _ = shelf.drop_made(into, &trash);
        }
        made
    };
    spawn_blocking(work).await.map_err(|error| PlaceError::Failed(error.to_string()))?
}

impl Shelf {
    fn unfinished(&self, layer: LayerId) -> PathBuf {
        self.layers.join(format!("{MAKING}{layer}"))
    }

    pub(super) fn place_made(&self, layer: LayerId) -> Result<()> {
        fs::rename(self.unfinished(layer), self.shelved(layer))?;
        fs::File::open(&self.layers)?.sync_all()
    }

    /// Moves it out of the way, as deep as it may be: whoever empties the trash can.
    pub(super) fn drop_made(&self, layer: LayerId, trash: &Path) -> Result<bool> {
        tree::discard(&self.unfinished(layer), &trash.join(layer.to_string()))
    }

    /// Nobody makes or imports any more: what a server left that was ended while it did goes. Before the trash is emptied for the first time.
    pub fn clear(&self, trash: &Path) -> Result<()> {
        for entry in fs::read_dir(&self.layers)? {
            let name = entry?.file_name();
            if [MAKING, IMPORTING].iter().any(|unfinished| name.to_string_lossy().starts_with(unfinished)) {
                tree::discard(&self.layers.join(&name), &trash.join(&name))?;
            }
        }
        Ok(())
    }
}
