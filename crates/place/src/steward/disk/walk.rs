//! What files occupy: those that a tree holds, and those that have lost their last name and are still held open.
//!
//! Code inside changes a tree while it is walked, and may mean harm. So no link is followed and no other filesystem entered, and what is
//! held in memory grows with how deep a tree is, never with how many names it has.

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, SeekFrom, Stat, fstat, openat, seek, stat, statat, statfs};

/// What a file counts at least: an empty one, a link and a directory take up something too, and filesystems can run out of them.
const LEAST: u64 = 4096;
/// The unit of what the kernel says of a file.
const BLOCK: u64 = 512;
/// So many directories on the way down are held open. Of those below, the way back leads through `..`.
const HELD: usize = 128;
/// Small, because what is behind a directory that is entered is read once more afterwards.
const LIST: usize = 4096;

/// A directory on the way down to where the walk is.
struct Level {
    identity: (u64, u64),
    held: Option<OwnedFd>,
    /// Where its list goes on.
    next: u64,
}

/// What is at a path and below it. What cannot be looked at counts nothing.
pub fn occupied(path: &Path) -> u64 {
    let Ok(status) = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else { return 0 };
    let mut total = share(&status);
    let Ok(mut at) = open(CWD, path) else { return total };
    let Ok(root) = fstat(&at) else { return total };
    let (mut here, mut next) = (identity(&root), 0);
    let mut above: Vec<Level> = Vec::new();
    loop {
        if let Some((directory, found)) = next_directory(&at, &mut next, root.st_dev, &mut total) {
            let held = (above.len() < HELD).then_some(at);
            above.push(Level { identity: here, held, next });
            (at, here, next) = (directory, found, 0);
            continue;
        }
        // Upwards. A directory that was moved elsewhere has another one above it: then what is left of the unheld ones is missed.
        loop {
            let Some(level) = above.pop() else { return total };
            let back = level.held.or_else(|| {
                let back = open(&at, "..").ok()?;
                (identity(&fstat(&back).ok()?) == level.identity).then_some(back)
            });
            if let Some(back) = back {
                (at, here, next) = (back, level.identity, level.next);
                break;
            }
        }
    }
}

/// Counts what comes in a directory's list, up to the next directory of the same filesystem, which is opened.
fn next_directory(at: &OwnedFd, next: &mut u64, device: u64, total: &mut u64) -> Option<(OwnedFd, (u64, u64))> {
    seek(at, SeekFrom::Start(*next)).ok()?;
    let mut buffer = [MaybeUninit::uninit(); LIST];
    let mut list = RawDir::new(at, &mut buffer);
    while let Some(Ok(entry)) = list.next() {
        *next = entry.next_entry_cookie();
        let name: &CStr = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(status) = statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if status.st_dev != device {
            continue;
        }
        *total += share(&status);
        if FileType::from_raw_mode(status.st_mode).is_dir()
            && let Ok(directory) = open(at, name)
            && let Ok(opened) = fstat(&directory)
            && opened.st_dev == device
        {
            return Some((directory, identity(&opened)));
        }
    }
    None
}

/// What one name of a file stands for: all its names together stand for the file.
fn share(status: &Stat) -> u64 {
    let size = (status.st_blocks as u64 * BLOCK).max(LEAST);
    if FileType::from_raw_mode(status.st_mode).is_dir() { size } else { size / whole(status.st_nlink).max(1) }
}

/// Not every architecture counts names with as many bits.
fn whole(count: impl Into<u64>) -> u64 {
    count.into()
}

