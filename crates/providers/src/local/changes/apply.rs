//! Carries what the layer has into the workspace. The layer stays as it is, so that whoever was cut off begins again.

use std::ffi::{OsStr, OsString};
use std::io;

use rustix::fs::{AtFlags, FileType, Mode, Stat, chmodat};

use super::copy::Copying;
use super::pair::Pair;
use super::workspace::UNFINISHED;
use super::{Obstacle, Result};
use crate::local::entry::file_type;

/// Applies some names of the present directory with everything below them.
pub fn apply(pair: &mut Pair, copying: &mut Copying, names: Vec<OsString>) -> Result<()> {
    let top = pair.depth();
    let mut levels: Vec<(Vec<OsString>, Option<Stat>)> = vec![(reversed(names), None)];
    while let Some((names, own)) = levels.last_mut() {
        let Some(name) = names.pop() else {
            let own = *own;
            levels.pop();
            pair.lower.clear().map_err(|error| Obstacle::from(error).at(&pair.path))?;
            if pair.depth() > top {
                let path = pair.path.clone();
                let left = pair.leave()?;
                if let (Some(left), Some(own)) = (left, own) {
                    copying.finish_directory(&left, &own).map_err(|error| Obstacle::from(error).at(&path))?;
                }
            }
            continue;
        };
        let mut path = pair.path.clone();
        path.push(name.as_encoded_bytes());
        if let Some(stat) = one(pair, copying, &name).map_err(|obstacle| obstacle.at(&path))? {
            enter(pair, &name, &stat, Pair::enter_to_write).map_err(|obstacle| obstacle.at(&path))?;
            let names = pair.upper.names().map_err(|error| Obstacle::from(error).at(&path))?;
            levels.push((reversed(names), Some(stat)));
        }
    }
    Ok(())
}

/// Applies one name. What is in a directory comes next, and then it gets this mode.
fn one(pair: &mut Pair, copying: &mut Copying, name: &OsStr) -> Result<Option<Stat>> {
    if name == UNFINISHED {
        return Ok(None);
    }
    let Some(stat) = pair.upper.look(name)? else { return Ok(None) };
    if pair.is_whiteout(name, &stat)? {
        pair.lower.remove(name)?;
        return Ok(None);
    }
    match file_type(&stat) {
        FileType::Directory => {
            if let Some(there) = pair.lower.look(name)?
                && (file_type(&there) != FileType::Directory || replaces(pair, name, &stat)?)
            {
                pair.lower.remove(name)?;
            }
            if pair.lower.look(name)?.is_none() {
                copying.make_directory(&pair.lower, name)?;
            }
            Ok(Some(stat))
        }
        FileType::CharacterDevice | FileType::BlockDevice => {
            let mut path = pair.path.clone();
            path.push(name.as_encoded_bytes());
            Err(Obstacle::Device(path))
        }
        _ => {
            copying.copy(pair.upper.as_fd(), &pair.lower, name, &stat)?;
            Ok(None)
        }
    }
}

/// Whether the layer's directory stands in the place of the workspace's, instead of adding to it.
fn replaces(pair: &mut Pair, name: &OsStr, stat: &Stat) -> Result<bool> {
    enter(pair, name, stat, Pair::enter)?;
    let hides = pair.hides();
    pair.leave()?;
    Ok(hides)
}

/// Also into a directory that its owner may not look into: the layer's is on its way out, and the workspace's gets its mode at the end.
fn enter(pair: &mut Pair, name: &OsStr, stat: &Stat, enter: fn(&mut Pair, &OsStr) -> io::Result<()>) -> Result<()> {
    match enter(pair, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && stat.st_mode & 0o700 != 0o700 => {
            chmodat(pair.upper.as_fd(), name, Mode::RWXU, AtFlags::empty())?;
            let written = pair.lower.written()?;
            if written.look(name)?.is_some_and(|there| file_type(&there) == FileType::Directory) {
                chmodat(written.as_fd(), name, Mode::RWXU, AtFlags::empty())?;
            }
            Ok(enter(pair, name)?)
        }
        outcome => Ok(outcome?),
    }
}

fn reversed(mut names: Vec<OsString>) -> Vec<OsString> {
    names.reverse();
    names
}
