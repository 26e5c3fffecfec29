//! Copies of the calling process that go on by themselves.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Result, Step};
use crate::kernel::{self, Forked};

/// Refuses unless the calling process has one thread only: in a copy of it no other thread goes on, and no lock that one held is let go.
pub fn refuse_threads() -> Result<()> {
    // To leave a group of threads is granted to who is alone in it, and changes nothing.
    // SAFETY: plain system call; in a process with one thread it does nothing, and in any other it is refused.
    if unsafe { libc::unshare(libc::CLONE_THREAD) } == 0 {
        return Ok(());
    }
    // The kernel counts the threads as links of the directory that lists them.
    let links = rustix::fs::stat("/proc/self/task").step("count the threads of this process")?.st_nlink;
    match links.saturating_sub(2) {
        1 => Ok(()),
        threads => Err(Error::Threads(threads)),
    }
}

/// Runs `work` in a child that goes on without us: in a session of its own, descriptors other than `kept` closed, the standard ones on
/// /dev/null, signals as the kernel gives them. The child ends with what `work` says. Refuses when there is more than one thread.
///
/// Of what `work` holds beside what it is given, no descriptor is open any more. The child is the caller's to wait for.
pub fn fork_apart(kept: Vec<OwnedFd>, work: impl FnOnce(Vec<OwnedFd>) -> i32) -> Result<(i32, OwnedFd)> {
    refuse_threads()?;
    // SAFETY: there is one thread, as was just counted, and it is this one.
    match unsafe { kernel::fork_into(0, None) }.step("fork")? {
        Forked::Parent { pid, pidfd } => Ok((pid, pidfd)),
        Forked::Child => end_with(|| {
            let kept = kept.into_iter().map(above_standard).collect::<Result<Vec<_>>>()?;
            rustix::process::setsid().map(drop).step("leave the session")?;
            close_all_but(&kept)?;
            reset_signals();
            Ok(work(kept))
        }),
    }
}

/// Ends this copy with what `work` says, and never goes back to what the original was doing.
pub fn end_with(work: impl FnOnce() -> Result<i32>) -> ! {
    let status = catch_unwind(AssertUnwindSafe(work));
    let status = status.map_or(101, |outcome| outcome.unwrap_or(125));
    // SAFETY: ends this copy without running what the original registered for its own exit.
    unsafe { libc::_exit(status) }
}

/// The same descriptor out of the way of the standard ones.
pub fn above_standard(descriptor: OwnedFd) -> Result<OwnedFd> {
    if descriptor.as_raw_fd() > 2 {
        return Ok(descriptor);
    }
    rustix::io::fcntl_dupfd_cloexec(&descriptor, 3).step("move a descriptor")
}

/// Of all descriptors that came with the copy, only these stay; the standard ones lead nowhere.
pub fn close_all_but(kept: &[impl AsRawFd]) -> Result<()> {
    let mut numbers: Vec<_> = kept.iter().map(AsRawFd::as_raw_fd).collect();
    numbers.sort_unstable();
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).step("open /dev/null")?;
    for standard in 0..3 {
        // SAFETY: plain system call; what was at 0 to 2 was the original's and nobody here uses it.
        unsafe { libc::dup2(null.as_raw_fd(), standard) };
    }
    if null.as_raw_fd() < 3 {
        // It is one of them now.
        std::mem::forget(null);
    } else {
        drop(null);
    }
    let mut first: libc::c_uint = 3;
    for number in numbers {
        let number = number as libc::c_uint;
        if first < number {
            close_range(first, number - 1)?;
        }
        first = number + 1;
    }
    close_range(first, libc::c_uint::MAX)
}

fn close_range(first: libc::c_uint, last: libc::c_uint) -> Result<()> {
    // SAFETY: plain system call; everything in the range belongs to values that this copy never uses again.
    let outcome = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()).step("close descriptors") }
}

/// What the original did about signals is not for the copy, nor for the programs that it starts.
pub fn reset_signals() {
    // As the kernel lays it out: all zeroes is the default. The C library keeps two signals to itself and would leave them as they are.
    let default = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: the structure is as large as the kernel reads and lives through the call; the default is no code of ours. Those that cannot
        // be changed stay as they are.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), 8_usize) };
    }
    // SAFETY: a zeroed set is the empty set.
    let none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: reads the set; changes only which signals this one thread holds back.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
}

/// From here on a write into a pipe that nobody reads any more is an error, and not the end of this process. For a copy that writes to
/// programs which may stop listening; those that it starts get the default again.
pub fn survive_broken_pipes() {
    ignore(libc::SIGPIPE);
}

/// From here on nobody waits for children that this process makes: the kernel buries them as they end. For who makes copies that go on
/// without it; those that it makes get the default again.
pub fn bury_children() {
    ignore(libc::SIGCHLD);
}

fn ignore(signal: libc::c_int) {
    const IGNORE: u64 = 1;
    let ignored = [IGNORE, 0, 0, 0];
    // SAFETY: as above; to ignore a signal is no code of ours either.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, ignored.as_ptr(), std::ptr::null::<u64>(), 8_usize) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_refused() {
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv());
        assert!(matches!(fork_apart(Vec::new(), |_| 0), Err(Error::Threads(2..))));
        drop(stop);
        let _ = thread.join();
    }
}
