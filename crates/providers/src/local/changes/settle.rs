//! Keeping and throwing away. What is kept is on the disk before it leaves the layer, and it leaves in one step: a repetition finds either
//! all of a change in the layer, or nothing of it.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{AtFlags, CWD, FileType, Mode, chmodat, fstat, renameat, syncfs};
use rustix::io::Errno;
use stead_domain::changes::RelativePath;

use super::apply::apply;
use super::copy::Copying;
use super::list::count as counted;
use super::pair::Pair;
use super::workspace::Workspace;
use super::{Layer, Obstacle, Result};
use crate::local::cursor::{Cursor, exists};
use crate::local::entry::file_type;
use crate::local::removal;

/// What was taken out of the layer and is not removed yet.
const GONE: &str = "gone";

pub fn keep_all(layer: Layer<'_>) -> Result<u64> {
    clean(layer)?;
    let Some(mut pair) = Pair::open(layer)? else { return Ok(0) };
    let mut copying = Copying::into_workspace(&fstat(pair.lower.written()?.as_fd())?);
    let (names, count) = (pair.upper.names()?, counted(layer, None)?);
    apply(&mut pair, &mut copying, names)?;
    syncfs(pair.lower.written()?.as_fd())?;
    take_out_all(layer)?;
    clean(layer)?;
    Ok(count)
}

pub fn drop_all(layer: Layer<'_>) -> Result<u64> {
    clean(layer)?;
    let count = counted(layer, None)?;
    take_out_all(layer)?;
    clean(layer)?;
    Ok(count)
}

/// Paths that hold no change are passed over: a repetition finds them so.
pub fn keep_some(layer: Layer<'_>, paths: &[RelativePath]) -> Result<u64> {
    clean(layer)?;
    let (mut count, mut settled) = (0, Vec::new());
    for path in outermost(paths) {
        let Some(mut pair) = Pair::open(layer)? else { break };
        let mut copying = Copying::into_workspace(&fstat(pair.lower.written()?.as_fd())?);
        if let Some(name) = way_down(&mut pair, &mut copying, path)? {
            count += counted(layer, Some(path))?;
            apply(&mut pair, &mut copying, vec![name])?;
            settled.push(path);
        }
    }
    if !settled.is_empty() {
        syncfs(Workspace::open(layer.workspace)?.written()?.as_fd())?;
    }
    for path in settled {
        take_out(layer, path)?;
    }
    clean(layer)?;
    Ok(count)
}

pub fn drop_some(layer: Layer<'_>, paths: &[RelativePath]) -> Result<u64> {
    clean(layer)?;
    let mut count = 0;
    for path in outermost(paths) {
        count += counted(layer, Some(path))?;
        take_out(layer, path)?;
    }
    clean(layer)?;
    Ok(count)
}

/// Without those that another one holds.
fn outermost(paths: &[RelativePath]) -> Vec<&RelativePath> {
    let mut sorted: Vec<&RelativePath> = paths.iter().collect();
    sorted.sort();
    let mut outer: Vec<&RelativePath> = Vec::new();
    for path in sorted {
        if !outer.iter().any(|held| held.holds(path)) {
            outer.push(path);
        }
    }
    outer
}

/// Goes down to where a path is, in both, and makes what the workspace lacks on the way. None when nothing was changed there.
fn way_down(pair: &mut Pair, copying: &mut Copying, path: &RelativePath) -> Result<Option<OsString>> {
    let parts: Vec<&OsStr> = path.parts().map(OsStr::from_bytes).collect();
    let Some((last, above)) = parts.split_last() else { return Ok(None) };
    if !is_changed(pair, above, last)? {
        return Ok(None);
    }
    for part in above {
        let mut here = pair.path.clone();
        here.push(part.as_bytes());
        match pair.lower.look(part)? {
            None => {
                let stat = pair.upper.look(part)?;
                pair.enter(part)?;
                // The workspace has nothing here that could be hidden, and from now on it has something that must not be.
                pair.reveal()?;
                pair.leave()?;
                copying.make_directory(&pair.lower, part)?;
                pair.enter_to_write(part)?;
                if let Some(stat) = stat {
                    rustix::fs::fchmod(pair.lower.written()?.as_fd(), Mode::from_raw_mode(stat.st_mode & 0o777 | 0o700))?;
                }
            }
            Some(there) if file_type(&there) == FileType::Directory => {
                pair.enter_to_write(part)?;
                if pair.hides() {
                    if !pair.names_below()?.is_empty() {
                        return Err(Obstacle::Replaced(here));
                    }
                    pair.reveal()?;
                }
            }
            Some(_) => return Err(Obstacle::Replaced(here)),
        }
    }
    Ok(Some((*last).to_owned()))
}

