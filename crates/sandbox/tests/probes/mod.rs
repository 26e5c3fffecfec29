//! What hostile code tries, by the groups of the list of cases. Each probe is Python that ends with 0 only if it got what it wanted.

mod calls;
mod exchange;
mod namespaces;
mod network;
mod processes;

pub struct Probe {
    /// As in the list of hostile cases.
    pub id: &'static str,
    pub what: &'static str,
    pub script: &'static str,
    /// On the host, by whoever runs the tests, it works: what stops it inside is the place.
    pub works_outside: bool,
}

const fn probe(id: &'static str, what: &'static str, script: &'static str) -> Probe {
    Probe { id, what, script, works_outside: false }
}

/// One that is also run outside, where it must work.
const fn checked(id: &'static str, what: &'static str, script: &'static str) -> Probe {
    Probe { id, what, script, works_outside: true }
}

pub fn all() -> impl Iterator<Item = &'static Probe> {
    [processes::PROBES, namespaces::PROBES, calls::PROBES, exchange::PROBES, network::PROBES].into_iter().flatten()
}

/// What every probe can use: system calls by number, the answer's name, and facts about the host that the test puts in.
pub const PRELUDE: &str = "
import ctypes, errno, fcntl, os, signal, socket, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    ctypes.set_errno(0)
    r = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    return r, errno.errorcode.get(ctypes.get_errno(), '0')
def got(condition):
    sys.stdout.flush(); os._exit(0 if condition else 1)
def succeeds(*a):
    r, why = call(*a)
    print(r, why)
    got(r >= 0)
def reads(path):
    with open(path, 'rb') as f: got(len(f.read(1)) == 1)
def writes(path, data):
    d = os.open(path, os.O_WRONLY)
    os.write(d, data)
    got(True)
";
