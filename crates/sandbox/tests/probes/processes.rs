//! P: processes and how they are started.

use super::{Probe, checked, probe};

pub const PROBES: &[Probe] = &[
    probe("P02", "read the memory of a process of the host", "succeeds(310, HOST_PID, 0, 0, 0, 0, 0)"),
    probe("P02", "write the memory of a process of the host", "succeeds(311, HOST_PID, 0, 0, 0, 0, 0)"),
    checked("P03", "signal a process of the host", "os.kill(HOST_PID, 0); got(True)"),
    checked("P03", "signal the group of a process of the host", "os.killpg(HOST_GROUP, 0); got(True)"),
    checked("P03", "hold a process of the host", "d = os.pidfd_open(HOST_PID); signal.pidfd_send_signal(d, 0); got(True)"),
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
    probe("P07", "read init's environment", "reads('/proc/1/environ')"),
    probe("P07", "read init's memory map", "reads('/proc/1/maps')"),
    probe("P07", "list init's descriptors", "got(os.listdir('/proc/1/fd'))"),
    probe("P07", "open init's root", "os.open('/proc/1/root/', os.O_RDONLY); got(True)"),
    probe("P07", "open init's directory", "os.open('/proc/1/cwd/', os.O_RDONLY); got(True)"),
    probe("P07", "run what init runs", "os.open('/proc/1/exe', os.O_RDONLY); got(True)"),
    probe("P07", "see what init waits for", "reads('/proc/1/syscall')"),
    probe("P08", "take a descriptor of init's", "d = os.pidfd_open(1); succeeds(438, d, 3, 0)"),
    probe("P08", "compare with init", "succeeds(312, os.getpid(), 1, 0, 0, 0)"),
    probe("P09", "end init", "os.kill(1, 9); time.sleep(0.05); os.kill(1, 0); got(False)"),
    probe("P09", "stop init", "os.kill(1, 19); time.sleep(0.05); got(open('/proc/1/stat').read().split()[2] == 'T')"),
    probe(
        "P09",
        "interrupt init",
        "[os.kill(1, s) for s in range(1, 65) if s not in (32, 33)]; time.sleep(0.05); os.kill(1, 0); got(False)",
    ),
    probe("P16", "leave a core dump", "import resource; resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)); got(True)"),
    probe("P16", "set what happens to core dumps", "writes('/proc/sys/kernel/core_pattern', b'|/workspace/x')"),
    probe(
        "P17",
        "begin with signals ignored or held back",
        "
t = open('/proc/self/status').read()
bits = [int(l.split()[1], 16) for l in t.splitlines() if l.startswith(('SigBlk', 'SigIgn'))]
# Python itself ignores SIGPIPE and SIGXFSZ.
got(bits[0] or bits[1] & ~((1 << 12) | (1 << 24)))",
    ),
    probe("P23", "bound what init may use", "import resource; resource.prlimit(1, resource.RLIMIT_NPROC, (1, 1)); got(True)"),
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
