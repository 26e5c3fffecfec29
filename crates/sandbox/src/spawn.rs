//! From init to a program: a child that shares init's memory until it becomes the program, so that nothing is copied.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::place::{StartFailure, StartStep};

/// Everything the child needs, made ready before it is born: it may not allocate.
pub struct Prepared {
    /// The places to look for the program, in order.
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    directory: CString,
    /// The kernel's numbers of what is bounded, and the bounds.
    limits: Vec<(u64, u64)>,
    descriptors: [OwnedFd; 3],
    /// They are a terminal, and it is to be the program's own.
    terminal: bool,
}

impl Prepared {
    pub fn new(
        argv: Vec<Vec<u8>>,
        env: Vec<Vec<u8>>,
        directory: Vec<u8>,
        limits: Vec<(u64, u64)>,
        descriptors: [OwnedFd; 3],
        terminal: bool,
    ) -> Result<Self, StartFailure> {
        let failure = |step, number| StartFailure { step, cause: io::Error::from_raw_os_error(number) };
        let text = |step| move |bytes: Vec<u8>| CString::new(bytes).map_err(|_| failure(step, libc::EINVAL));
        let program = argv.first().cloned().unwrap_or_default();
        if program.is_empty() {
            return Err(failure(StartStep::Program, libc::ENOENT));
        }
        let candidates = if program.contains(&b'/') {
            vec![program]
        } else {
            let path = env.iter().find_map(|entry| entry.strip_prefix(b"PATH=")).unwrap_or(b"/usr/local/bin:/usr/bin:/bin");
            path.split(|byte| *byte == b':').filter(|part| part.starts_with(b"/")).map(|part| [part, b"/", &program].concat()).collect()
        };
        Ok(Self {
            candidates: candidates.into_iter().map(text(StartStep::Program)).collect::<Result<_, _>>()?,
            arguments: argv.into_iter().map(text(StartStep::Program)).collect::<Result<_, _>>()?,
            environment: env.into_iter().map(text(StartStep::Program)).collect::<Result<_, _>>()?,
            directory: text(StartStep::Directory)(directory)?,
            limits,
            descriptors,
            terminal,
        })
    }

    /// Starts the program and gives its pid, or says why there is none.
    pub fn start(&self, stack: &mut Stack) -> Result<i32, StartFailure> {
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        let candidates = pointers(&self.candidates);
        let mut child = Child {
            candidates: candidates.as_ptr(),
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            directory: self.directory.as_ptr(),
            limits: self.limits.as_ptr(),
            limit_count: self.limits.len(),
            descriptors: [self.descriptors[0].as_raw_fd(), self.descriptors[1].as_raw_fd(), self.descriptors[2].as_raw_fd()],
            terminal: self.terminal,
            step: StartStep::Descriptors,
            failure: 0,
        };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: `become_program` gets a pointer to `child`, which lives until the call returns: CLONE_VFORK holds us until the child has
        // become the program or ended. It runs on a stack of its own, and init has one thread only.
        let pid = unsafe { libc::clone(become_program, stack.top(), flags, (&raw mut child).cast()) };
        if pid < 0 {
            return Err(StartFailure { step: StartStep::Memory, cause: io::Error::last_os_error() });
        }
        // SAFETY: the child is gone or another program; nobody else writes there. It wrote behind the compiler's back.
        let failure = unsafe { (&raw const child.failure).read_volatile() };
        if failure == 0 {
            return Ok(pid);
        }
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        }
        // SAFETY: as for the failure.
        let step = unsafe { (&raw const child.step).read_volatile() };
        Err(StartFailure { step, cause: io::Error::from_raw_os_error(failure) })
    }
}

/// Where a child stands until it has become the program; one at a time. Apart from everything else, so that what was used of it can be given
/// back.
pub struct Stack(*mut libc::c_void);

