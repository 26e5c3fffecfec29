//! Paths inside that cannot be changed, and paths that are not seen.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::error::{Error, Result};
use crate::mounts::Tree;
use crate::plan::Plan;
use crate::root::{self, Bound};
use crate::{reserve, targets};

/// Makes paths read-only again, and holds every directory above them in its place: what is a mount point cannot be renamed.
pub fn protect(base: BorrowedFd<'_>, plan: &Plan, binds: &[Bound], own: &[u64]) -> Result<()> {
    let mut pinned: Vec<String> = Vec::new();
    for path in &plan.protected {
        let path = targets::relative(path)?;
        let under = |bound: &&Bound| path.strip_prefix(&bound.target).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let above = binds.iter().filter(under).max_by_key(|bound| bound.target.len());
        if above.is_some_and(|bound| !bound.writable) {
            continue;
        }
        if targets::find(base, &path)?.is_none() && !stands_for(base, &path, above, own)? {
            continue;
        }
        let begin = above.map_or(0, |bound| bound.target.len() + 1);
        for (end, _) in path.match_indices('/').filter(|(end, _)| *end > begin) {
            let directory = &path[..end];
            if !pinned.iter().any(|pinned| pinned == directory) {
                let Some(found) = targets::find(base, directory)? else { break };
                Tree::clone_at(found.as_fd())?.attach_on(found.as_fd())?;
                pinned.push(directory.to_owned());
            }
        }
        let found = deepest(base, &path)?;
        let tree = Tree::clone_at(found.as_fd())?;
        tree.make_read_only()?;
        tree.attach_on(found.as_fd())?;
    }
    Ok(())
}

/// Of a path that is missing: whether there is something now that takes its place. If not, nobody inside can make it either.
fn stands_for(base: BorrowedFd<'_>, path: &str, above: Option<&Bound>, own: &[u64]) -> Result<bool> {
    let found = deepest(base, path)?;
    if !targets::is_directory(found.as_fd())? {
        // A file where a directory would have to be: as long as it stays, the path cannot be made.
        return Ok(true);
    }
    let is_own = own.contains(&targets::status(found.as_fd())?.st_dev);
    match above {
        // What a layer hides can be made in the layer, and what is in memory goes with the place.
        Some(bound) if bound.layered => targets::make(base, path, false, |_| true).map(|_| true),
        None if is_own => targets::make(base, path, false, |device| own.contains(&device)).map(|_| true),
        None => Ok(false),
        Some(_) => Ok(reserve::is_stand_in(found.as_fd())),
    }
}

/// What is at a path, or the last step of it that is there.
fn deepest(base: BorrowedFd<'_>, path: &str) -> Result<OwnedFd> {
    let mut at = path;
    loop {
        if let Some(found) = targets::find(base, at)? {
            return Ok(found);
        }
        match at.rsplit_once('/') {
            Some((above, _)) => at = above,
            None => return targets::find(base, ".")?.ok_or(Error::Ended),
        }
    }
}

/// Shows paths empty.
pub fn hide(memory: BorrowedFd<'_>, base: BorrowedFd<'_>, plan: &Plan) -> Result<()> {
    for path in &plan.hidden {
        if let Some(found) = targets::find(base, &targets::relative(path)?)? {
            root::empty(memory, targets::is_directory(found.as_fd())?)?.attach_on(found.as_fd())?;
        }
    }
    Ok(())
}
