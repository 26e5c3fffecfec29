//! R: more than a place may have, tried where it is bounded to 64 processes and 64 MiB.

use super::{Probe, contained, probe};

pub const PROBES: &[Probe] = &[
    contained(
        "R01",
        "fork without end",
        "
made = []
try:
    while len(made) < 200:
        made.append(os.fork())
        if made[-1] == 0: time.sleep(60); os._exit(0)
except OSError: pass
[os.kill(p, 9) for p in made]; [os.waitpid(p, 0) for p in made]
print(len(made)); got(len(made) >= 200)",
    ),
    contained(
        "R01",
        "make threads without end",
        "
import threading
made, enough = 0, threading.Event()
try:
    while made < 200:
        threading.Thread(target=enough.wait, daemon=True).start(); made += 1
except RuntimeError: pass
print(made); got(made >= 200)",
    ),
    contained(
        "R02",
        "use memory without end",
        "
child = os.fork()
if child == 0:
    x = b'x' * 300000000; os._exit(7)
got(os.waitpid(child, 0)[1] >> 8 == 7)",
    ),
    contained("R03", "fill the temporary files", "f = open('/tmp/full', 'wb'); [f.write(b'x' * 1000000) for _ in range(200)]; got(True)"),
    contained("R03", "fill the shared memory", "f = open('/dev/shm/full', 'wb'); [f.write(b'x' * 1000000) for _ in range(200)]; got(True)"),
    contained(
        "R03",
        "fill a file that has no name",
        "
child = os.fork()
if child == 0:
    d = os.memfd_create('x'); [os.write(d, b'x' * 1000000) for _ in range(200)]; os._exit(7)
got(os.waitpid(child, 0)[1] >> 8 == 7)",
    ),
    probe("R08", "come before others", "os.nice(-1); got(True)"),
    probe("R08", "run in real time", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)); got(True)"),
    probe("R08", "run by deadlines", "succeeds(314, 0, struct.pack('IIQiIQQQ', 48, 6, 0, 0, 0, 1000000, 10000000, 10000000), 0)"),
    probe("R08", "have its files served first", "succeeds(251, 1, 0, 1 << 13)"),
    probe(
        "R08",
        "raise a limit",
        "h = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; resource.setrlimit(resource.RLIMIT_NOFILE, (h, h + 1)); got(True)",
    ),
    contained(
        "R08",
        "hold memory in place",
        "
child = os.fork()
if child == 0:
    os._exit(7 if libc.mlockall(7) == 0 and len(b'x' * 300000000) else 1)
got(os.waitpid(child, 0)[1] >> 8 == 7)",
    ),
];
