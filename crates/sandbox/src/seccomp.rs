//! The filter that init installs once and everything inside inherits.
//!
//! A binary search over ranges of system call numbers: what the kernel of this code's time has is allowed unless it is listed, what is newer
//! does not exist. Arguments are compared in 32 bits where the kernel reads 32.

use std::io;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the seccomp filter knows the numbers of x86_64 only");

const ARCHITECTURE: u32 = 0xc000_003e;
/// The newest system call that this table was made for. Newer ones are answered as if the kernel did not have them.
const NEWEST: u32 = 467;
/// The bit that marks the x32 numbers, a second way to the same calls.
const X32: u32 = 0x4000_0000;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const NO_FAMILY: u32 = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;
const NO_PROTOCOL: u32 = libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT as u32;
/// Answered as done, without being done.
const PRETEND: u32 = libc::SECCOMP_RET_ERRNO;

/// Opens a mount with other attributes; newer than the names that we have for numbers.
const OPEN_TREE_ATTR: libc::c_long = 467;

/// What nothing inside may do: other namespaces and mounts, the kernel's own keys, programs and memory, other processes' memory, the clock,
/// modules, swap, accounting, and interfaces with a history of holes.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_vhangup,
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS_personality,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_vmsplice,
];

/// These hide their flags and modes from the filter; who is told that they do not exist falls back to clone and openat.
const HIDDEN: &[libc::c_long] = &[libc::SYS_clone3, libc::SYS_openat2];

/// A program with one of these bits runs as whom it belongs to.
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
const NEW_FILE: u32 = libc::O_CREAT as u32 | (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;

const NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32
    | 0x80;

/// What a number leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Return(u32),
    Clone,
    Socket,
    Ioctl,
    Prlimit,
    Setrlimit,
    /// Of any process but the first.
    NotOfFirst,
    /// Of any process but the first, and not of all of a user at once, which the number stands for.
    Priority(u32),
    /// The argument is the mode of a file.
    Mode(u32),
    /// The argument is the mode of a file if the one before it says that one is made.
    ModeOfNew(u32),
}

/// What the filter lets through beside what it always does.
#[derive(Clone, Copy, Default)]
pub struct Allowed {
    pub system: bool,
    pub ptrace: bool,
}

