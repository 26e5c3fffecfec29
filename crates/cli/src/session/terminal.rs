//! The user's terminal: its size, and its raw mode for as long as a program inside has the keyboard.

use std::io;

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use stead_domain::process::TerminalSize;
use stead_domain::{Code, Error};

use crate::failure::Result;

/// What the API takes at most.
const LARGEST: u16 = 1000;

/// Whether a program inside gets a terminal: only when both ends of ours are one.
pub fn is_ours() -> bool {
    isatty(io::stdin()) && isatty(io::stdout())
}

pub fn size() -> Option<TerminalSize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    // A terminal that does not know its size says 0.
    let told = |length: u16, usual: u16| if length == 0 { usual } else { length.min(LARGEST) };
    Some(TerminalSize { rows: told(size.ws_row, 24), cols: told(size.ws_col, 80) })
}

/// Every key goes inside as it is, until this is dropped.
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    pub fn enter() -> Result<Option<Self>> {
        if !isatty(io::stdin()) {
            return Ok(None);
        }
        let before = tcgetattr(io::stdin()).map_err(|error| failed(&error))?;
        let mode = Self { before };
        mode.set().map_err(|error| failed(&error))?;
        Ok(Some(mode))
    }

    fn set(&self) -> rustix::io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)
    }

    /// After a stop: the shell has taken the terminal back meanwhile.
    pub fn again(&self) {
        let _ = self.set();
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn failed(error: &rustix::io::Errno) -> Error {
    Error::new(Code::LocalFile, format!("the terminal cannot be used: {error}")).suggestion("redirect stdin or stdout to go without one")
}
