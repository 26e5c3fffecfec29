use std::io::{self, Write};

use crate::failure::Result;

/// A screen of its own, so that what stood on the terminal stands there again afterwards.
pub struct Screen;

impl Screen {
    pub fn open() -> Result<Self> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(b"\x1b[?1049h\x1b[?25l")?;
        stdout.flush()?;
        Ok(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(b"\x1b[?25h\x1b[?1049l").and_then(|()| stdout.flush());
    }
}