/// Looked at before anything is made on the way.
fn is_changed(pair: &mut Pair, above: &[&OsStr], last: &OsStr) -> Result<bool> {
    let mut is_there = true;
    for part in above {
        is_there = pair.upper.look(part)?.is_some_and(|stat| file_type(&stat) == FileType::Directory);
        if !is_there {
            break;
        }
        pair.enter(part)?;
    }
    let hidden = is_there && pair.hides() && pair.look_below(last)?.is_some();
    let is_there = is_there && pair.upper.look(last)?.is_some();
    let here = pair.path.clone();
    while pair.depth() > 0 {
        pair.leave()?;
    }
    // Removed with the directory that it was in, which another one has replaced.
    if hidden && !is_there { Err(Obstacle::Replaced(here)) } else { Ok(is_there) }
}

fn take_out_all(layer: Layer<'_>) -> Result<()> {
    if exists(&layer.directory.join("upper"))? {
        make_gone(layer)?;
        move_away(&Cursor::open(layer.directory)?, OsStr::new("upper"), layer)?;
    }
    Ok(())
}

fn take_out(layer: Layer<'_>, path: &RelativePath) -> Result<()> {
    let Some(mut pair) = Pair::open(layer)? else { return Ok(()) };
    let parts: Vec<&OsStr> = path.parts().map(OsStr::from_bytes).collect();
    let Some((last, above)) = parts.split_last() else { return Ok(()) };
    for part in above {
        match pair.upper.look(part)? {
            Some(stat) if file_type(&stat) == FileType::Directory => pair.enter(part)?,
            _ => return Ok(()),
        }
    }
    if pair.upper.look(last)?.is_none() {
        let is_hidden = pair.hides() && pair.look_below(last)?.is_some();
        return if is_hidden { Err(Obstacle::Replaced(pair.path.clone())) } else { Ok(()) };
    }
    make_gone(layer)?;
    move_away(&pair.upper, last, layer)
}

fn make_gone(layer: Layer<'_>) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(layer.directory.join(GONE)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    }
}

/// Out of the layer in one step. Several from one call lie beside each other.
fn move_away(from: &Cursor, name: &OsStr, layer: Layer<'_>) -> Result<()> {
    let gone = layer.directory.join(GONE);
    for number in 0..u32::MAX {
        let to = gone.join(number.to_string());
        if exists(&to)? {
            continue;
        }
        return match renameat(from.as_fd(), name, CWD, &to) {
            // A directory changes its parent only with permission to write into itself.
            Err(Errno::ACCESS) => {
                chmodat(from.as_fd(), name, Mode::RWXU, AtFlags::empty())?;
                Ok(renameat(from.as_fd(), name, CWD, &to)?)
            }
            outcome => Ok(outcome?),
        };
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists).into())
}

/// Removes what was taken out, now or by a call that was cut off.
fn clean(layer: Layer<'_>) -> Result<()> {
    let gone: &Path = &layer.directory.join(GONE);
    if exists(gone)? {
        let left = removal::empty(gone, &AtomicBool::new(false));
        if let Some(cause) = left.cause {
            tracing::warn!(%cause, "changes that are settled could not be removed yet");
        }
    }
    Ok(())
}
