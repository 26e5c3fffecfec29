//! What differs between two stacks, in the order of the paths. It costs what was changed, and not what is there: where both are made of the
//! same directories of the same layers, nothing is read.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Stat, fstat, readlinkat};
use stead_domain::changes::{ChangeKind, RelativePath};
use stead_domain::checkpoint_diff::{FileDifference, Side};

use super::merged::{Entry, Merged};
use super::names::Names;
use super::{Place, Result, Stack, Trouble, contents};
use crate::local::cursor::{Cursor, identity, is_gone};
use crate::local::entry::{entry_type, file_type, is_directory, size};

/// Some of the differences.
#[derive(Debug, Default)]
pub struct Page {
    pub items: Vec<(RelativePath, FileDifference)>,
    /// Behind which path the next ones are, if there are any.
    pub next: Option<RelativePath>,
    /// What could not be looked into, so that differences in it are not told.
    pub unreadable: u64,
}

/// At most `limit`, behind the path that a page before ended with.
pub fn page(before: &Stack, after: &Stack, told: Option<&RelativePath>, limit: usize, stopped: &AtomicBool) -> Result<Page> {
    let mut differences = Differences::open(before, after, stopped)?;
    if let Some(told) = told {
        differences.resume(told)?;
    }
    let mut page = Page::default();
    while let Some(difference) = differences.next()? {
        if page.items.len() >= limit {
            page.next = page.items.last().map(|(path, _)| path.clone());
            break;
        }
        page.items.push(difference);
    }
    page.unreadable = differences.unreadable;
    Ok(page)
}

/// What is to be said of one path.
#[derive(Debug, PartialEq, Eq)]
pub enum One {
    /// Neither has anything of that name.
    Missing,
    Same,
    Different(Box<FileDifference>),
}

/// Two stacks, walked together. Either may have no part in the present directory, and stands further up then.
pub struct Differences<'a> {
    before: Merged,
    after: Merged,
    path: RelativePath,
    levels: Vec<Names>,
    stopped: &'a AtomicBool,
    /// How many entries could not be looked into.
    pub unreadable: u64,
}

/// What is under a name, before and after.
type Sides = (Option<Entry>, Option<Entry>);

impl<'a> Differences<'a> {
    pub fn open(before: &Stack, after: &Stack, stopped: &'a AtomicBool) -> Result<Self> {
        let path = RelativePath::default();
        let (before, after) = (Merged::open(before).at(&path)?, Merged::open(after).at(&path)?);
        Ok(Self { before, after, path, levels: vec![Names::default()], stopped, unreadable: 0 })
    }

    /// Goes behind a path, whether it is still there or not. Only from the top.
    pub fn resume(&mut self, told: &RelativePath) -> Result<()> {
        for part in told.parts().map(OsStr::from_bytes) {
            if let Some(names) = self.levels.last_mut() {
                *names = Names::after(part.to_owned());
            }
            let sides = self.look(part)?;
            if !self.enter(part, &sides)? {
                break;
            }
        }
        Ok(())
    }

    /// What differs of one path, without what lies below it. Only from the top.
    pub fn one(&mut self, path: &RelativePath) -> Result<One> {
        let mut parts = path.parts().map(OsStr::from_bytes).peekable();
        while let Some(part) = parts.next() {
            let sides = self.look(part)?;
            if parts.peek().is_none() && (sides.0.is_some() || sides.1.is_some()) {
                return Ok(self.compare(part, &sides, path)?.map_or(One::Same, |difference| One::Different(Box::new(difference))));
            }
            if !self.enter(part, &sides)? {
                break;
            }
        }
        Ok(One::Missing)
    }

