//! What hostile code tries, by the groups of the list of cases. Each probe is Python that ends with 0 only if it got what it wanted.

mod calls;
mod exchange;
mod namespaces;
mod network;
mod processes;
mod resources;

pub struct Probe {
    /// As in the list of hostile cases.
    pub id: &'static str,
    pub what: &'static str,
    pub script: &'static str,
    /// On the host, by whoever runs the tests, it works: what stops it inside is the place.
    pub works_outside: bool,
    /// The attempt itself is let through; what it does ends at the walls.
    pub contained: bool,
}

const fn probe(id: &'static str, what: &'static str, script: &'static str) -> Probe {
    Probe { id, what, script, works_outside: false, contained: false }
}

/// One that is also run outside, where it must work.
const fn checked(id: &'static str, what: &'static str, script: &'static str) -> Probe {
    Probe { id, what, script, works_outside: true, contained: false }
}

/// One that nothing refuses, and that gets nowhere.
const fn contained(id: &'static str, what: &'static str, script: &'static str) -> Probe {
    Probe { id, what, script, works_outside: false, contained: true }
}

/// What the first letters of the ids stand for.
pub const GROUPS: &[(char, &str)] = &[
    ('P', "Processes"),
    ('N', "Namespaces and privilege"),
    ('S', "System calls"),
    ('I', "Exchange with others"),
    ('F', "Files of the host"),
    ('W', "The network, where there is none"),
    ('R', "Resources"),
];

pub fn all() -> impl Iterator<Item = &'static Probe> {
    [processes::PROBES, namespaces::PROBES, calls::PROBES, exchange::PROBES, network::PROBES].into_iter().flatten()
}

/// Those that want more than a place may have, for one that is bounded: 64 processes, 64 MiB.
pub fn bounded() -> impl Iterator<Item = &'static Probe> {
    resources::PROBES.iter()
}

/// What every probe can use: system calls by number, the answer's name, and facts about the host that the test puts in.
pub const PRELUDE: &str = "
import ctypes, errno, fcntl, os, resource, signal, socket, struct, subprocess, sys, time
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
def changes(path):
    # With what is there already: nothing is different if it works.
    before = open(path, 'rb').read()
    os.write(os.open(path, os.O_WRONLY), before)
    got(True)
def inside(condition):
    sys.stdout.flush(); os._exit(3 if condition else 1)
def writes(path, data):
    # Only for what belongs to this process or to the place.
    d = os.open(path, os.O_WRONLY)
    os.write(d, data)
    got(True)
def opens(path, how):
    try: os.close(os.open(path, how | os.O_NONBLOCK)); return True
    except OSError: return False
";
