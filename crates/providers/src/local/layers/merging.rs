//! One layer in the place of many: made beside them, brought to the disk, and put in place by a rename.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use stead_app::PlaceError;
use stead_domain::ids::LayerId;
use tokio::task::spawn_blocking;

use super::{Asked, MERGING, PARTS, Result, Shelf, durable, make_directory};
use crate::local::stack::{Stack, merge_layers};

/// False where a layer holds parts of a system: what they lie over is the host's, and nobody here knows what that hides.
pub async fn merge(shelf: Arc<Shelf>, layers: Vec<LayerId>, into: LayerId) -> Result<bool, PlaceError> {
    let stopped = Arc::new(AtomicBool::new(false));
    let _asked = Asked(Arc::clone(&stopped));
    let work = move || {
        let failed = |error: std::io::Error| PlaceError::Failed(error.to_string());
        let found = layers.iter().map(|layer| shelf.find(*layer)).collect::<Result<Vec<_>>>().map_err(failed)?;
        if found.iter().any(|layer| layer.join(PARTS[1]).exists()) {
            return Ok(false);
        }
        let unfinished = shelf.layers.join(format!("{MERGING}{into}"));
        make_directory(&unfinished).map_err(failed)?;
        let nothing = |_: &Path| Stack::default();
        let merged = merge_layers(&found, &nothing, &unfinished, &stopped)
            .map_err(PlaceError::from)
            .and_then(|()| durable::bring_to_disk(std::slice::from_ref(&unfinished), &[&shelf.layers]).map_err(failed));
        if merged.is_err() {
            let _ = fs::remove_dir_all(&unfinished);
        }
        merged.map(|()| true)
    };
    spawn_blocking(work).await.map_err(|error| PlaceError::Failed(error.to_string()))?
}

impl Shelf {
    pub(super) fn place_merged(&self, layer: LayerId) -> Result<()> {
        fs::rename(self.layers.join(format!("{MERGING}{layer}")), self.shelved(layer))?;
        fs::File::open(&self.layers)?.sync_all()
    }
}
