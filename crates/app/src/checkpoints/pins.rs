//! Layers that are being read for long. They stay although no row may name them any more; whoever writes down other needs does not wait.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use stead_domain::ids::LayerId;

use crate::App;

/// How many read each.
#[derive(Default)]
pub(crate) struct Pins(Mutex<HashMap<LayerId, usize>>);

impl Pins {
    pub(super) fn hold(&self, layer: &LayerId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(layer)
    }
}

/// Layers that stay until this is dropped.
pub(super) struct Pinned {
    app: App,
    layers: Vec<LayerId>,
}

impl App {
    /// The caller holds `self.layers` for reading, from before it looked which they are.
    pub(super) fn pin(&self, layers: Vec<LayerId>) -> Pinned {
        let mut pins = self.pins.0.lock().unwrap_or_else(PoisonError::into_inner);
        for layer in &layers {
            *pins.entry(*layer).or_default() += 1;
        }
        drop(pins);
        Pinned { app: self.clone(), layers }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut pins = self.app.pins.0.lock().unwrap_or_else(PoisonError::into_inner);
        for layer in &self.layers {
            if let Some(count) = pins.get_mut(layer) {
                *count -= 1;
                if *count == 0 {
                    pins.remove(layer);
                }
            }
        }
        drop(pins);
        // Some may have become unneeded meanwhile.
        self.app.drop_layers_behind(std::mem::take(&mut self.layers));
    }
}
