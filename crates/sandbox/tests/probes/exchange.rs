//! I: ways to exchange something with others, and F: files of the host.

use super::{Probe, checked, probe};

pub const PROBES: &[Probe] = &[
    checked("I01", "connect to a socket of the host by its path", "socket.socket(socket.AF_UNIX).connect(HOST_SOCKET); got(True)"),
    checked("I02", "connect to an abstract socket of the host", "socket.socket(socket.AF_UNIX).connect('\\0' + HOST_ABSTRACT); got(True)"),
    checked(
        "I02",
        "send to an abstract socket of the host",
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'x', '\\0' + HOST_ABSTRACT + '-datagrams'); got(True)",
    ),
    probe(
        "I03",
        "find agents and daemons",
        "got(any(os.path.exists(p) for p in ('/run/docker.sock', '/var/run/docker.sock', '/run/containerd', '/run/dbus', '/run/user', '/run/systemd', '/run/nscd', '/run/podman', '/tmp/.X11-unix')))",
    ),
    probe(
        "I03",
        "be told of agents",
        "got([n for n in os.environ if n.startswith(('SSH_', 'DBUS_', 'GPG_', 'XDG_RUNTIME', 'DOCKER', 'DISPLAY', 'AWS_', 'STEAD'))])",
    ),
    checked("I04", "attach shared memory of the host", "got(libc.shmget(HOST_SHARED_KEY, 0, 0) >= 0)"),
    checked(
        "I05",
        "see message queues of the host",
        "
rt = ctypes.CDLL('librt.so.1', use_errno=True); got(rt.mq_open(HOST_QUEUE.encode(), 0) >= 0)",
    ),
    checked("I05", "see shared memory of the host by name", "got(os.path.exists('/dev/shm/' + HOST_SHARED_NAME))"),
    probe(
        "I06",
        "pretend to be another when asked who is there",
        "
a, b = socket.socketpair(socket.AF_UNIX)
a.sendmsg([b'x'], [(socket.SOL_SOCKET, 2, struct.pack('iii', 1, 0, 0))]); got(True)",
    ),
    probe(
        "I07",
        "take another's terminal",
        "
m, s = os.openpty()
if os.fork() == 0:
    os.setsid(); fcntl.ioctl(s, 0x540E, 0); os.fork() or time.sleep(1); time.sleep(1); os._exit(0)
time.sleep(0.1); os.setsid() if os.getpid() != os.getsid(0) else None
fcntl.ioctl(s, 0x540E, 1); got(True)",
    ),
    probe("I07", "see terminals of the host", "got([n for n in os.listdir('/dev/pts') if n != 'ptmx'])"),
    probe("I07", "open the console", "os.open('/dev/console', os.O_RDWR); got(True)"),
    probe("I07", "have a terminal that was not given", "os.open('/dev/tty', os.O_RDWR); got(True)"),
    probe("I08", "see a variable of the keeper's", "got('HOST_SECRET' in os.environ)"),
    probe("I08", "see more variables than were given", "got(set(os.environ) - {'PATH', 'LC_CTYPE', 'PWD'})"),
    probe(
        "I11",
        "find a descriptor that was not given",
        "got([d for d in range(3, 1024) if os.path.exists('/proc/self/fd/%d' % d) and os.readlink('/proc/self/fd/%d' % d) != '/proc/%d/fd' % os.getpid()])",
    ),
    checked("F02", "read a file of the host", "reads(HOST_FILE)"),
    checked("F02", "list a directory of the host", "got(os.listdir(HOST_DIRECTORY))"),
    probe("F02", "read passwords", "reads('/etc/shadow')"),
    probe("F02", "find homes", "got([h for h in os.listdir('/home') if h != 'stead'] or os.listdir('/root'))"),
    probe("F02", "leave the workspace by a link", "reads('/workspace/outward')"),
    probe("F02", "leave the workspace by dots", "os.chdir('/workspace'); reads('../' * 20 + HOST_FILE.lstrip('/'))"),
    probe("F08", "link a file of the system into the workspace", "os.link('/etc/passwd', '/workspace/linked'); got(True)"),
    probe(
        "F12",
        "open disks and memory",
        "
known = 'null zero full random urandom tty pts ptmx shm fd stdin stdout stderr'.split()
got([d for d in os.listdir('/dev') if d not in known and opens('/dev/' + d, os.O_RDONLY)])",
    ),
    probe("F26", "write a program of the system", "os.open('/usr/bin/env', os.O_WRONLY); got(True)"),
    probe("F32", "write what is run", "os.open('/proc/self/exe', os.O_WRONLY); got(True)"),
    probe(
        "F38",
        "write the system",
        "got([p for p in ('/usr/x', '/bin/x', '/lib/x', '/sbin/x', '/usr/lib/x') if opens(p, os.O_CREAT | os.O_WRONLY)])",
    ),
    probe(
        "F38",
        "write what the system knows of its users",
        "got([p for p in ('/etc/passwd', '/etc/group', '/etc/hosts') if opens(p, os.O_WRONLY)])",
    ),
];