/// In a system of its own it may also change its root and make programs that run as others of that system: on disk they belong to nobody.
fn verdict(number: u32, allowed: Allowed) -> Verdict {
    let call = libc::c_long::from(number);
    let system = allowed.system;
    match call {
        libc::SYS_ptrace | libc::SYS_process_vm_readv | libc::SYS_process_vm_writev if allowed.ptrace => Verdict::Return(ALLOW),
        libc::SYS_chroot | libc::SYS_openat2 if system => Verdict::Return(ALLOW),
        libc::SYS_clone => Verdict::Clone,
        libc::SYS_socket | libc::SYS_socketpair => Verdict::Socket,
        libc::SYS_ioctl => Verdict::Ioctl,
        libc::SYS_prlimit64 => Verdict::Prlimit,
        libc::SYS_setrlimit => Verdict::Setrlimit,
        libc::SYS_sched_setscheduler | libc::SYS_sched_setparam | libc::SYS_sched_setattr | libc::SYS_sched_setaffinity => {
            Verdict::NotOfFirst
        }
        libc::SYS_setpriority => Verdict::Priority(2),
        libc::SYS_ioprio_set => Verdict::Priority(3),
        libc::SYS_chmod | libc::SYS_fchmod | libc::SYS_creat | libc::SYS_mknod if !system => Verdict::Mode(1),
        libc::SYS_fchmodat | libc::SYS_fchmodat2 | libc::SYS_mknodat if !system => Verdict::Mode(2),
        libc::SYS_open if !system => Verdict::ModeOfNew(2),
        libc::SYS_openat if !system => Verdict::ModeOfNew(3),
        _ if REFUSED.contains(&call) => Verdict::Return(REFUSE),
        _ if HIDDEN.contains(&call) => Verdict::Return(ABSENT),
        _ => Verdict::Return(ALLOW),
    }
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP_ANY: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Where the low half of an argument lies in what the filter sees.
fn argument(index: u32) -> u32 {
    16 + index * 8
}

fn block(verdict: Verdict) -> Vec<libc::sock_filter> {
    let give = |value| instruction(RETURN, 0, 0, value);
    match verdict {
        Verdict::Return(value) => vec![give(value)],
        Verdict::Clone => vec![instruction(LOAD, 0, 0, argument(0)), instruction(JUMP_ANY, 0, 1, NAMESPACES), give(REFUSE), give(ALLOW)],
        // Only local, internet and route sockets: no packets, no bluetooth, no way to a hypervisor, no other netlink. Of the internet only
        // TCP, UDP and ping: rarer families can also be had as protocols of this one.
        Verdict::Socket => vec![
            instruction(LOAD, 0, 0, argument(0)),
            instruction(JUMP_EQUAL, 11, 0, libc::AF_UNIX as u32),
            instruction(JUMP_EQUAL, 4, 0, libc::AF_INET as u32),
            instruction(JUMP_EQUAL, 3, 0, libc::AF_INET6 as u32),
            instruction(JUMP_EQUAL, 0, 9, libc::AF_NETLINK as u32),
            instruction(LOAD, 0, 0, argument(2)),
            instruction(JUMP_EQUAL, 6, 7, libc::NETLINK_ROUTE as u32),
            instruction(LOAD, 0, 0, argument(2)),
            instruction(JUMP_EQUAL, 4, 0, libc::IPPROTO_IP as u32),
            instruction(JUMP_EQUAL, 3, 0, libc::IPPROTO_TCP as u32),
            instruction(JUMP_EQUAL, 2, 0, libc::IPPROTO_UDP as u32),
            instruction(JUMP_EQUAL, 1, 0, libc::IPPROTO_ICMP as u32),
            instruction(JUMP_EQUAL, 0, 2, libc::IPPROTO_ICMPV6 as u32),
            give(ALLOW),
            give(NO_FAMILY),
            give(NO_PROTOCOL),
        ],
        // Nothing is typed into a terminal from inside, and none gets another of the kernel's many disciplines.
        Verdict::Ioctl => vec![
            instruction(LOAD, 0, 0, argument(1)),
            instruction(JUMP_EQUAL, 2, 0, libc::TIOCSTI as u32),
            instruction(JUMP_EQUAL, 1, 0, libc::TIOCSETD as u32),
            instruction(JUMP_EQUAL, 0, 1, libc::TIOCLINUX as u32),
            give(REFUSE),
            give(ALLOW),
        ],
        // It serves everybody: who slows it down slows down what it is asked from outside.
        Verdict::NotOfFirst => {
            vec![instruction(LOAD, 0, 0, argument(0)), instruction(JUMP_EQUAL, 0, 1, 1), give(REFUSE), give(ALLOW)]
        }
        Verdict::Priority(all) => vec![
            instruction(LOAD, 0, 0, argument(0)),
            instruction(JUMP_AT_LEAST, 2, 0, all),
            instruction(LOAD, 0, 0, argument(1)),
            instruction(JUMP_EQUAL, 0, 1, 1),
            give(REFUSE),
            give(ALLOW),
        ],
        // What is made here may belong to root on the host, where nobody is to become root by it.
        Verdict::Mode(index) => {
            vec![instruction(LOAD, 0, 0, argument(index)), instruction(JUMP_ANY, 0, 1, SET_ID), give(REFUSE), give(ALLOW)]
        }
        Verdict::ModeOfNew(index) => vec![
            instruction(LOAD, 0, 0, argument(index - 1)),
            instruction(JUMP_ANY, 0, 3, NEW_FILE),
            instruction(LOAD, 0, 0, argument(index)),
            instruction(JUMP_ANY, 0, 1, SET_ID),
            give(REFUSE),
            give(ALLOW),
        ],
        // One's own limits only: those of init are not for others to set. What init has set for core dumps stays: programs that forbid
        // them are told yes, because there are none, and a lower limit would bring the host's handler of crashes into play.
        Verdict::Prlimit => vec![
            instruction(LOAD, 0, 0, argument(0)),
            instruction(JUMP_EQUAL, 0, 7, 0),
            instruction(LOAD, 0, 0, argument(1)),
            instruction(JUMP_EQUAL, 0, 4, libc::RLIMIT_CORE),
            instruction(LOAD, 0, 0, argument(2)),
            instruction(JUMP_EQUAL, 0, 4, 0),
            instruction(LOAD, 0, 0, argument(2) + 4),
            instruction(JUMP_EQUAL, 0, 2, 0),
            give(ALLOW),
            give(REFUSE),
            give(PRETEND),
        ],
        Verdict::Setrlimit => {
            vec![instruction(LOAD, 0, 0, argument(0)), instruction(JUMP_EQUAL, 0, 1, libc::RLIMIT_CORE), give(PRETEND), give(ALLOW)]
        }
    }
}

/// The ranges of numbers with one verdict, in order.
fn ranges(allowed: Allowed) -> Vec<(u32, Verdict)> {
    let mut ranges: Vec<(u32, Verdict)> = Vec::new();
    for number in 0..=NEWEST {
        let verdict = verdict(number, allowed);
        if ranges.last().is_none_or(|(_, last)| *last != verdict) {
            ranges.push((number, verdict));
        }
    }
    ranges.push((NEWEST + 1, Verdict::Return(ABSENT)));
    ranges
}

/// The search: compare with the middle, go on in one half.
fn search(ranges: &[(u32, Verdict)]) -> Vec<libc::sock_filter> {
    let [first, .., _] = ranges else { return ranges.first().map(|(_, verdict)| block(*verdict)).unwrap_or_default() };
    let _ = first;
    let middle = ranges.len() / 2;
    let (below, above) = (search(&ranges[..middle]), search(&ranges[middle..]));
    let mut code = Vec::with_capacity(below.len() + above.len() + 2);
    // Jumps of the kernel's language reach 255 instructions; a longer half is reached by a jump of its own.
    match u8::try_from(below.len()) {
        Ok(skip) => code.push(instruction(JUMP_AT_LEAST, skip, 0, ranges[middle].0)),
        Err(_) => {
            code.push(instruction(JUMP_AT_LEAST, 0, 1, ranges[middle].0));
            code.push(instruction((libc::BPF_JMP | libc::BPF_JA) as u16, 0, 0, below.len() as u32));
        }
    }
    code.extend(below);
    code.extend(above);
    code
}

fn program(allowed: Allowed) -> Vec<libc::sock_filter> {
    let mut code = vec![
        instruction(LOAD, 0, 0, 4),
        instruction(JUMP_EQUAL, 1, 0, ARCHITECTURE),
        instruction(RETURN, 0, 0, KILL),
        instruction(LOAD, 0, 0, 0),
        instruction(JUMP_AT_LEAST, 0, 1, X32),
        instruction(RETURN, 0, 0, KILL),
    ];
    code.extend(search(&ranges(allowed)));
    code
}

/// Installs the filter for good. Needs no-new-privileges.
pub fn install(allowed: Allowed) -> io::Result<()> {
    let code = program(allowed);
    let filter = libc::sock_fprog { len: u16::try_from(code.len()).unwrap_or(u16::MAX), filter: code.as_ptr().cast_mut() };
    // SAFETY: the kernel copies `len` instructions from `filter`, which live through the call, and changes none.
    let outcome = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program as the kernel would.
    fn run(number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(number.to_le_bytes());
        data.extend(ARCHITECTURE.to_le_bytes());
        data.extend(0u64.to_le_bytes());
        arguments.iter().for_each(|argument| data.extend(argument.to_le_bytes()));
        let (code, mut at, mut accumulator) = (program(Allowed::default()), 0usize, 0u32);
        loop {
            let step = code[at];
            at += 1;
            let mut jump = |condition: bool| at += usize::from(if condition { step.jt } else { step.jf });
            match step.code {
                LOAD => accumulator = u32::from_le_bytes(data[step.k as usize..step.k as usize + 4].try_into().unwrap()),
                JUMP_EQUAL => jump(accumulator == step.k),
                JUMP_AT_LEAST => jump(accumulator >= step.k),
                JUMP_ANY => jump(accumulator & step.k != 0),
                RETURN => return step.k,
                _ => at += step.k as usize,
            }
        }
    }

    #[test]
    fn every_number_gets_its_verdict() {
        for number in 0..1000 {
            let expected = if number > NEWEST { Verdict::Return(ABSENT) } else { verdict(number, Allowed::default()) };
            if let Verdict::Return(value) = expected {
                assert_eq!(run(number, [0; 6]), value, "{number}");
            }
        }
        assert_eq!(run(X32 | 1, [0; 6]), KILL);
        assert!(program(Allowed::default()).len() < 400, "{}", program(Allowed::default()).len());
    }

    #[test]
    fn arguments_are_compared_in_the_half_that_the_kernel_reads() {
        let high = 1 << 32;
        let call = |number: libc::c_long, arguments| run(u32::try_from(number).unwrap(), arguments);
        assert_eq!(call(libc::SYS_ioctl, [0, libc::TIOCSTI, 0, 0, 0, 0]), REFUSE);
        assert_eq!(call(libc::SYS_ioctl, [0, libc::TIOCSTI | high, 0, 0, 0, 0]), REFUSE);
        assert_eq!(call(libc::SYS_ioctl, [0, libc::TIOCGWINSZ, 0, 0, 0, 0]), ALLOW);
        assert_eq!(call(libc::SYS_clone, [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0]), REFUSE);
        assert_eq!(call(libc::SYS_clone, [(libc::CLONE_VM | libc::CLONE_THREAD) as u64, 0, 0, 0, 0, 0]), ALLOW);
        assert_eq!(call(libc::SYS_socket, [libc::AF_INET as u64, 1, 0, 0, 0, 0]), ALLOW);
        assert_eq!(call(libc::SYS_socket, [libc::AF_UNIX as u64, 1, 0, 0, 0, 0]), ALLOW);
        for protocol in [libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6] {
            assert_eq!(call(libc::SYS_socket, [libc::AF_INET6 as u64, 1, protocol as u64, 0, 0, 0]), ALLOW);
        }
        for protocol in [libc::IPPROTO_SCTP, libc::IPPROTO_MPTCP, libc::IPPROTO_UDPLITE, libc::IPPROTO_RAW] {
            assert_eq!(call(libc::SYS_socket, [libc::AF_INET as u64, 1, protocol as u64 | high, 0, 0, 0]), NO_PROTOCOL);
        }
        assert_eq!(call(libc::SYS_socket, [libc::AF_VSOCK as u64, 1, 0, 0, 0, 0]), NO_FAMILY);
        assert_eq!(call(libc::SYS_socket, [libc::AF_NETLINK as u64, 3, libc::NETLINK_ROUTE as u64, 0, 0, 0]), ALLOW);
        assert_eq!(call(libc::SYS_socket, [libc::AF_NETLINK as u64, 3, libc::NETLINK_NETFILTER as u64, 0, 0, 0]), NO_FAMILY);
        assert_eq!(call(libc::SYS_prlimit64, [0; 6]), ALLOW);
        assert_eq!(call(libc::SYS_prlimit64, [1, 0, 0, 0, 0, 0]), REFUSE);
        let core = u64::from(libc::RLIMIT_CORE);
        for (new, expected) in [(0, ALLOW), (7, PRETEND), (high, PRETEND)] {
            assert_eq!(call(libc::SYS_prlimit64, [0, core, new, 0, 0, 0]), expected);
            assert_eq!(call(libc::SYS_prlimit64, [0, core | high, new, 0, 0, 0]), expected);
        }
        assert_eq!(call(libc::SYS_prlimit64, [0, 7, 7, 0, 0, 0]), ALLOW);
        assert_eq!(call(libc::SYS_setrlimit, [core, 7, 0, 0, 0, 0]), PRETEND);
        assert_eq!(call(libc::SYS_setrlimit, [7, 7, 0, 0, 0, 0]), ALLOW);
        assert_eq!(call(libc::SYS_clone3, [0; 6]), ABSENT);
        assert_eq!(call(libc::SYS_openat2, [0; 6]), ABSENT);
        assert_eq!(call(libc::SYS_sched_setaffinity, [1, 8, 0, 0, 0, 0]), REFUSE);
        assert_eq!(call(libc::SYS_sched_setaffinity, [0, 8, 0, 0, 0, 0]), ALLOW);
        for (arguments, expected) in [([0, 0], ALLOW), ([0, 1], REFUSE), ([1, 1], REFUSE), ([1, 7], ALLOW), ([2, 7], REFUSE)] {
            assert_eq!(call(libc::SYS_setpriority, [arguments[0], arguments[1], 5, 0, 0, 0]), expected);
            assert_eq!(call(libc::SYS_ioprio_set, [arguments[0] + 1, arguments[1], 5, 0, 0, 0]), expected);
        }
        for mode in [0o4755, 0o2755, 0o6000 | high] {
            assert_eq!(call(libc::SYS_chmod, [0, mode, 0, 0, 0, 0]), REFUSE);
            assert_eq!(call(libc::SYS_fchmodat, [0, 0, mode, 0, 0, 0]), REFUSE);
            assert_eq!(call(libc::SYS_openat, [0, 0, libc::O_CREAT as u64, mode, 0, 0]), REFUSE);
            assert_eq!(call(libc::SYS_open, [0, libc::O_TMPFILE as u64, mode, 0, 0, 0]), REFUSE);
            // Without a new file the mode is whatever was left in the register.
            assert_eq!(call(libc::SYS_openat, [0, 0, libc::O_DIRECTORY as u64, mode, 0, 0]), ALLOW);
        }
        assert_eq!(call(libc::SYS_chmod, [0, 0o1777, 0, 0, 0, 0]), ALLOW);
    }
}
