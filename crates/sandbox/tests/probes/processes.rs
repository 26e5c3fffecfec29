//! P: processes and how they are started.

use super::{Probe, checked, contained, probe};

pub const PROBES: &[Probe] = &[
    probe(
        "P02",
        "read the memory of a process of the host",
        "
b = ctypes.create_string_buffer(8); v = struct.pack('QQ', ctypes.addressof(b), 8)
succeeds(310, HOST_PID, v, 1, v, 1, 0)",
    ),
    probe(
        "P02",
        "write the memory of a process of the host",
        "
b = ctypes.create_string_buffer(8); v = struct.pack('QQ', ctypes.addressof(b), 8)
# To where nothing is: who may write is told so.
got(call(311, HOST_PID, v, 1, struct.pack('QQ', 8, 8), 1, 0)[1] not in ('EPERM', 'ESRCH'))",
    ),
    checked("P03", "signal a process of the host", "os.kill(HOST_PID, 0); got(True)"),
    checked("P03", "signal the group of a process of the host", "os.killpg(HOST_GROUP, 0); got(True)"),
    checked("P03", "hold a process of the host", "d = os.pidfd_open(HOST_PID); signal.pidfd_send_signal(d, 0); got(True)"),
    contained("P03", "signal everybody", "os.kill(-1, signal.SIGURG); time.sleep(0.1); got(False)"),
    probe("P03", "belong to a group or session of the host", "got(os.getpgid(0) == 0 or os.getsid(0) == 0)"),
    checked("P04", "read the environment of a process of the host", "reads('/proc/%d/environ' % HOST_PID)"),
    checked("P04", "read the arguments of a process of the host", "reads('/proc/%d/cmdline' % HOST_PID)"),
    checked("P04", "read the memory map of a process of the host", "reads('/proc/%d/maps' % HOST_PID)"),
    checked("P04", "list the descriptors of a process of the host", "got(os.listdir('/proc/%d/fd' % HOST_PID))"),
    checked("P04", "see any process that is not inside", "got([p for p in os.listdir('/proc') if p.isdigit() and int(p) >= HOST_PID])"),
    probe("P06", "trace init", "succeeds(101, 16, 1, 0, 0)"),
    probe("P06", "seize init", "succeeds(101, 0x4206, 1, 0, 0)"),
    probe("P06", "be traced by the parent", "succeeds(101, 0, 0, 0, 0)"),
    probe("P07", "read init's memory", "reads('/proc/1/mem')"),
    probe("P07", "write init's memory", "os.open('/proc/1/mem', os.O_RDWR); got(True)"),
    probe("P07", "learn from init's arguments where the host keeps things", "got(b'/' in open('/proc/1/cmdline', 'rb').read())"),
    probe("P07", "read init's environment", "reads('/proc/1/environ')"),
    probe("P07", "read init's memory map", "reads('/proc/1/maps')"),
    probe("P07", "list init's descriptors", "got(os.listdir('/proc/1/fd'))"),
    probe("P07", "open init's root", "os.open('/proc/1/root/', os.O_RDONLY); got(True)"),
    probe("P07", "open init's directory", "os.open('/proc/1/cwd/', os.O_RDONLY); got(True)"),
    probe("P07", "run what init runs", "os.open('/proc/1/exe', os.O_RDONLY); got(True)"),
    probe("P07", "see what init waits for", "reads('/proc/1/syscall')"),
    probe(
        "P07",
        "write anything that is told of init",
        "
def took(path):
    try: return os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), b'0')
    except OSError: return 0
found = [os.path.join(d, f) for d, _, names in os.walk('/proc/1') for f in names]
found = [f for f in found if took(f)]
print(found); got(found)",
    ),
    probe("P08", "take a descriptor of init's", "d = os.pidfd_open(1); succeeds(438, d, 3, 0)"),
    probe("P08", "compare with init", "succeeds(312, os.getpid(), 1, 0, 0, 0)"),
    probe("P08", "advise init's memory away", "d = os.pidfd_open(1); succeeds(440, d, struct.pack('QQ', 0, 4096), 1, 21, 0)"),
    probe("P08", "release init's memory", "d = os.pidfd_open(1); succeeds(448, d, 0)"),
    probe("P08", "share a core with init", "got(libc.prctl(62, 1, 1, 0, 0) == 0)"),
    probe(
        "P09",
        "end init by a queued signal",
        "
for kind in (-1, -6, 0, 128):
    call(129, 1, 9, struct.pack('iii', 9, 0, kind).ljust(128, b'\\0'))
call(234, 1, 1, 9); call(200, 1, 9)
time.sleep(0.05); os.kill(1, 0); got(False)",
    ),
    probe("P09", "end init", "os.kill(1, 9); time.sleep(0.05); os.kill(1, 0); got(False)"),
    probe("P09", "stop init", "os.kill(1, 19); time.sleep(0.05); got(open('/proc/1/stat').read().split()[2] == 'T')"),
    probe(
        "P09",
        "interrupt init",
        "[os.kill(1, s) for s in range(1, 65) if s not in (32, 33)]; time.sleep(0.05); os.kill(1, 0); got(False)",
    ),
    probe(
        "P16",
        "leave a core dump",
        "
try: resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
except (OSError, ValueError): pass
got(resource.getrlimit(resource.RLIMIT_CORE)[0] > 1)",
    ),
    probe(
        "P16",
        "have a crash handed to the host's handler",
        "
# The kernel asks a handler that reads from a pipe whatever the limit is, unless it is one byte.
try: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (OSError, ValueError): pass
call(160, 4, struct.pack('QQ', 0, 0))
got(resource.getrlimit(resource.RLIMIT_CORE) != (1, 1))",
    ),
    probe("P16", "set what happens to core dumps", "changes('/proc/sys/kernel/core_pattern')"),
    probe(
        "P17",
        "begin with signals ignored or held back",
        "
t = open('/proc/self/status').read()
bits = [int(l.split()[1], 16) for l in t.splitlines() if l.startswith(('SigBlk', 'SigIgn'))]
# Python itself ignores SIGPIPE and SIGXFSZ, and the C library keeps two for itself.
got(bits[0] or bits[1] & ~((1 << 12) | (1 << 24) | (3 << 31)))",
    ),
    probe("P23", "bound what init may use", "resource.prlimit(1, resource.RLIMIT_NPROC, (1, 1)); got(True)"),
    probe("P23", "slow init down", "os.setpriority(os.PRIO_PROCESS, 1, 19); got(True)"),
    probe("P23", "slow init down with all of its user", "os.setpriority(os.PRIO_USER, os.getuid(), 19); got(True)"),
    probe("P23", "slow init down with its group", "os.setpriority(os.PRIO_PGRP, 1, 19); got(True)"),
    probe("P23", "make init idle", "os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)); got(True)"),
    probe("P23", "tie init to a processor", "os.sched_setaffinity(1, {0}); got(True)"),
    probe("P23", "put init's files last", "succeeds(251, 1, 1, 3 << 13)"),
    probe("P23", "put the files of all of its user last", "succeeds(251, 3, os.getuid(), 3 << 13)"),
    probe("P23", "offer init to the memory killer", "writes('/proc/1/oom_score_adj', b'1000')"),
    probe("P23", "be spared by the memory killer", "writes('/proc/self/oom_score_adj', b'-1000')"),
];
