//! S: the surface of the kernel.

use super::{Probe, checked, probe};

pub const PROBES: &[Probe] = &[
    probe("S01", "set up a ring of requests", "succeeds(425, 8, ctypes.create_string_buffer(120))"),
    probe("S01", "enter a ring of requests", "got(call(426, 0, 0, 0, 0, 0)[1] != 'EPERM')"),
    probe("S01", "register with a ring of requests", "got(call(427, 0, 0, 0, 0)[1] != 'EPERM')"),
    probe("S02", "load a program into the kernel", "got(call(321, 0, ctypes.create_string_buffer(120), 120)[1] != 'EPERM')"),
    probe("S03", "count events", "succeeds(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)"),
    probe("S04", "handle page faults", "succeeds(323, 0)"),
    probe("S04", "handle page faults of one's own only", "succeeds(323, 1)"),
    checked("S05", "read the session's keys", "got(call(250, 0, -3, 0, 0, 0)[1] != 'EPERM')"),
    probe("S05", "add a key", "succeeds(248, b'user', b'x', b'y', 1, -3)"),
    probe("S05", "ask for a key", "got(call(249, b'user', b'x', 0, -3)[1] != 'EPERM')"),
    probe("S06", "load a module", "got(call(175, 0, 0, b'')[1] != 'EPERM')"),
    probe("S06", "load a module from a file", "got(call(313, 0, b'', 0)[1] != 'EPERM')"),
    probe("S06", "unload a module", "got(call(176, b'x', 0)[1] != 'EPERM')"),
    probe("S06", "start another kernel", "got(call(246, 0, 0, 0, 0)[1] != 'EPERM' or call(320, 0, 0, 0, 0, 0)[1] != 'EPERM')"),
    probe(
        "S07",
        "swap, restart, account, hang up",
        "got(any(call(n, *a)[1] != 'EPERM' for n, a in ((167, (b'/x', 0)), (168, (b'/x',)), (169, (0, 0, 0, 0)), (163, (b'/x',)), (153, ()))))",
    ),
    probe("S07", "read the kernel's messages", "got(call(103, 3, ctypes.create_string_buffer(99), 99)[0] >= 0)"),
    probe("S07", "ask for quotas", "got(call(179, 0, 0, 0, 0)[1] != 'EPERM')"),
    probe("S08", "reach the ports of the machine", "got(call(172, 3)[0] == 0 or call(173, 0, 1, 1)[0] == 0)"),
    probe("S08", "change one's segments", "got(call(154, 0, 0, 0)[1] != 'EPERM')"),
    probe("S08", "change what kind of program one is", "got(call(135, 0x0400000)[0] >= 0)"),
    probe("S08", "open a file by a handle", "got(call(304, -100, ctypes.create_string_buffer(64), 0)[1] != 'EPERM')"),
    probe(
        "S08",
        "make a handle of a file",
        "got(call(303, -100, b'/', ctypes.create_string_buffer(64), ctypes.create_string_buffer(8), 0)[1] != 'EPERM')",
    ),
    probe("S08", "watch a filesystem", "succeeds(300, 0, 0)"),
    probe("S08", "move the pages of others", "got(call(279, 1, 0, 0, 0, 0, 0)[1] != 'EPERM' or call(256, 1, 0, 0, 0)[1] != 'EPERM')"),
    probe(
        "S11",
        "type into one's own terminal",
        "
m, s = os.openpty(); succeeds(16, s, 0x5412, b'x')",
    ),
    probe(
        "S11",
        "type into it with a bit beyond what the kernel reads",
        "
m, s = os.openpty(); succeeds(16, s, 0x5412 | (1 << 32), b'x')",
    ),
    probe("S11", "paste into a console", "got(call(16, 0, 0x541C, b'\\x03')[1] != 'EPERM')"),
    probe("S11", "paste with a bit beyond", "got(call(16, 0, 0x541C | (7 << 32), b'\\x03')[1] != 'EPERM')"),
    probe("S12", "talk to the hypervisor", "socket.socket(40, socket.SOCK_STREAM); got(True)"),
    probe("S12", "send packets of any kind", "socket.socket(17, socket.SOCK_RAW, 3); got(True)"),
    probe(
        "S12",
        "use sockets of rare families",
        "
for family in list(range(3, 10)) + list(range(11, 16)) + list(range(18, 46)):
    for kind in (1, 2, 3, 5):
        if call(41, family, kind, 0)[0] >= 0: print(family); got(True)
got(False)",
    ),
    probe("S12", "use families with a bit beyond", "got(call(41, 40 | (1 << 32), 1, 0)[0] >= 0)"),
    probe(
        "S12",
        "make a pair of a rare family",
        "got(any(call(53, f, 1, 0, ctypes.create_string_buffer(8))[0] == 0 for f in (30, 40, 41)))",
    ),
    probe(
        "S13",
        "speak to other parts of the kernel",
        "
for protocol in range(1, 24):
    if call(41, 16, 3, protocol)[0] >= 0: print(protocol); got(True)
got(False)",
    ),
    probe("S14", "send raw packets", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); got(True)"),
    probe("S14", "raw packets of version 6", "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58); got(True)"),
    probe("S16", "call what the filter does not know", "got(any(call(n)[1] != 'ENOSYS' for n in (470, 500, 511, 600, 1000, 100000)))"),
    probe("S18", "watch without the filter", "got(call(317, 0, 0, 0)[0] >= 0 and 'Seccomp:\\t2' not in open('/proc/self/status').read())"),
];