    /// The next one, with its path.
    pub fn next(&mut self) -> Result<Option<(RelativePath, FileDifference)>> {
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(Trouble::Stopped);
            }
            let Some(mut names) = self.levels.pop() else { return Ok(None) };
            let next = names.next(|| self.directories());
            let Some(name) = next.at(&self.path)? else {
                self.leave()?;
                continue;
            };
            self.levels.push(names);
            let sides = self.look(&name)?;
            let mut path = self.path.clone();
            path.push(name.as_bytes());
            let difference = self.compare(&name, &sides, &path)?;
            self.enter(&name, &sides)?;
            if let Some(difference) = difference {
                return Ok(Some((path, difference)));
            }
        }
    }

    fn has_before(&self) -> bool {
        self.before.depth() == self.depth()
    }

    fn has_after(&self) -> bool {
        self.after.depth() == self.depth()
    }

    fn depth(&self) -> usize {
        self.before.depth().max(self.after.depth())
    }

    /// Those whose names may differ. A name that only directories have which both end with is the same in both.
    fn directories(&self) -> Vec<&Cursor> {
        let before = if self.has_before() { self.before.parts() } else { &[] };
        let after = if self.has_after() { self.after.parts() } else { &[] };
        let shared = before.iter().rev().zip(after.iter().rev()).take_while(|(left, right)| left.is(right)).count();
        let before = before[..before.len() - shared].iter().filter_map(|part| self.before.cursor(part));
        before.chain(after[..after.len() - shared].iter().filter_map(|part| self.after.cursor(part))).collect()
    }

    fn look(&mut self, name: &OsStr) -> Result<Sides> {
        let before = if self.has_before() { self.before.look(name) } else { Ok(None) };
        let after = if self.has_after() { self.after.look(name) } else { Ok(None) };
        match (before, after) {
            (Ok(before), Ok(after)) => Ok((before, after)),
            // A directory whose names may be read, and nothing else.
            (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.unreadable += 1;
                Ok((None, None))
            }
            (Err(error), _) | (_, Err(error)) => Err(error).at(&self.path),
        }
    }

    /// Into what is a directory on either side; whether there is one.
    fn enter(&mut self, name: &OsStr, (before, after): &Sides) -> Result<bool> {
        let (had_before, had_after) = (self.has_before(), self.has_after());
        let before = if had_before { step(&mut self.before, name, before).at(&self.path)? } else { Step::Nothing };
        let after = if had_after { step(&mut self.after, name, after).at(&self.path)? } else { Step::Nothing };
        if matches!(before, Step::Unreadable) || matches!(after, Step::Unreadable) {
            // With one side alone, everything in it would seem to differ.
            for (side, outcome) in [(&mut self.before, before), (&mut self.after, after)] {
                if matches!(outcome, Step::Entered) {
                    side.leave().at(&self.path)?;
                }
            }
            self.unreadable += 1;
            return Ok(false);
        }
        let is_entered = matches!(before, Step::Entered) || matches!(after, Step::Entered);
        if is_entered {
            self.path.push(name.as_bytes());
            self.levels.push(Names::default());
        }
        Ok(is_entered)
    }

    fn leave(&mut self) -> Result<()> {
        let (has_before, has_after, depth) = (self.has_before(), self.has_after(), self.depth());
        if depth == 0 {
            return Ok(());
        }
        if has_before {
            self.before.leave().at(&self.path)?;
        }
        if has_after {
            self.after.leave().at(&self.path)?;
        }
        self.path.pop();
        Ok(())
    }

    fn compare(&mut self, name: &OsStr, (before, after): &Sides, path: &RelativePath) -> Result<Option<FileDifference>> {
        let kind = match (before, after) {
            (None, None) => return Ok(None),
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Deleted,
            (Some(before), Some(after)) => {
                if self.are_same(name, before, after).at(path)? {
                    return Ok(None);
                }
                ChangeKind::Modified
            }
        };
        Ok(Some(FileDifference::new(path, kind, before.as_ref().map(side), after.as_ref().map(side))))
    }

    fn are_same(&mut self, name: &OsStr, before: &Entry, after: &Entry) -> io::Result<bool> {
        if identity(&before.stat) == identity(&after.stat) {
            return Ok(true);
        }
        if before.stat.st_mode != after.stat.st_mode {
            return Ok(false);
        }
        match file_type(&after.stat) {
            FileType::Symlink => {
                let target = |side: &Merged, entry| -> io::Result<_> { Ok(readlinkat(side.holder(entry)?, name, Vec::new())?) };
                Ok(target(&self.before, before)? == target(&self.after, after)?)
            }
            FileType::CharacterDevice | FileType::BlockDevice => Ok(before.stat.st_rdev == after.stat.st_rdev),
            FileType::RegularFile => self.are_same_files(name, before, after),
            _ => Ok(true),
        }
    }

    fn are_same_files(&mut self, name: &OsStr, before: &Entry, after: &Entry) -> io::Result<bool> {
        if before.stat.st_size != after.stat.st_size {
            return Ok(false);
        }
        if before.stat.st_size == 0 {
            return Ok(true);
        }
        let (left, right) = match (self.before.open_file(name, before), self.after.open_file(name, after)) {
            (Ok(left), Ok(right)) => (left, right),
            // It was written anew, and what it holds may not be read.
            (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.unreadable += 1;
                return Ok(false);
            }
            // It went away or became something else meanwhile.
            (Err(error), _) | (_, Err(error)) if is_gone(&error) => return Ok(false),
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        let is_file = |stat: Stat| file_type(&stat) == FileType::RegularFile;
        if !is_file(fstat(&left)?) || !is_file(fstat(&right)?) {
            return Ok(false);
        }
        contents::are_same(&left, &right, size(&before.stat), self.stopped)
    }
}

#[derive(Clone, Copy)]
enum Step {
    Nothing,
    Entered,
    Unreadable,
}

fn step(side: &mut Merged, name: &OsStr, entry: &Option<Entry>) -> io::Result<Step> {
    if !entry.as_ref().is_some_and(|entry| is_directory(&entry.stat)) {
        return Ok(Step::Nothing);
    }
    match side.enter(name) {
        Ok(()) => Ok(Step::Entered),
        // Whoever made it may not look into it; neither may we.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Step::Unreadable),
        // It went away while we looked: somebody may be at work.
        Err(error) if is_gone(&error) => Ok(Step::Nothing),
        Err(error) => Err(error),
    }
}

fn side(entry: &Entry) -> Side {
    Side { r#type: entry_type(&entry.stat), size: size(&entry.stat), mode: entry.stat.st_mode }
}
