//! Mounts by descriptor: a tree is cloned, hardened while nobody sees it, and only then put in place.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen, move_mount, open_tree,
};

use crate::error::{Result, Step};
use crate::kernel;
use crate::plan::Access;

const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;
const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NO_EXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// A tree that is attached nowhere yet.
pub struct Tree(OwnedFd);

impl Tree {
    /// A copy of what is at a path, with everything mounted below it.
    pub fn clone_of(path: &Path) -> Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        open_tree(CWD, path, flags).map(Self).step(format!("clone the tree at {}", path.display()))
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

    pub fn temporary(mode: &str, size: &str) -> Result<Self> {
        Self::new(
            "tmpfs",
            &[("mode", mode), ("size", size), ("nr_inodes", "1000000")],
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
        )
    }

    /// No set-user-id program and no device works in it; what may not be written cannot be.
    pub fn harden(&self, access: Access) -> Result<()> {
        let write = if access == Access::ReadOnly { READ_ONLY } else { 0 };
        kernel::set_mount_attributes(self.0.as_fd(), NO_SUID | NO_DEVICES | write, None).step("harden a tree")
    }

    /// Also without programs: for what is only data.
    pub fn harden_data(&self) -> Result<()> {
        kernel::set_mount_attributes(self.0.as_fd(), NO_SUID | NO_DEVICES | READ_ONLY | NO_EXEC, None).step("harden a tree")
    }

    /// Devices stay devices here.
    pub fn harden_device(&self) -> Result<()> {
        kernel::set_mount_attributes(self.0.as_fd(), NO_SUID | NO_EXEC, None).step("harden a device")
    }

    /// Shows the owner of the tree as the place's own user.
    pub fn translate(&self, namespace: BorrowedFd<'_>) -> Result<()> {
        kernel::set_mount_attributes(self.0.as_fd(), 0, Some(namespace))
            .step("translate the owner of a tree (the filesystem may not be able to)")
    }

    /// Puts it at a path below an open directory.
    pub fn attach(&self, base: BorrowedFd<'_>, path: &str) -> Result<()> {
        move_mount(self.0.as_fd(), "", base, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).step(format!("mount at /{path}"))
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
