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

/// The child is born into a group of the unified hierarchy.
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks into new namespaces, or into the caller's own if none are given, and into a group.
///
/// # Safety
///
/// The caller has one thread only: the child is a copy of it in which no other thread, and no lock that one held, goes on.
pub unsafe fn fork_into(namespaces: u64, group: Option<BorrowedFd<'_>>) -> io::Result<Forked> {
    let mut pidfd: RawFd = -1;
    let arguments = CloneArguments {
        flags: namespaces | libc::CLONE_PIDFD as u64 | group.map_or(0, |_| INTO_CGROUP),
        cgroup: group.map_or(0, |group| group.as_raw_fd() as u64),
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
    set_attributes(tree, set, user_namespace, libc::AT_RECURSIVE)
}

/// Sets attributes on one mount, without those on top of it.
pub fn set_one_mount_attributes(mount: BorrowedFd<'_>, set: u64) -> io::Result<()> {
    set_attributes(mount, set, None, 0)
}

fn set_attributes(tree: BorrowedFd<'_>, set: u64, user_namespace: Option<BorrowedFd<'_>>, reach: libc::c_int) -> io::Result<()> {
    let attributes = MountAttributes {
        set: set | if user_namespace.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 },
        clear: 0,
        // What is mounted on the original later, or here, is nobody else's business.
        propagation: libc::MS_PRIVATE,
        user_namespace: user_namespace.map_or(0, |namespace| namespace.as_raw_fd() as u64),
    };
    let flags = libc::AT_EMPTY_PATH | reach;
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

/// Does something under another owner's ids for files, with all capabilities that we have. Needs root.
pub fn as_owner<T>(uid: u32, gid: u32, work: impl FnOnce() -> rustix::io::Result<T>) -> io::Result<T> {
    let (own_uid, own_gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: plain system call that changes an id of this thread.
    unsafe { libc::setfsgid(gid) };
    // SAFETY: as above.
    unsafe { libc::setfsuid(uid) };
    // The kernel takes some capabilities away together with the id.
    let done = rustix::thread::capabilities(None).and_then(|held| {
        rustix::thread::set_capabilities(None, rustix::thread::CapabilitySets { effective: held.permitted, ..held })?;
        work()
    });
    // SAFETY: as above.
    unsafe { libc::setfsuid(own_uid) };
    // SAFETY: as above.
    unsafe { libc::setfsgid(own_gid) };
    Ok(done?)
}

/// A process that only holds a new user namespace, until it is ended. It shares our memory, so that nothing is copied for it.
pub struct Holder {
    pub pid: i32,
    /// What it stands on.
    _stack: Vec<u8>,
}

impl Holder {
    pub fn new() -> io::Result<Self> {
        let mut stack = vec![0u8; 16 << 10];
        let top = stack.as_mut_ptr_range().end;
        let top = top.wrapping_sub(top as usize % 16);
        let flags = libc::CLONE_VM | libc::CLONE_NEWUSER | libc::SIGCHLD;
        // No handler of ours may run there.
        // SAFETY: all bits set is a set of all signals.
        let all: libc::sigset_t = unsafe { std::mem::transmute([0xff_u8; size_of::<libc::sigset_t>()]) };
        // SAFETY: a zeroed set is the empty set.
        let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: both sets live through the call; changes only which signals this one thread holds back.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        // SAFETY: `hold` takes no argument, runs on a stack of its own that lives longer than it does (see `drop`), and touches no memory of
        // ours beside it.
        let pid = unsafe { libc::clone(hold, top.cast(), flags, std::ptr::null_mut()) };
        let error = io::Error::last_os_error();
        // SAFETY: as for the first call.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
        if pid < 0 { Err(error) } else { Ok(Self { pid, _stack: stack }) }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // SAFETY: plain system call. The pid is a child of ours that nobody has waited for, so it is still its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid) {
            // Also where ends of children are ignored this comes back only when it is gone.
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        }
    }
}

extern "C" fn hold(_: *mut libc::c_void) -> libc::c_int {
    // SAFETY: plain system call; ends this process with the one that made it.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    loop {
        // It ended before we could ask to end with it: then we belong to another.
        // SAFETY: plain system call.
        if unsafe { libc::getppid() } <= 1 {
            // SAFETY: ends only this process.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits on no descriptor for a second.
        unsafe { libc::poll(std::ptr::null_mut(), 0, 1000) };
    }
}