fn open(base: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    openat(base, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn identity(status: &Stat) -> (u64, u64) {
    (status.st_dev, status.st_ino)
}

/// Files without a name that a process or one of those below it holds open. Files in memory are not on the disk.
pub fn nameless(first: i32) -> u64 {
    const MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
    let (mut total, mut seen, mut pending) = (0, HashSet::new(), vec![first]);
    while let Some(pid) = pending.pop() {
        for task in names(&format!("/proc/{pid}/task")) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{task}/children")).unwrap_or_default();
            pending.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        }
        for descriptor in names(&format!("/proc/{pid}/fd")) {
            let path = format!("/proc/{pid}/fd/{descriptor}");
            let Ok(status) = stat(&path) else { continue };
            if status.st_nlink != 0 || !FileType::from_raw_mode(status.st_mode).is_file() {
                continue;
            }
            let in_memory = statfs(&path).is_ok_and(|found| MEMORY.contains(&(found.f_type as u32)));
            if !in_memory && seen.insert(identity(&status)) {
                total += status.st_blocks as u64 * BLOCK;
            }
        }
    }
    total
}

fn names(directory: &str) -> impl Iterator<Item = String> {
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn write(path: &Path, size: u64) {
        fs::write(path, vec![1; size as usize]).unwrap();
    }

    #[test]
    fn every_file_counts_once_and_only_what_it_occupies() {
        let directory = tempfile::TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        let empty = occupied(directory.path());
        assert_eq!(empty, LEAST);
        write(&at("one"), MIB);
        assert_eq!(occupied(directory.path()), empty + MIB);
        for name in ["two", "three", "four"] {
            fs::hard_link(at("one"), at(name)).unwrap();
        }
        assert_eq!(occupied(directory.path()), empty + MIB, "names of one file are one file");
        File::create(at("sparse")).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(occupied(directory.path()), empty + MIB + LEAST, "holes are nothing");
        symlink("/usr", at("link")).unwrap();
        assert_eq!(occupied(directory.path()), empty + MIB + 2 * LEAST, "no link is followed");
        assert_eq!(occupied(&at("one")), MIB / 4, "a file by itself is what its name stands for");
        assert_eq!(occupied(&at("missing")), 0);
    }

    #[test]
    fn many_empty_files_are_not_nothing() {
        let directory = tempfile::TempDir::new().unwrap();
        for number in 0..3000 {
            File::create(directory.path().join(format!("file-{number}"))).unwrap();
        }
        for number in 0..500 {
            fs::create_dir_all(directory.path().join(format!("directory-{number}/below"))).unwrap();
        }
        let own = fs::metadata(directory.path()).map(|found| std::os::unix::fs::MetadataExt::blocks(&found) * BLOCK).unwrap();
        assert_eq!(occupied(directory.path()), own + 4000 * LEAST);
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_walked_to_its_end() {
        let directory = tempfile::TempDir::new().unwrap();
        let mut at = open(CWD, directory.path()).unwrap();
        let name = "d".repeat(100);
        for _ in 0..400 {
            rustix::fs::mkdirat(&at, &name, Mode::from_raw_mode(0o755)).unwrap();
            // Beside it, and seen after the way back or before the way down.
            for beside in ["a", "z"] {
                rustix::fs::mkdirat(&at, beside, Mode::from_raw_mode(0o755)).unwrap();
            }
            at = open(&at, name.as_str()).unwrap();
        }
        assert_eq!(occupied(directory.path()), (1 + 3 * 400) * LEAST);
        // Too deep for what removes the directory: taken down from the end.
        for _ in 0..400 {
            at = open(&at, "..").unwrap();
            for name in ["a", "z", name.as_str()] {
                rustix::fs::unlinkat(&at, name, AtFlags::REMOVEDIR).unwrap();
            }
        }
    }

    #[test]
    fn files_that_lost_their_name_are_found_by_who_holds_them() {
        let directory = tempfile::TempDir::new().unwrap();
        let mut file = File::create(directory.path().join("gone")).unwrap();
        file.write_all(&vec![1; MIB as usize]).unwrap();
        let own = std::process::id() as i32;
        let before = nameless(own);
        let twice = file.try_clone().unwrap();
        fs::remove_file(directory.path().join("gone")).unwrap();
        assert_eq!(nameless(own) - before, MIB);
        drop((file, twice));
        assert_eq!(nameless(own), before);
    }
}
