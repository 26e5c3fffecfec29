//! What lies below one directory, reached by descriptors: no link is followed on the way, whoever puts one there and whenever.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, openat, statat};
use rustix::io::Errno;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::RDONLY).union(OFlags::CLOEXEC);

pub struct Below {
    base: OwnedFd,
    /// The way to the directory that was last asked for: most entries of a tree lie beside each other.
    way: Vec<(Vec<u8>, OwnedFd)>,
}

impl Below {
    pub fn new(base: OwnedFd) -> Self {
        Self { base, way: Vec::new() }
    }

    /// The directory of that way; those that are missing are made.
    pub fn directory(&mut self, names: &[&[u8]]) -> rustix::io::Result<BorrowedFd<'_>> {
        self.reach(names, true)
    }

    /// The directory of that way, if there is one.
    pub fn existing(&mut self, names: &[&[u8]]) -> rustix::io::Result<BorrowedFd<'_>> {
        self.reach(names, false)
    }

    fn reach(&mut self, names: &[&[u8]], make: bool) -> rustix::io::Result<BorrowedFd<'_>> {
        let known = self.way.iter().zip(names).take_while(|((known, _), name)| known == *name).count();
        self.way.truncate(known);
        for name in &names[known..] {
            let parent = self.way.last().map_or(self.base.as_fd(), |(_, directory)| directory.as_fd());
            let opened = match openat(parent, *name, DIRECTORY, Mode::empty()) {
                Err(Errno::NOENT) if make => {
                    match mkdirat(parent, *name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error),
                    }
                    openat(parent, *name, DIRECTORY, Mode::empty())?
                }
                opened => opened?,
            };
            self.way.push((name.to_vec(), opened));
        }
        Ok(self.way.last().map_or(self.base.as_fd(), |(_, directory)| directory.as_fd()))
    }

    /// The same beside the way that is known: for a second directory at the same time.
    pub fn find(&self, names: &[&[u8]]) -> rustix::io::Result<OwnedFd> {
        let mut found = openat(&self.base, c".", DIRECTORY, Mode::empty())?;
        for name in names {
            found = openat(&found, *name, DIRECTORY, Mode::empty())?;
        }
        Ok(found)
    }
}

/// The names of a path that leads nowhere but down; none for any other.
pub fn names(path: &[u8]) -> Option<Vec<&[u8]>> {
    if path.starts_with(b"/") || path.contains(&0) {
        return None;
    }
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").collect();
    (!names.iter().any(|name| *name == b"..")).then_some(names)
}

/// What is there under a name, without following it; none when nothing is.
pub fn kind(directory: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Option<FileType>> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leads_down_is_a_way() {
        for (path, expected) in
            [("a/b", Some(2)), ("./a//b/", Some(2)), ("./", Some(0)), ("a/...", Some(2)), ("/a", None), ("a/../b", None), ("..", None)]
        {
            assert_eq!(names(path.as_bytes()).map(|names| names.len()), expected, "{path}");
        }
    }
}
