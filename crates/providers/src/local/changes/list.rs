//! The changes in the order of their paths.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, Stat};
use stead_domain::changes::{ChangeKind, FileChange, RelativePath};

use super::pair::Pair;
use super::{Layer, Obstacle, Result};
use crate::local::entry::{entry_type, file_type, size};

/// A name to be looked at.
struct Item {
    name: OsString,
    /// The layer has something under it; else only the workspace has, in a directory that was replaced as a whole.
    is_written: bool,
}

/// At most `limit` after the first `skip`, only what `below` holds.
pub fn list(layer: Layer<'_>, below: Option<&RelativePath>, skip: u64, limit: usize) -> Result<Vec<FileChange>> {
    let mut seen = 0;
    let mut found = Vec::new();
    visit(layer, below, &mut |change| {
        seen += 1;
        if seen > skip {
            found.push(change);
        }
        if found.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// How many there are.
pub fn count(layer: Layer<'_>, below: Option<&RelativePath>) -> Result<u64> {
    let mut count = 0;
    visit(layer, below, &mut |_| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

type Visitor<'a> = &'a mut dyn FnMut(FileChange) -> ControlFlow<()>;

fn visit(layer: Layer<'_>, below: Option<&RelativePath>, visitor: Visitor<'_>) -> Result<()> {
    let Some(mut pair) = Pair::open(layer)? else { return Ok(()) };
    let first = match below {
        None => items(&pair)?,
        Some(path) => match descend(&mut pair, path)? {
            Some(item) => vec![item],
            None => return Ok(()),
        },
    };
    let top = pair.depth();
    let mut levels = vec![first];
    while let Some(level) = levels.last_mut() {
        let Some(item) = level.pop() else {
            levels.pop();
            if pair.depth() > top {
                pair.leave()?;
            }
            continue;
        };
        let seen = look(&pair, &item)?;
        if let Some(change) = seen.change
            && visitor(change).is_break()
        {
            return Ok(());
        }
        if seen.is_directory {
            match pair.enter(&item.name) {
                Ok(()) => levels.push(items(&pair)?),
                // Whoever made it may not look into it; neither may we, and it is listed by itself.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                // It went away while we looked: the environment may be at work.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Obstacle::from(error).at(&pair.path)),
            }
        }
    }
    Ok(())
}

/// Goes to where a path is, and gives its last name if something is to be said of it.
fn descend(pair: &mut Pair, path: &RelativePath) -> Result<Option<Item>> {
    let parts: Vec<&OsStr> = path.parts().map(OsStr::from_bytes).collect();
    let Some((last, above)) = parts.split_last() else { return Ok(None) };
    for part in above {
        match pair.upper.look(part)? {
            Some(stat) if file_type(&stat) == FileType::Directory => pair.enter(part)?,
            _ => return Ok(None),
        }
    }
    if pair.upper.look(last)?.is_some() {
        return Ok(Some(Item { name: (*last).to_owned(), is_written: true }));
    }
    Ok((pair.hides() && pair.look_below(last)?.is_some()).then(|| Item { name: (*last).to_owned(), is_written: false }))
}

/// The names of the present directory, the last one first.
fn items(pair: &Pair) -> Result<Vec<Item>> {
    let written = pair.upper.names()?;
    let mut all = Vec::new();
    if pair.hides() {
        let hidden = pair.names_below()?.into_iter().filter(|name| written.binary_search(name).is_err());
        all.extend(hidden.map(|name| Item { name, is_written: false }));
    }
    all.extend(written.into_iter().map(|name| Item { name, is_written: true }));
    all.sort_by(|left, right| right.name.cmp(&left.name));
    Ok(all)
}

/// What is to be said of a name.
#[derive(Default)]
struct Seen {
    /// Nothing for one that is gone, or that only leads to others.
    change: Option<FileChange>,
    /// There is more below it.
    is_directory: bool,
}

fn look(pair: &Pair, item: &Item) -> Result<Seen> {
    let name = item.name.as_os_str();
    let told = |kind, stat: &Stat| {
        let mut path = pair.path.clone();
        path.push(name.as_bytes());
        FileChange::new(&path, kind, entry_type(stat), size(stat))
    };
    let before = pair.look_below(name)?;
    let deleted = |before: Option<Stat>| Seen { change: before.map(|before| told(ChangeKind::Deleted, &before)), is_directory: false };
    if !item.is_written {
        return Ok(deleted(before));
    }
    let Some(stat) = pair.upper.look(name)? else { return Ok(Seen::default()) };
    if pair.is_whiteout(name, &stat)? {
        return Ok(deleted(before));
    }
    let is_directory = file_type(&stat) == FileType::Directory;
    let change = match before {
        None => Some(told(ChangeKind::Added, &stat)),
        // A directory that only leads to what was changed says nothing by itself.
        Some(before) if is_directory && before.st_mode == stat.st_mode => None,
        Some(_) => Some(told(ChangeKind::Modified, &stat)),
    };
    Ok(Seen { change, is_directory })
}
