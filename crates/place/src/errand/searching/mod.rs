//! Searching by name and by content, with as many threads as the environment has processors.

mod content;
mod lines;
mod names;
mod outlet;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::available_parallelism;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::{DirEntry, WalkBuilder, WalkState};
use stead_domain::files::{FilePath, FileProblem};

use crate::tree::trouble::{At, Result, as_path, failure};

pub use content::grep;
pub use names::find;

const MOST_THREADS: usize = 8;
/// What the kernel makes up there has no end.
const MADE_UP: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Visits what lies at and below a path, from several threads.
fn walk(start: &FilePath, all: bool, visit: impl Fn(&DirEntry) -> WalkState + Sync) -> Result<()> {
    fs::metadata(as_path(start)).at(start)?;
    let threads = available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS));
    let mut builder = WalkBuilder::new(as_path(start));
    // Only ignore files that lie inside count, with a repository or without; no setting of whoever runs there.
    builder.standard_filters(!all).git_global(false).require_git(false).follow_links(false).threads(threads);
    builder.filter_entry(|entry| entry.depth() == 0 || !MADE_UP.iter().any(|made_up| entry.path() == Path::new(made_up)));
    let walk = builder.build_parallel();
    let visit = &visit;
    let walked = catch_unwind(AssertUnwindSafe(|| {
        walk.run(|| Box::new(move |entry| entry.map_or(WalkState::Continue, |entry| visit(&entry))));
    }));
    walked.map_err(|_| failure(start, FileProblem::Other, "no threads could be started inside: there are too many processes"))
}

/// The path as it was asked for, and further down from there.
fn named(start: &FilePath, entry: &DirEntry) -> FilePath {
    let path = entry.path().as_os_str().as_bytes();
    let path = if start.as_bytes() == b"." { path.strip_prefix(b"./").unwrap_or(path) } else { path };
    FilePath::found(path)
}

/// Globs as shells know them: one without `/` fits a name anywhere, any other the path from the start on.
struct Globs {
    names: GlobSet,
    paths: GlobSet,
}

impl Globs {
    fn new<'g>(globs: impl IntoIterator<Item = &'g str>, ignore_case: bool) -> Result<Self> {
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let wrong = |error: globset::Error| failure(&FilePath::found("."), FileProblem::Pattern, error);
        for glob in globs {
            let built = GlobBuilder::new(glob.trim_start_matches("./")).literal_separator(true).case_insensitive(ignore_case).build();
            if glob.contains('/') {
                paths.add(built.map_err(wrong)?)
            } else {
                names.add(built.map_err(wrong)?)
            };
        }
        Ok(Self { names: names.build().map_err(wrong)?, paths: paths.build().map_err(wrong)? })
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.paths.is_empty()
    }

    fn fit(&self, start: &FilePath, entry: &DirEntry) -> bool {
        let path = entry.path();
        let below = path.strip_prefix(as_path(start)).unwrap_or(path);
        self.names.is_match(Path::new(path.file_name().unwrap_or(OsStr::new("")))) || self.paths.is_match(below)
    }
}
