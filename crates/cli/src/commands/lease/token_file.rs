//! A token in a file, readable by its user alone.

use std::path::Path;

use stead_domain::lease::LeaseToken;
use stead_domain::{Code, Error};

use crate::atomic_file;
use crate::failure::Result;
use crate::printer::Printer;

/// Whether it can be written, found out before anything is held: a token that cannot be written down is lost.
pub fn check(path: &Path) -> Result<()> {
    atomic_file::check_directory(path)?;
    if path.symlink_metadata().is_ok() {
        return Err(Error::new(Code::AlreadyExists, format!("{} is there already", path.display()))
            .suggestion("choose another file")
            .into());
    }
    Ok(())
}

/// Writes it down. False when that was not possible after all: then it is told on stdout, because nobody can be told it again.
pub fn write(printer: &Printer, path: &Path, token: &LeaseToken) -> Result<bool> {
    let why = match atomic_file::create_new(path, format!("{}\n", token.0).as_bytes(), 0o600) {
        Ok(true) => return Ok(true),
        // Somebody was faster.
        Ok(false) => format!("{} is there already", path.display()),
        Err(failure) => failure.body().map(|body| body.error.message).unwrap_or_default(),
    };
    printer.warn(&format!("{why}; the token follows"));
    printer.line(&token.0)?;
    Ok(false)
}
