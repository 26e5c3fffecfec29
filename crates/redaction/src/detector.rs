//! For what may be refused but never altered, such as a file that is kept as it is.

use std::fmt;

use crate::{Known, Redactor};

/// Says whether a stream holds any known value.
pub struct Detector(Redactor);

impl fmt::Debug for Detector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Detector").field("found", &self.has_found()).finish_non_exhaustive()
    }
}

impl Detector {
    pub fn new(known: Known) -> Self {
        Self(Redactor::new(known))
    }

    /// Takes what comes next, and says whether any value was in the stream by now. Once it is so, nothing more is looked at.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        if !self.has_found() {
            self.0.look(bytes);
        }
        self.has_found()
    }

    pub fn has_found(&self) -> bool {
        self.0.found() > 0
    }
}
