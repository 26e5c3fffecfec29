//! A second line behind the mounts: writing only where the plan makes something writable, whatever a mount may let through, and no abstract
//! socket or signal to the outside.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// As the kernel lays it out; one that is older than a field takes the structure without it.
#[repr(C)]
#[derive(Default)]
struct Ruleset {
    files: u64,
    network: u64,
    scopes: u64,
}

#[repr(C, packed)]
struct Below {
    allowed: u64,
    parent: i32,
}

const CREATE: libc::c_long = 444;
const ADD: libc::c_long = 445;
const RESTRICT: libc::c_long = 446;
const VERSION_FLAG: u32 = 1;
const RULE_BELOW: u32 = 1;

const WRITE_FILE: u64 = 1 << 1;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
/// Removing and making of every kind but devices.
const CHANGE: u64 = (1 << 4) | (1 << 5) | (1 << 7) | (1 << 8) | (1 << 9) | (1 << 10) | (1 << 12);
/// Devices are made nowhere.
const DEVICES: u64 = (1 << 6) | (1 << 11);

const ABSTRACT_SOCKETS: u64 = 1;
const SIGNALS: u64 = 2;

/// The first version that keeps abstract sockets apart.
const SCOPES: u32 = 6;

/// What the kernel can do of this; 0 for nothing.
pub fn version() -> u32 {
    let none: *const Ruleset = std::ptr::null();
    // SAFETY: asks for a number and passes no memory.
    let version = unsafe { libc::syscall(CREATE, none, 0_usize, VERSION_FLAG) };
    u32::try_from(version).unwrap_or(0)
}

/// Whether abstract sockets of the host stay out of reach where its network is shared.
pub fn keeps_abstract_sockets_apart() -> bool {
    version() >= SCOPES
}

/// Restricts this process and all that come from it, for good. Needs no-new-privileges. Does as much as the kernel can.
pub fn restrict(writable: &[&str]) -> io::Result<()> {
    let version = version();
    if version == 0 {
        return Ok(());
    }
    let change = CHANGE | WRITE_FILE | if version >= 2 { REFER } else { 0 } | if version >= 3 { TRUNCATE } else { 0 };
    let rules = Ruleset { files: change | DEVICES, network: 0, scopes: if version >= SCOPES { ABSTRACT_SOCKETS | SIGNALS } else { 0 } };
    // Before it had networks and scopes the kernel wants nothing there.
    let size = match version {
        0..=3 => 8_usize,
        4..=5 => 16,
        _ => size_of::<Ruleset>(),
    };
    // SAFETY: the structure is as large as is said, or larger, and lives through the call.
    let rules = unsafe { libc::syscall(CREATE, &raw const rules, size, 0_u32) };
    let rules = i32::try_from(rules).ok().filter(|rules| *rules >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the descriptor was just made and only we know it.
    let rules = unsafe { OwnedFd::from_raw_fd(rules) };
    // Devices and processes have files to write to, and nothing to make.
    let files = change & (WRITE_FILE | TRUNCATE);
    for (path, allowed) in
        [("/dev", files), ("/proc", files), ("/dev/shm", change)].iter().copied().chain(writable.iter().map(|path| (*path, change)))
    {
        let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let is_directory = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode).is_dir();
        allow(&rules, rustix::fd::AsFd::as_fd(&found), if is_directory { allowed } else { allowed & (WRITE_FILE | TRUNCATE) })?;
    }
    // SAFETY: plain system call on a descriptor that we hold.
    let outcome = unsafe { libc::syscall(RESTRICT, rules.as_raw_fd(), 0_u32) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn allow(rules: &OwnedFd, below: BorrowedFd<'_>, allowed: u64) -> io::Result<()> {
    let rule = Below { allowed, parent: below.as_raw_fd() };
    // SAFETY: the structure is laid out as the kernel expects and lives through the call, as does what it names.
    let outcome = unsafe { libc::syscall(ADD, rules.as_raw_fd(), RULE_BELOW, &raw const rule, 0_u32) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
