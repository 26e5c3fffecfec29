//! Bytes of any length from inside, as they come.

use std::io::{self, IsTerminal, Write};

use super::escape;
use crate::failure::Result;

/// Where output goes: as it is, or as text that cannot do anything to a terminal.
pub struct Sheet {
    escaped: bool,
    /// The beginning of a character whose end has not come yet.
    rest: Vec<u8>,
}

impl Sheet {
    /// On a terminal it is made harmless unless it is asked for as it is.
    pub fn new(raw: bool) -> Self {
        Self { escaped: io::stdout().is_terminal() && !raw, rest: Vec::new() }
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if !self.escaped {
            return put(bytes);
        }
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let bytes: Vec<u8> = self.rest.drain(..whole).collect();
        put(shown(&bytes).as_bytes())
    }

    pub fn end(self) -> Result<()> {
        put(shown(&self.rest).as_bytes())
    }
}

/// A line that ends as terminals end them is one all the same.
fn shown(bytes: &[u8]) -> String {
    escape::block(&String::from_utf8_lossy(bytes).replace("\r\n", "\n")).into_owned()
}

fn put(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    Ok(stdout.flush()?)
}
