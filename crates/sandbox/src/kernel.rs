//! System calls that rustix does not have.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The arguments of clone3, as the kernel lays them out (version 2: with `cgroup`).
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

pub enum Forked {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

/// Forks into new namespaces, or into the caller's own if none are given.
///
/// # Safety
///
/// The caller has one thread only: the child is a copy of it in which no other thread, and no lock that one held, goes on.
pub unsafe fn fork_into(namespaces: u64) -> io::Result<Forked> {
    let mut pidfd: RawFd = -1;
    let arguments = CloneArguments {
        flags: namespaces | libc::CLONE_PIDFD as u64,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArguments::default()
    };
    // SAFETY: the structure is laid out as the kernel expects and lives through the call; without CLONE_VM the child has its own memory
    // and goes on from here on its own copy of this stack.
    let outcome = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>()) };
    match outcome {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => {
            // SAFETY: the kernel stored a new descriptor there, which only we know.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Forked::Parent { pid: i32::try_from(pid).unwrap_or(i32::MAX), pidfd })
        }
    }
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Sets attributes on a whole detached tree; with a user namespace, also whose ids are seen in it.
pub fn set_mount_attributes(tree: BorrowedFd<'_>, set: u64, user_namespace: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let attributes = MountAttributes {
        set: set | if user_namespace.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 },
        clear: 0,
        propagation: 0,
        user_namespace: user_namespace.map_or(0, |namespace| namespace.as_raw_fd() as u64),
    };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: an empty C string, and a structure of the size that is given, both alive through the call.
    let outcome = unsafe {
        libc::syscall(libc::SYS_mount_setattr, tree.as_raw_fd(), c"".as_ptr(), flags, &raw const attributes, size_of::<MountAttributes>())
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Brings the loopback interface of this network namespace up.
pub fn bring_loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: ifreq is plain old data, and all zeroes is a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which lives through the call.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
