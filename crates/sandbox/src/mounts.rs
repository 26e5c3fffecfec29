//! Mounts by descriptor: a tree is cloned, hardened while nobody sees it, and only then put in place.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen, move_mount, open_tree,
};

use crate::error::{Result, Step};
use crate::identity::{Identity, Translations};
use crate::kernel;
use crate::plan::Access;
use crate::targets;

const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;
const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NO_EXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// A tree that is attached nowhere yet.
pub struct Tree(OwnedFd);

impl From<OwnedFd> for Tree {
    fn from(tree: OwnedFd) -> Self {
        Self(tree)
    }
}

impl Tree {
    /// A copy of what is at a path, with everything mounted below it.
    pub fn clone_of(path: &Path) -> Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        open_tree(CWD, path, flags).map(Self).step(format!("clone the tree at {}", path.display()))
    }

    /// The same, for a path that somebody settled on before: no step of it may be a link by now.
    pub fn clone_settled(path: &Path) -> Result<Self> {
        let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let held = openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how);
        Self::clone_at(held.step(format!("open {}, of which no step may be a link", path.display()))?.as_fd())
    }

    /// The same of an open path.
    pub fn clone_at(path: BorrowedFd<'_>) -> Result<Self> {
        let flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE | OpenTreeFlags::AT_EMPTY_PATH;
        open_tree(path, "", flags).map(Self).step("clone a tree")
    }

    /// What is at a name in an open directory, with everything mounted below it. A link is none.
    pub fn clone_whole(base: BorrowedFd<'_>, name: &str) -> Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
        open_tree(base, name, flags).map(Self).step(format!("clone the tree at {name}"))
    }

    /// Only what is at a path below an open directory, without what is mounted on it.
    pub fn clone_below(base: BorrowedFd<'_>, path: &str) -> Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        open_tree(base, path, flags).map(Self).step(format!("clone {path}"))
    }

    /// A new filesystem.
    pub fn new(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> Result<Self> {
        let name = || format!("make a {kind}");
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).step(name())?;
        for (key, value) in options {
            let set = if value.is_empty() {
                fsconfig_set_flag(context.as_fd(), *key)
            } else {
                fsconfig_set_string(context.as_fd(), *key, *value)
            };
            set.step(format!("set {key} of a {kind}"))?;
        }
        fsconfig_create(context.as_fd()).step(name())?;
        fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).map(Self).step(name())
    }

    /// Files in memory, at most so many bytes of them; 0 for half of the memory.
    pub fn temporary(mode: &str, size: u64) -> Result<Self> {
        let size = if size == 0 { "50%".to_owned() } else { size.to_string() };
        Self::new(
            "tmpfs",
            &[("mode", mode), ("size", &size), ("nr_inodes", "1000000")],
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
        )
    }

    /// No set-user-id program and no device works in it; what may not be written cannot be.
    pub fn harden(&self, access: Access) -> Result<()> {
        let write = if access == Access::ReadOnly { READ_ONLY } else { 0 };
        self.set(NO_SUID | NO_DEVICES | write)
    }

    /// Also without programs: for what is only data.
    pub fn harden_data(&self) -> Result<()> {
        self.set(NO_SUID | NO_DEVICES | READ_ONLY | NO_EXEC)
    }

    /// Devices stay devices here.
    pub fn harden_device(&self) -> Result<()> {
        self.set(NO_SUID | NO_EXEC)
    }

    /// As it is, but not to be written.
    pub fn make_read_only(&self) -> Result<()> {
        self.set(READ_ONLY)
    }

    fn set(&self, attributes: u64) -> Result<()> {
        kernel::set_mount_attributes(self.0.as_fd(), attributes, None).step("harden a tree")
    }

    /// Shows the owner of a directory or file as the place's own user, in the whole tree.
    pub fn translate_from(&self, owned: BorrowedFd<'_>, identity: Identity, translations: &mut Translations) -> Result<()> {
        let owner = targets::status(owned)?;
        let namespace = translations.of(owner.st_uid, owner.st_gid, identity)?;
        kernel::set_mount_attributes(self.0.as_fd(), 0, Some(namespace))
            .step("translate the owner of a tree (the filesystem may not be able to)")
    }

    /// Puts it at a path below an open directory, of our own making: links would be followed.
    pub fn attach(&self, base: BorrowedFd<'_>, path: &str) -> Result<()> {
        move_mount(self.0.as_fd(), "", base, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).step(format!("mount at /{path}"))
    }

    /// Puts it on an open path.
    pub fn attach_on(&self, target: BorrowedFd<'_>) -> Result<()> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(self.0.as_fd(), "", target, "", flags).step("mount on a path")
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub fn into_fd(self) -> OwnedFd {
        self.0
    }
}
