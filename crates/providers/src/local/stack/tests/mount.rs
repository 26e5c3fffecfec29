//! The kernel's own view of a stack. The mount is attached nowhere, and goes with what holds it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen};
use tempfile::TempDir;

use super::super::Stack;
use super::views;

pub struct Mount {
    held: OwnedFd,
}

impl Mount {
    /// With the options that places use. None where this host lets nobody mount.
    pub fn new(stack: &Stack, upper: &Path, work: &Path) -> Option<Self> {
        let context = match fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC) {
            Ok(context) => context,
            Err(error @ (Errno::PERM | Errno::NODEV | Errno::NOSYS)) => {
                println!("skipped: no overlay can be mounted here: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let set = |key: &str, value: &Path| fsconfig_set_string(context.as_fd(), key, value).unwrap();
        stack.layers.iter().for_each(|layer| set("lowerdir+", layer));
        set("upperdir", upper);
        set("workdir", work);
        fsconfig_set_flag(context.as_fd(), "userxattr").unwrap();
        for (key, value) in [("redirect_dir", "nofollow"), ("metacopy", "off"), ("index", "off")] {
            set(key, Path::new(value));
        }
        fsconfig_create(context.as_fd()).unwrap();
        let held = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).unwrap();
        Some(Self { held })
    }

    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.held.as_raw_fd()))
    }
}

/// A workspace that is sealed again and again.
pub struct House {
    pub directory: TempDir,
    /// The topmost first, without the one that is written to.
    pub sealed: Stack,
    mounts: usize,
}

impl House {
    pub fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let base = directory.path().join("base");
        std::fs::create_dir(&base).unwrap();
        std::fs::create_dir(directory.path().join("upper")).unwrap();
        Self { directory, sealed: Stack::new([base]), mounts: 0 }
    }

    pub fn upper(&self) -> PathBuf {
        self.directory.path().join("upper")
    }

    pub fn stack(&self) -> Stack {
        Stack::new([self.upper()].into_iter().chain(self.sealed.layers.clone()))
    }

    pub fn mount(&mut self) -> Option<Mount> {
        self.mounts += 1;
        let work = self.directory.path().join(format!("work-{}", self.mounts));
        std::fs::create_dir(&work).unwrap();
        Mount::new(&self.sealed, &self.upper(), &work)
    }

    /// Nothing may be mounted.
    pub fn seal(&mut self) {
        let layer = self.directory.path().join(format!("layer-{}", self.sealed.layers.len()));
        std::fs::rename(self.upper(), &layer).unwrap();
        std::fs::create_dir(self.upper()).unwrap();
        self.sealed.layers.insert(0, layer);
    }
}

/// What the kernel shows of a stack that nobody writes to.
pub fn shown(stack: &Stack) -> Option<views::View> {
    at_rest(stack, views::of_tree)
}

/// Names that the kernel lists there, and has nothing under.
pub fn phantoms(stack: &Stack) -> Option<Vec<PathBuf>> {
    at_rest(stack, views::phantoms)
}

fn at_rest<T>(stack: &Stack, look: impl FnOnce(&Path) -> T) -> Option<T> {
    let directory = TempDir::new().unwrap();
    let (upper, work) = (directory.path().join("upper"), directory.path().join("work"));
    std::fs::create_dir(&upper).unwrap();
    std::fs::create_dir(&work).unwrap();
    Some(look(&Mount::new(stack, &upper, &work)?.path()))
}
