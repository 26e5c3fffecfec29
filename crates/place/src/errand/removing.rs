//! Removing.

use std::fs;

use stead_domain::files::{FilePath, FileProblem};

use crate::tree::trouble::{At, Result, as_path, failure};

/// A link goes, and never what it leads to.
pub fn remove(path: &FilePath, recursive: bool) -> Result<()> {
    let here = as_path(path);
    if here.file_name().is_none() {
        return Err(failure(path, FileProblem::Denied, "it is where paths begin"));
    }
    let metadata = fs::symlink_metadata(here).at(path)?;
    match (metadata.is_dir(), recursive) {
        (false, _) => fs::remove_file(here),
        (true, false) => fs::remove_dir(here),
        (true, true) => fs::remove_dir_all(here),
    }
    .at(path)
}
