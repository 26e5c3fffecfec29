//! Files for what is secret: in memory of their own, written by init alone and by a way that nobody else has. What everybody inside sees is the
//! same directory read-only, on a mount of its own, so that nothing can be put in its place or in its way.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use crate::error::{Result, Step};
use crate::mounts::Tree;
use crate::root::make_directory;
use crate::{apart, targets};

/// More than all secrets of an environment may take; not counted with the files in memory that anybody may make.
const SIZE: &str = "4194304";
const FILES: &str = "4096";
/// Where a file is until it is whole. No secret is called so.
const UNFINISHED: &str = ".unfinished";

/// The way by which it is written.
pub struct Directory(OwnedFd);

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Directory {
    /// Makes it, and shows it at a path of the new root. `memory` is attached, and is gone with the old root.
    pub fn make(path: &Path, memory: BorrowedFd<'_>, base: BorrowedFd<'_>, own: &[u64]) -> Result<Self> {
        let plain = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let files = Tree::new("tmpfs", &[("mode", "0700"), ("size", SIZE), ("nr_inodes", FILES)], plain)?;
        make_directory(memory, "secrets", 0o700)?;
        files.attach(memory, "secrets")?;
        let seen = Tree::clone_below(memory, "secrets")?;
        seen.harden_data()?;
        let target = targets::make(base, &targets::relative(path)?, true, |device| own.contains(&device))?;
        seen.attach_on(target.as_fd())?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(files.as_fd(), ".", flags, Mode::empty()).map(Self).step("open the directory for secrets")
    }

    pub fn above_standard(self) -> Result<Self> {
        apart::above_standard(self.0).map(Self)
    }

    /// Has it hold these and nothing else. Each is there whole or as it was before.
    pub fn replace(&self, files: &[(Vec<u8>, Vec<u8>)]) -> io::Result<()> {
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") && !files.iter().any(|(kept, _)| kept == name.to_bytes()) {
                unlinkat(&self.0, name, AtFlags::empty())?;
            }
        }
        for (name, bytes) in files {
            if name.is_empty() || name.starts_with(b".") || name.contains(&b'/') {
                return Err(Errno::INVAL.into());
            }
            self.write(name, bytes)?;
        }
        Ok(())
    }

    fn write(&self, name: &[u8], bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.0, UNFINISHED, flags, Mode::from_raw_mode(0o400))?;
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(&file, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(error) => {
                    let _ = unlinkat(&self.0, UNFINISHED, AtFlags::empty());
                    return Err(error.into());
                }
            }
        }
        Ok(renameat(&self.0, UNFINISHED, &self.0, name)?)
    }
}
