//! N: namespaces and privilege.

use super::{Probe, probe};

pub const PROBES: &[Probe] = &[
    probe("N01", "unshare a user namespace", "succeeds(272, 0x10000000)"),
    probe(
        "N02",
        "unshare any namespace",
        "got(any(call(272, f)[0] == 0 for f in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000, 0x80)))",
    ),
    probe("N02", "clone3 into a user namespace", "
r, _ = call(435, struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64)
if r == 0: os._exit(0)
got(r > 0)"),
    probe(
        "N03",
        "clone into any namespace",
        "
for bit in (0x10000000, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000):
    for junk in (0, 1 << 32, 0xffff << 32):
        r, _ = call(56, bit | junk | 17, 0, 0, 0, 0)
        if r == 0: os._exit(0)
        if r > 0: got(True)
got(False)",
    ),
    probe(
        "N04",
        "enter the namespaces of init",
        "
for n in ('mnt', 'user', 'pid', 'net', 'ipc', 'uts', 'cgroup'):
    try:
        d = os.open('/proc/1/ns/' + n, os.O_RDONLY)
        if call(308, d, 0)[0] == 0: got(True)
    except OSError: pass
got(False)",
    ),
    probe(
        "N04",
        "enter one's own namespaces",
        "
for n in ('mnt', 'user', 'pid', 'net', 'ipc', 'uts', 'cgroup'):
    if call(308, os.open('/proc/self/ns/' + n, os.O_RDONLY), 0)[0] == 0: got(True)
got(False)",
    ),
    probe("N04", "enter by a held process", "succeeds(308, os.pidfd_open(1), 0x7e020000)"),
    probe(
        "N05",
        "mount in a user namespace",
        "got(subprocess.run(['unshare', '-Urm', 'mount', '-t', 'tmpfs', 'none', '/tmp']).returncode == 0)",
    ),
    probe("N05", "have packet rules in a user namespace", "got(subprocess.run(['unshare', '-Urn', 'true']).returncode == 0)"),
    probe("N06", "mount", "succeeds(165, b'none', b'/tmp', b'tmpfs', 0, 0)"),
    probe(
        "N06",
        "mount in the new way",
        "got(any(call(n, *a)[0] >= 0 for n, a in ((430, (b'tmpfs', 0)), (428, (-100, b'/', 1)), (433, (-100, b'/', 0)), (442, (-100, b'/', 0, 0, 0)))))",
    ),
    probe("N06", "move a mount", "succeeds(429, -100, b'/tmp', -100, b'/run', 0)"),
    probe("N06", "open a mount with other attributes", "got(call(467, -100, b'/', 0, 0, 0)[0] >= 0 or call(467, -100, b'/', 1, 0, 0)[0] >= 0)"),
    probe("N07", "make the system writable", "succeeds(165, 0, b'/usr', 0, 0x1020, 0)"),
    probe("N07", "make the root writable", "succeeds(165, 0, b'/', 0, 0x1020, 0)"),
    probe("N08", "change the root", "succeeds(161, b'/tmp')"),
    probe("N08", "exchange the root", "succeeds(155, b'/', b'/tmp')"),
    probe(
        "N09",
        "hold a capability",
        "
t = open('/proc/self/status').read()
got(any(int(l.split()[1], 16) for l in t.splitlines() if l.startswith('Cap')))",
    ),
    probe("N09", "gain privileges by running a program", "got('NoNewPrivs:\\t1' not in open('/proc/self/status').read())"),
    probe("N09", "raise a capability", "succeeds(157, 47, 2, 0, 0, 0)"),
    probe("N09", "unlock the secure bits", "got(libc.prctl(28, 0, 0, 0, 0) == 0)"),
    probe("N09", "take no-new-privileges back", "got(libc.prctl(38, 0, 0, 0, 0) == 0)"),
    probe(
        "N09",
        "give a file capabilities",
        "
open('/workspace/capable', 'w').close()
os.setxattr('/workspace/capable', 'security.capability', struct.pack('<IIIII', 0x02000001, 0xffffffff, 0, 0xffffffff, 0)); got(True)",
    ),
    probe("N10", "keep a filter off", "got('Seccomp:\\t2' not in open('/proc/self/status').read())"),
    probe("N11", "become root", "os.setuid(0); got(True)"),
    probe("N11", "become another", "os.setuid(65534); got(True)"),
    probe("N11", "become root for files", "libc.setfsuid(0); got(os.getuid() != 0 and libc.setfsuid(-1) == 0)"),
    probe("N11", "become root's group", "os.setgid(0); got(True)"),
    probe("N11", "give a file away", "open('/workspace/given', 'w').close(); os.chown('/workspace/given', 33, 33); got(True)"),
    probe(
        "N11",
        "map more users with the host's help",
        "got(any(subprocess.run([p, str(os.getpid()), '0', '0', '1']).returncode == 0 for p in ('newuidmap', 'newgidmap')))",
    ),
    probe("N11", "join a group", "os.setgroups([0]); got(True)"),
    probe(
        "N11",
        "belong to a group of the host's root",
        "
groups = [l.split()[1:] for l in open('/proc/self/status') if l.startswith('Groups')][0]
got('0' in groups)",
    ),
    probe("N11", "write a map of users", "writes('/proc/self/uid_map', b'0 0 1')"),
    probe("N12", "make a disk", "os.mknod('/workspace/disk', 0o060600, os.makedev(8, 0)); got(True)"),
    probe("N12", "make a device", "os.mknod('/tmp/mem', 0o020600, os.makedev(1, 1)); got(True)"),
    probe("N12", "use a device that lies in the workspace", "got(len(os.read(os.open('/workspace/zero', os.O_RDONLY), 1)) == 1)"),
    probe(
        "N13",
        "make a program that runs as its owner",
        "
open('/workspace/own', 'w').close(); os.chmod('/workspace/own', 0o4755); got(os.stat('/workspace/own').st_mode & 0o4000)",
    ),
    probe(
        "N13",
        "make one that begins as such",
        "
d = os.open('/workspace/begun', os.O_CREAT | os.O_WRONLY, 0o6755); got(os.fstat(d).st_mode & 0o6000)",
    ),
    probe(
        "N13",
        "make one by a way that hides its mode",
        "
how = struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o4755, 0)
succeeds(437, -100, b'/workspace/hidden', how, 24)",
    ),
    probe(
        "N13",
        "make one by newer and older calls",
        "
open('/workspace/newer', 'w').close()
tried = [call(452, -100, b'/workspace/newer', 0o4755, 0), call(268, -100, b'/workspace/newer', 0o4755, 0), call(90, b'/workspace/newer', 0o2755),
         call(85, b'/workspace/creat', 0o4755), call(133, b'/workspace/node', 0o104755, 0), call(259, -100, b'/workspace/node', 0o102755, 0),
         call(2, b'/workspace', os.O_TMPFILE | os.O_RDWR, 0o4755), call(83, b'/workspace/directory', 0o6755)]
got([r for r, _ in tried[:-1] if r >= 0] or os.stat('/workspace/directory').st_mode & 0o6000)",
    ),
    probe(
        "N15",
        "take away what covers /proc",
        "got(any(call(166, p, 2)[0] == 0 for p in (b'/proc/kallsyms', b'/proc/sys', b'/proc', b'/dev', b'/workspace', b'/usr', b'/etc')))",
    ),
    probe("N16", "set the name of the host", "inside(call(170, b'other', 5)[0] == 0)"),
    probe("N16", "set the domain", "inside(call(171, b'other', 5)[0] == 0)"),
    probe("N16", "set the clock", "succeeds(227, 0, struct.pack('qq', int(time.time()), 0))"),
    probe("N16", "set the time of day", "succeeds(164, struct.pack('qq', int(time.time()), 0), 0)"),
    probe("N16", "tune the clock", "succeeds(159, ctypes.create_string_buffer(struct.pack('I', 0x8000), 208))"),
    probe("N17", "find the cgroups", "got(os.path.exists('/sys/fs/cgroup'))"),
    probe("N17", "leave the cgroup", "writes('/sys/fs/cgroup/cgroup.procs', b'0')"),
    probe("N17", "have a program run when a cgroup is empty", "changes('/sys/fs/cgroup/release_agent')"),
    probe("N17", "see which cgroup of the host it is in", "got([l for l in open('/proc/self/cgroup') if not l.rstrip().endswith(':/')])"),
    probe("N17", "mount the cgroups", "succeeds(165, b'none', b'/tmp', b'cgroup2', 0, 0)"),
    probe("N16", "shift the clocks of what comes next", "writes('/proc/self/timens_offsets', b'monotonic 1000 0')"),
    probe(
        "N20",
        "write anything in /proc that is of no process",
        "
top = [d for d in os.listdir('/proc') if not d.isdigit() and not os.path.islink('/proc/' + d) and d != 'thread-self']
found = ['/proc/' + d for d in top] + [os.path.join(w, f) for d in top for w, _, names in os.walk('/proc/' + d) for f in names]
# What covers something is as good as /dev/null.
found = [f for f in found if os.path.isfile(f) and opens(f, os.O_WRONLY)]
print(found[:20]); got(found)",
    ),
    probe("N20", "write a setting of the kernel", "changes('/proc/sys/vm/overcommit_memory')"),
    probe("N20", "write a setting of the network", "writes('/proc/sys/net/ipv4/ip_forward', b'0')"),
    probe("N20", "register a format of programs", "os.open('/proc/sys/fs/binfmt_misc/register', os.O_WRONLY); got(True)"),
    probe("N20", "press the system request key", "os.open('/proc/sysrq-trigger', os.O_WRONLY); got(os.path.isfile('/proc/sysrq-trigger'))"),
    probe("N20", "set the helper for devices", "changes('/sys/kernel/uevent_helper')"),
    probe("N21", "read the kernel's symbols", "reads('/proc/kallsyms')"),
    probe("N21", "read the kernel's memory", "reads('/proc/kcore')"),
    probe("N21", "read the kernel's log", "reads('/proc/kmsg')"),
    probe("N21", "read how the kernel was started", "reads('/proc/cmdline')"),
    probe("N21", "read how the kernel was made", "reads('/proc/config.gz')"),
    probe("N21", "read the keys of the host", "reads('/proc/keys')"),
    probe("N21", "watch the interrupts", "reads('/proc/interrupts')"),
    probe("N21", "read the timers of the host", "reads('/proc/timer_list')"),
    probe(
        "N21",
        "read where memory is",
        "got(any(opens('/proc/' + f, os.O_RDONLY) and any(int(l.split('-')[0], 16) for l in open('/proc/' + f)) for f in ('iomem', 'ioports')))",
    ),
    probe(
        "N21",
        "read the kernel's own allocations",
        "got([f for f in ('vmallocinfo', 'slabinfo', 'pagetypeinfo', 'kpagecount', 'kpageflags', 'kpagecgroup', 'latency_stats', 'sched_debug') if opens('/proc/' + f, os.O_RDONLY) and os.path.isfile('/proc/' + f)])",
    ),
    probe("N21", "find a tree of the kernel", "got([d for d in ('/sys/kernel', '/sys/firmware', '/sys/fs/bpf', '/proc/acpi', '/proc/scsi', '/proc/asound', '/proc/tty/driver') if opens(d, os.O_RDONLY) and os.listdir(d)])"),
    probe("N21", "list the buses", "got(os.listdir('/proc/bus'))"),
    probe("N21", "list the filesystems of the host", "got(os.listdir('/proc/fs'))"),
    probe("N21", "see where the host keeps its things", "got(HOST_DIRECTORY in open('/proc/self/mounts').read())"),
];