impl Stack {
    pub fn new() -> io::Result<Self> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK);
        // SAFETY: new memory wherever the kernel has room for it; nobody else has anything there.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), STACK, access, flags, -1, 0) };
        if memory == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(memory)) }
    }

    /// The stack grows down from here; as aligned as a page is.
    fn top(&self) -> *mut libc::c_void {
        self.0.wrapping_byte_add(STACK)
    }

    /// Nobody stands on it now: what was written there is of no use to anybody.
    pub fn rest(&mut self) {
        // SAFETY: the memory is ours alone, and no child stands on it: one at a time, and whoever starts it waits.
        unsafe { libc::madvise(self.0, STACK, libc::MADV_DONTNEED) };
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nobody stands on it any more.
        unsafe { libc::munmap(self.0, STACK) };
    }
}

const STACK: usize = 64 << 10;

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| CStr::as_ptr(text)).chain(std::iter::once(std::ptr::null())).collect()
}

struct Child {
    candidates: *const *const libc::c_char,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
    directory: *const libc::c_char,
    limits: *const (u64, u64),
    limit_count: usize,
    descriptors: [libc::c_int; 3],
    terminal: bool,
    /// What was being done when it failed.
    step: StartStep,
    failure: libc::c_int,
}

/// Runs in the child, in init's memory: only system calls, no allocation, no panic.
extern "C" fn become_program(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `Prepared::start` passes a `Child` that lives until we end, and waits meanwhile.
    let child = unsafe { &mut *argument.cast::<Child>() };
    // SAFETY: the pointers are to null-terminated lists of C strings that live as long as `child`; every call is async-signal-safe.
    unsafe { become_or_fail(child) };
    // SAFETY: ends only this process, without the parent's exit handlers.
    unsafe { libc::_exit(127) }
}

/// # Safety
///
/// The pointers in `child` must be null-terminated lists of C strings, and `limits` as many pairs as it says.
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "one sequence of system calls with one justification")]
unsafe fn become_or_fail(child: &mut Child) {
    // SAFETY: plain system calls on values of our own; see the function's contract for the pointers.
    unsafe {
        let errno = || *libc::__errno_location();
        libc::setsid();
        // First out of the way of the numbers 0 to 2, then onto them.
        let mut held = [0; 3];
        for (at, descriptor) in child.descriptors.iter().enumerate() {
            held[at] = libc::fcntl(*descriptor, libc::F_DUPFD_CLOEXEC, 10);
            if held[at] < 0 {
                child.failure = errno();
                return;
            }
        }
        for (at, descriptor) in held.iter().enumerate() {
            if libc::dup2(*descriptor, at as libc::c_int) < 0 {
                child.failure = errno();
                return;
            }
        }
        if child.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) != 0 {
            child.failure = errno();
            return;
        }
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) != 0 {
            child.failure = errno();
            return;
        }
        child.step = StartStep::Directory;
        if libc::chdir(child.directory) != 0 {
            child.failure = errno();
            return;
        }
        child.step = StartStep::Program;
        for at in 0..child.limit_count {
            let (resource, bound) = *child.limits.add(at);
            let resource = resource as libc::__rlimit_resource_t;
            let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            let mut outcome = libc::getrlimit(resource, &raw mut now);
            if outcome == 0 {
                let bound = if bound < now.rlim_max { bound } else { now.rlim_max };
                outcome = libc::setrlimit(resource, &libc::rlimit { rlim_cur: bound, rlim_max: bound });
            }
            if outcome != 0 {
                child.failure = errno();
                return;
            }
        }
        // init holds back what a program expects to work.
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const signals, std::ptr::null_mut());
        let mut at = child.candidates;
        // Said only after the last try: what becomes the program leaves no failure behind.
        let mut failure = libc::ENOENT;
        while !(*at).is_null() {
            libc::execve(*at, child.arguments, child.environment);
            let why = errno();
            // Like a shell: one that may not be run is told of, unless a later one can be.
            if why != libc::ENOENT && why != libc::ENOTDIR {
                failure = why;
            }
            at = at.add(1);
        }
        child.failure = failure;
    }
}
