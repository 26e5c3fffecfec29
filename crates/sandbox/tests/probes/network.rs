//! W: the network, where there is none.

use super::{Probe, checked, probe};

pub const PROBES: &[Probe] = &[
    probe("W01", "have an interface that leads somewhere", "got([n for _, n in socket.if_nameindex() if n != 'lo'])"),
    checked("W01", "reach a port of the host by loopback", "socket.create_connection(('127.0.0.1', HOST_PORT), 2); got(True)"),
    probe("W01", "reach an address by TCP", "socket.create_connection(('192.0.2.1', 80), 2); got(True)"),
    probe("W01", "reach an address by UDP", "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('192.0.2.1', 53)); got(True)"),
    probe("W01", "reach an address of version 6", "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.connect(('2001:db8::1', 53)); got(True)"),
    probe("W01", "reach the metadata of a cloud", "socket.create_connection(('169.254.169.254', 80), 2); got(True)"),
    probe("W01", "ping", "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1); s.connect(('192.0.2.1', 0)); s.send(b'\\x08' + b'\\0' * 7); got(True)"),
    probe("W01", "send to everybody", "
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); s.sendto(b'x', ('255.255.255.255', 9)); got(True)"),
    probe("W01", "make an interface", "got(subprocess.run(['ip', 'link', 'add', 'd0', 'type', 'dummy']).returncode == 0)"),
    probe("W01", "make a route", "inside(subprocess.run(['ip', 'route', 'add', 'default', 'dev', 'lo']).returncode == 0)"),
    probe("W01", "open a tunnel", "os.open('/dev/net/tun', os.O_RDWR); got(True)"),
    probe("W02", "resolve a name", "socket.getaddrinfo('example.com', 80); got(True)"),
    probe("W02", "resolve by a shell", "got(subprocess.run(['timeout', '2', 'getent', 'ahosts', 'example.com']).returncode == 0)"),
    probe("W02", "connect by a shell", "got(subprocess.run(['timeout', '2', 'bash', '-c', 'exec 3<>/dev/tcp/192.0.2.1/80']).returncode == 0)"),
    probe("W02", "ask a resolver directly", "
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); s.sendto(b'\\0' * 12, ('8.8.8.8', 53)); got(s.recv(1))"),
    probe("W02", "ask the daemons that resolve", "
for p in ('/run/nscd/socket', '/var/run/nscd/socket', '/run/systemd/resolve/io.systemd.Resolve', '/var/lib/sss/pipes/nss'):
    try: socket.socket(socket.AF_UNIX).connect(p); got(True)
    except OSError: pass
got(False)"),
    probe("W03", "see the connections of the host", "got(any(len(open('/proc/net/' + f).readlines()) > 1 for f in ('tcp', 'tcp6', 'udp', 'arp')))"),
];
