//! What the files of a directory may occupy, held by the filesystem itself: project quotas, as ext4 and XFS have them.
//!
//! Each file belongs to a project, a number. What is made in a directory that hands its project on belongs to the same one, and the
//! filesystem counts for each project what its files occupy and refuses what would be too much. Only whoever is root outside of any user
//! namespace says what belongs where and how much that may be; nothing inside a place can.

mod trial;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

pub use self::trial::try_in;

/// The smallest part of a disk that is counted by the filesystems that keep quotas.
pub const BLOCK: u64 = 4096;

/// `struct fsxattr` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_extent_size: u32,
    _padding: [u8; 8],
}

/// `struct if_dqblk` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Record {
    hard_blocks: u64,
    soft_blocks: u64,
    bytes: u64,
    hard_files: u64,
    soft_files: u64,
    files: u64,
    blocks_grace: u64,
    files_grace: u64,
    valid: u32,
}

const GET_ATTRIBUTES: libc::c_ulong = 0x801c_581f;
const SET_ATTRIBUTES: libc::c_ulong = 0x401c_5820;
/// New files and directories in it get its project.
const HANDS_ON: u32 = 0x200;
const PROJECTS: u32 = 2;
const GET_RECORD: u32 = 0x80_0007;
const SET_RECORD: u32 = 0x80_0008;
/// The bounds of a record, and nothing else of it, are to be set.
const BOUNDS: u32 = 1 | 4;
/// What a record counts its bounds in.
const UNIT: u64 = 1024;

/// What a project may occupy. Zero bounds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    pub bytes: u64,
    pub files: u64,
}

/// What a project occupies, and what it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProjectUsage {
    pub bytes: u64,
    pub files: u64,
    pub bound: Bound,
}

impl ProjectUsage {
    /// Whether nothing at all belongs to it.
    pub fn is_nothing(&self) -> bool {
        self.bytes == 0 && self.files == 0
    }

    /// Whether there is room for one more block and one more file.
    pub fn has_room(&self) -> bool {
        let fits = |used: u64, more: u64, bound: u64| bound == 0 || used.saturating_add(more) <= bound;
        fits(self.bytes, BLOCK, self.bound.bytes) && fits(self.files, 1, self.bound.files)
    }
}

/// Opens what a project is asked of or set on. A link is none, and nobody waits for the other end of a pipe.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
}

fn attributes(file: impl AsFd) -> io::Result<Attributes> {
    let mut found = Attributes::default();
    // SAFETY: the kernel writes one such structure, which lives through the call.
    let outcome = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), GET_ATTRIBUTES, &raw mut found) };
    if outcome == 0 { Ok(found) } else { Err(io::Error::last_os_error()) }
}

/// The project of a directory that hands it on; none of one that does not.
pub fn handed_on_by(directory: impl AsFd) -> io::Result<Option<u32>> {
    let found = attributes(directory)?;
    Ok((found.project != 0 && found.flags & HANDS_ON != 0).then_some(found.project))
}

/// Gives a file or a directory to a project; a directory hands it on from then on. What is in it already stays what it was.
pub fn give(file: impl AsFd, project: u32) -> io::Result<()> {
    let file = file.as_fd();
    let before = attributes(file)?;
    let is_directory = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode).is_dir();
    let flags = if is_directory { before.flags | HANDS_ON } else { before.flags };
    let wanted = Attributes { project, flags, ..before };
    // SAFETY: the kernel reads one such structure, which lives through the call.
    let outcome = unsafe { libc::ioctl(file.as_raw_fd(), SET_ATTRIBUTES, &raw const wanted) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What a project occupies on the filesystem of this file.
pub fn usage(file: impl AsFd, project: u32) -> io::Result<ProjectUsage> {
    let mut record = Record::default();
    match call(file, GET_RECORD, project, &raw mut record) {
        // XFS has no record of what was never there.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(ProjectUsage::default()),
        outcome => outcome?,
    }
    let bound = Bound { bytes: record.hard_blocks.saturating_mul(UNIT), files: record.hard_files };
    Ok(ProjectUsage { bytes: record.bytes, files: record.files, bound })
}

/// Bounds what a project may occupy on the filesystem of this file. It holds at once, also below what there is already.
pub fn hold(file: impl AsFd, project: u32, bound: Bound) -> io::Result<()> {
    let mut record = Record { hard_blocks: bound.bytes / UNIT, hard_files: bound.files, valid: BOUNDS, ..Record::default() };
    call(file, SET_RECORD, project, &raw mut record)
}

fn call(file: impl AsFd, what: u32, project: u32, record: *mut Record) -> io::Result<()> {
    let command = (what << 8) | PROJECTS;
    // SAFETY: the kernel reads or writes one such record, which lives through the call.
    let outcome = unsafe { libc::syscall(libc::SYS_quotactl_fd, file.as_fd().as_raw_fd(), command, project, record) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_are_those_of_the_kernel() {
        assert_eq!((size_of::<Attributes>(), size_of::<Record>()), (28, 72));
    }

    #[test]
    fn there_is_room_as_long_as_one_more_of_everything_fits() {
        let usage =
            |bytes, files, bound_bytes, bound_files| ProjectUsage { bytes, files, bound: Bound { bytes: bound_bytes, files: bound_files } };
        for (found, expected) in [
            (usage(0, 0, 0, 0), true),
            (usage(u64::MAX, u64::MAX, 0, 0), true),
            (usage(BLOCK, 1, 2 * BLOCK, 2), true),
            (usage(BLOCK + 1, 1, 2 * BLOCK, 2), false),
            (usage(0, 2, 2 * BLOCK, 2), false),
            (usage(0, 3, 2 * BLOCK, 2), false),
        ] {
            assert_eq!(found.has_room(), expected, "{found:?}");
        }
    }

    /// Where the temporary directory lies on a filesystem that keeps no quotas, everything says so.
    #[test]
    fn a_filesystem_either_holds_a_bound_or_says_that_it_does_not() {
        let directory = tempfile::TempDir::new().unwrap();
        match try_in(directory.path()) {
            Ok(()) => {}
            Err(why) => {
                println!("not run: {why}");
                assert!(!why.is_empty());
            }
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left of the trial");
    }
}
