//! Layers that are mounted somewhere for the moment in which an overlay is made of them. From Linux 6.15 on the kernel also takes those that
//! are attached nowhere, and nothing of this is needed.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::mount::{MountPropagationFlags, MoveMountFlags, UnmountFlags, mount_change, move_mount, unmount};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::error::{Result, Step};

/// Every host has it, and nothing is looked up below it meanwhile.
const POINT: &str = "/sys";
/// The first kernel that makes overlays of what is attached nowhere.
const FIRST: (u32, u32) = (6, 15);

/// Whether this kernel makes overlays of what is attached nowhere.
pub fn is_needless() -> bool {
    at_least(&rustix::system::uname().release().to_string_lossy(), FIRST)
}

fn at_least(release: &str, wanted: (u32, u32)) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= wanted
}

/// In the mounts of a place that is being made, which nobody else sees.
pub fn here<T>(trees: &[BorrowedFd<'_>], work: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut attached = 0;
    let outcome = trees.iter().try_for_each(|tree| attach(*tree).map(|()| attached += 1)).and_then(|()| work());
    for _ in 0..attached {
        unmount(POINT, UnmountFlags::DETACH).step("let go of a layer")?;
    }
    outcome
}

/// In mounts of our own that end with this call, however it ends: the host's are left alone. The caller has one thread.
pub fn elsewhere<T>(trees: &[BorrowedFd<'_>], work: impl FnOnce() -> Result<T>) -> Result<T> {
    let flags = OFlags::CLOEXEC | OFlags::RDONLY;
    let home = open("/proc/self/ns/mnt", flags, Mode::empty()).step("hold the mounts of the host")?;
    let directory = open(".", flags | OFlags::PATH, Mode::empty()).step("hold the working directory")?;
    // SAFETY: nothing that Rust relies on is shared between tasks here: descriptors and memory stay as they are.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.step("make mounts of our own")?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    let outcome = mount_change("/", private)
        .step("part with the mounts of the host")
        .and_then(|()| trees.iter().try_for_each(|tree| attach(*tree)))
        .and_then(|()| work());
    move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::Mount)).step("return to the mounts of the host")?;
    rustix::process::fchdir(&directory).step("return to the working directory")?;
    outcome
}

fn attach(tree: BorrowedFd<'_>) -> Result<()> {
    move_mount(tree, "", CWD, POINT, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).step("mount a layer for a moment")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_apart_by_their_numbers() {
        for (release, expected) in
            [("6.12.117+deb13-cloud-amd64", false), ("6.15.0-rc1", true), ("6.18.44", true), ("7.0", true), ("5.19", false), ("", false)]
        {
            assert_eq!(at_least(release, FIRST), expected, "{release}");
        }
    }
}
