//! S: the surface of the kernel.

use super::{Probe, checked, contained, probe};

pub const PROBES: &[Probe] = &[
    probe("S01", "set up a ring of requests", "succeeds(425, 8, ctypes.create_string_buffer(120))"),
    probe("S01", "enter a ring of requests", "got(call(426, 0, 0, 0, 0, 0)[1] != 'EPERM')"),
    probe("S01", "register with a ring of requests", "got(call(427, 0, 0, 0, 0)[1] != 'EPERM')"),
    probe(
        "S02",
        "load a program into the kernel",
        "succeeds(321, 0, ctypes.create_string_buffer(struct.pack('5I', 2, 4, 4, 1, 0), 120), 120)",
    ),
    probe("S03", "count events", "succeeds(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)"),
    probe("S04", "handle page faults", "succeeds(323, 0)"),
    probe("S04", "handle page faults of one's own only", "succeeds(323, 1)"),
    checked("S05", "read the session's keys", "got(call(250, 0, -3, 0, 0, 0)[1] != 'EPERM')"),
    probe("S05", "add a key", "succeeds(248, b'user', b'x', b'y', 1, -3)"),
    probe("S05", "ask for a key", "got(call(249, b'user', b'x', 0, -3)[1] != 'EPERM')"),
    probe("S06", "load a module", "got(call(175, 0, 0, b'')[1] not in ('EPERM', 'ENOSYS'))"),
    probe("S06", "load a module from a file", "got(call(313, 0, b'', 0)[1] not in ('EPERM', 'ENOSYS'))"),
    probe("S06", "unload a module", "got(call(176, b'x', 0)[1] not in ('EPERM', 'ENOSYS'))"),
    probe("S06", "start another kernel", "got([n for n in (246, 320) if call(n, 0, 0, 0, 0, 0)[1] not in ('EPERM', 'ENOSYS')])"),
    probe(
        "S07",
        "swap, restart, account, hang up",
        "got(any(call(n, *a)[1] not in ('EPERM', 'EINVAL', 'ENOSYS') for n, a in ((167, (b'/x', 0)), (168, (b'/x',)), (169, (0xfee1dead, 672274793, 0, 0)), (163, (b'/x',)), (153, ()))))",
    ),
    probe("S07", "read the kernel's messages", "got(call(103, 3, ctypes.create_string_buffer(99), 99)[0] >= 0)"),
    probe("S07", "ask for quotas", "got(call(179, 0, 0, 0, 0)[1] != 'EPERM')"),
    probe("S08", "reach the ports of the machine", "got(call(172, 3)[0] == 0 or call(173, 0, 1, 1)[0] == 0)"),
    probe("S08", "change one's segments", "got(call(154, 0, 0, 0)[1] != 'EPERM')"),
    probe("S08", "change what kind of program one is", "got(call(135, 0x0400000)[0] >= 0)"),
    probe(
        "S08",
        "open a file by a handle",
        "
handle = ctypes.create_string_buffer(struct.pack('Ii', 128, 0), 136)
call(303, -100, b'/workspace', handle, ctypes.create_string_buffer(8), 0)
succeeds(304, os.open('/workspace', os.O_RDONLY), handle, 0)",
    ),
    probe(
        "S08",
        "make a handle of a file",
        "succeeds(303, -100, b'/workspace', ctypes.create_string_buffer(struct.pack('Ii', 128, 0), 136), ctypes.create_string_buffer(8), 0)",
    ),
    probe("S08", "watch a filesystem", "succeeds(300, 0, 0)"),
    probe("S08", "move the pages of others", "got(call(279, 1, 0, 0, 0, 0, 0)[1] != 'EPERM' or call(256, 1, 0, 0, 0)[1] != 'EPERM')"),
    probe(
        "S08",
        "use calls that nobody uses",
        "got([n for n in (134, 136, 139, 180, 212, 237, 238, 278) if call(n, 0, 0, 0, 0, 0, 0)[1] not in ('EPERM', 'ENOSYS')])",
    ),
    probe("S08", "map the page at zero", "r = call(9, 0, 4096, 3, 0x32, -1, 0); got(r[0] == 0)"),
    probe(
        "S08",
        "make a file that cannot be removed",
        "d = os.open('/workspace', os.O_RDONLY); fcntl.ioctl(d, 0x40086602, struct.pack('l', 0x10)); got(True)",
    ),
    probe(
        "S08",
        "stop a filesystem or let it go on",
        "
d = os.open('/workspace', os.O_RDONLY)
# Only whether it might: one that is not stopped cannot be let go on.
got(call(16, d, 0xc0045878, 0)[1] not in ('EPERM', 'EACCES'))",
    ),
    probe(
        "S09",
        "enter as a program of 32 bits",
        "
import mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')
got(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))() > 0)",
    ),
    probe("S10", "enter by the numbers of x32", "got(call(0x40000000 | 39)[1] != 'ENOSYS')"),
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
    probe("S11", "paste into a console", "m, s = os.openpty(); succeeds(16, s, 0x541C, b'\\x03')"),
    probe("S11", "paste with a bit beyond", "m, s = os.openpty(); succeeds(16, s, 0x541C | (7 << 32), b'\\x03')"),
    probe("S11", "change the discipline of a terminal", "m, s = os.openpty(); fcntl.ioctl(s, 0x5423, struct.pack('i', 0)); got(True)"),
    probe("S11", "redirect the console", "m, s = os.openpty(); fcntl.ioctl(s, 0x541D); got(True)"),
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
        "use rare protocols of the internet",
        "
for protocol in (33, 115, 132, 136, 256, 262):
    for family in (2, 10):
        for kind in (1, 2, 5, 6):
            if call(41, family, kind, protocol)[0] >= 0: print(protocol); got(True)
got(False)",
    ),
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
    probe(
        "S15",
        "lay a filter that allows everything over the filter",
        "
rule = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
program = struct.pack('HxxxxxxQ', 1, ctypes.addressof(rule))
for flags in (0, 8):
    call(317, 1, flags, program)
got(call(272, 0x10000000)[0] == 0)",
    ),
    contained(
        "S17",
        "gain by running a program that is no file",
        "
d = os.memfd_create('x', 0); os.write(d, open('/usr/bin/grep', 'rb').read())
ran = subprocess.run(['/proc/self/fd/%d' % d, '-c', 'NoNewPrivs:.*1$', '/proc/self/status'], pass_fds=[d], capture_output=True)
got(ran.stdout != b'1\\n')",
    ),
];
