//! What a place sees as /dev. Root makes one directory that all places share; where that cannot be, each place gets the host's own devices one
//! by one.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat, openat, symlinkat};
use rustix::mount::MountAttrFlags;

use crate::error::{Error, Result, Step};
use crate::mounts::Tree;
use crate::root::make_directory;
use crate::targets;

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Where something is mounted.
const DIRECTORIES: &[&str] = &["pts", "shm"];

const LINKS: &[(&str, &str)] = &[
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// Makes a directory with everything, or an empty one where devices cannot be made or would not work: only root may make them, and a
/// filesystem may be mounted without.
pub fn build(directory: &Path) -> Result<()> {
    let step = || format!("make {}", directory.display());
    if fill(directory).is_err() {
        fs::remove_dir_all(directory).step(step())?;
        fs::create_dir(directory).step(step())?;
    }
    Ok(())
}

fn fill(directory: &Path) -> io::Result<()> {
    let open_up = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    fs::create_dir(directory)?;
    // Whatever the mask is that it is made under.
    open_up(directory, 0o755)?;
    for name in DIRECTORIES {
        fs::create_dir(directory.join(name))?;
        open_up(&directory.join(name), 0o755)?;
    }
    for (name, target) in LINKS {
        symlink(target, directory.join(name))?;
    }
    for name in DEVICES {
        let (number, made) = (fs::metadata(Path::new("/dev").join(name))?.rdev(), directory.join(name));
        let device = makedev(rustix::fs::major(number), rustix::fs::minor(number));
        mknodat(CWD, &made, FileType::CharacterDevice, Mode::from_raw_mode(0o666), device)?;
        open_up(&made, 0o666)?;
    }
    fs::File::open(directory.join("null")).map(drop)
}

/// Whether a directory has everything: the last thing that is made is there.
pub fn are_there(directory: &Path) -> bool {
    DEVICES.last().is_some_and(|name| directory.join(name).exists())
}

/// Devices that are attached nowhere yet.
pub enum Devices {
    Whole(Tree),
    Each(Vec<(&'static str, Tree)>),
}

impl Devices {
    /// All of them, as they were prepared.
    pub fn whole(directory: &Path) -> Result<Self> {
        let tree = Tree::clone_of(directory)?;
        // Not read-only, because programs set the times of devices. The directory belongs to the host's root, whom no place has.
        tree.harden_device()?;
        Ok(Self::Whole(tree))
    }

    /// The host's own.
    pub fn each() -> Result<Self> {
        let clone = |name: &'static str| {
            let tree = Tree::clone_of(&Path::new("/dev").join(name))?;
            tree.harden_device().map(|()| (name, tree))
        };
        DEVICES.iter().copied().map(clone).collect::<Result<_>>().map(Self::Each)
    }

    /// Makes them the /dev of a root, with terminals and shared memory of the place's own.
    pub fn attach(self, memory: BorrowedFd<'_>, base: BorrowedFd<'_>, own_root: bool, own: &[u64]) -> Result<()> {
        let target = targets::make(base, "dev", true, |device| own.contains(&device))?;
        let found = || targets::find(base, "dev")?.ok_or(Error::Ended);
        let directory = match &self {
            Self::Whole(tree) => {
                tree.attach_on(target.as_fd())?;
                found()?
            }
            // The root is read-only in the end and so is this in it; a layer of the place's own gets no device files.
            Self::Each(_) if own_root => {
                make_directory(memory, "dev", 0o755)?;
                Tree::clone_below(memory, "dev")?.attach_on(target.as_fd())?;
                found()?
            }
            Self::Each(_) => target,
        };
        let directory = directory.as_fd();
        if let Self::Each(devices) = &self {
            for (name, tree) in devices {
                openat(directory, *name, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))
                    .step(format!("make /dev/{name}"))?;
                tree.attach(directory, name)?;
            }
            for name in DIRECTORIES {
                make_directory(directory, name, 0o755)?;
            }
            for (name, target) in LINKS {
                symlinkat(*target, directory, *name).step(format!("link /dev/{name}"))?;
            }
        }
        Tree::new(
            "devpts",
            &[("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620")],
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        )?
        .attach(directory, "pts")?;
        Tree::clone_below(memory, "shm")?.attach(directory, "shm")?;
        if own_root && matches!(self, Self::Each(_)) {
            crate::kernel::set_one_mount_attributes(directory, libc::MOUNT_ATTR_RDONLY).step("make /dev read-only")?;
        }
        Ok(())
    }
}
