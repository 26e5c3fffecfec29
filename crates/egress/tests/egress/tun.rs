//! `enabled`: every port of every public address, through a TUN device.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use stead_egress::control::Socket;
use stead_egress::journal::Decision;
use stead_egress::limits::Limits;
use stead_egress::policy::{Access, PolicyText};
use stead_egress::reason::Reason;

use crate::support::{ENVIRONMENT, Inside, World, connect_to, is_root, policy, question, rest};

/// Making a TUN device takes an `ioctl`, which is not for this crate.
const MAKE_DEVICE: &str = r#"
import fcntl, os, socket, struct, subprocess, sys
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454ca, struct.pack("16sH22x", b"tun0", 0x0001 | 0x1000))
for command in ["link set tun0 up mtu 1500", "addr add 10.99.0.2/24 dev tun0", "route add default dev tun0",
                "-6 addr add fd99::2/64 dev tun0 nodad", "-6 route add default dev tun0"]:
    subprocess.run(["ip", *command.split()], check=True)
other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
other.connect(sys.argv[1])
socket.send_fds(other, [b"x"], [tun])
"#;

fn device(inside: &Inside, directory: &std::path::Path) -> OwnedFd {
    let path = directory.join("device.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let pid = inside.pid().to_string();
    let status = Command::new("nsenter").args(["-t", &pid, "-n", "python3", "-c", MAKE_DEVICE]).arg(&path).status().unwrap();
    assert!(status.success());
    let stream = listener.accept().unwrap().0;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(&stream, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
    let message = ancillary.drain().next();
    match message {
        Some(RecvAncillaryMessage::ScmRights(mut rights)) => rights.next().unwrap(),
        _ => panic!("no device came"),
    }
}

fn open() -> PolicyText {
    PolicyText { access: Access::Enabled, ..policy(&[]) }
}

pub async fn world() -> World {
    let mut world = World::around(Inside::with("ip link set lo up"), Limits::default()).await;
    let device = device(&world.inside, world.directory.path());
    world.client.add(ENVIRONMENT, open(), vec![(Socket::Tun { mtu: 1500 }, device.as_fd())]).await.unwrap();
    world
}

/// Over the device; the server's address does not matter.
pub fn look_up(name: &str) -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.connect("8.8.8.8:53").unwrap();
    socket.send(&question(name, 1)).unwrap();
    let mut reply = [0; 512];
    let length = socket.recv(&mut reply).unwrap();
    crate::support::answer(&reply[..length]).1
}

fn connect(name: &str, port: u16) -> TcpStream {
    connect_to((look_up(name).unwrap(), port).into()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn any_port_by_name_and_large_streams_both_ways() {
    if !is_root() {
        return;
    }
    let world = world().await;
    world.name("a.example", &[world.upstream.into()]);
    world.server(4321, |mut stream| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let sent: Vec<u8> = (0..4_000_000u32).map(|number| (number % 251) as u8).collect();
    let expected = sent.clone();
    let received = world
        .inside
        .run(move || {
            assert_eq!(look_up("nowhere.example"), None);
            let mut stream = connect("a.example", 4321);
            stream.write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received
        })
        .await;
    assert!(received == expected, "{} of {} bytes", received.len(), expected.len());
    let entries = world.journal(|entries| entries.iter().any(|entry| entry.decision == Decision::Closed)).await;
    let closed = entries.last().unwrap();
    assert_eq!((closed.host.as_str(), closed.port, closed.bytes_up, closed.bytes_down), ("a.example", 4321, 4_000_000, 4_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_public_is_refused_at_once() {
    if !is_root() {
        return;
    }
    let mut world = world().await;
    world.name("lan.example", &["10.0.0.1".parse().unwrap()]);
    world.name("a.example", &[world.upstream.into()]);
    world
        .inside
        .run(|| {
            assert_eq!(look_up("lan.example"), None);
            for address in ["169.254.169.254:80", "10.0.0.1:22", "192.168.1.1:443", "[fd00:ec2::254]:80", "198.18.7.7:443"] {
                let error = connect_to(address.parse().unwrap()).unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{address}");
            }
            // Nothing listens there.
            let closed = look_up("a.example").unwrap();
            assert_eq!(connect_to((closed, 4322).into()).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        })
        .await;
    world.refused("169.254.169.254", 80, Reason::MetadataAddress).await;
    world.refused("10.0.0.1", 22, Reason::NonPublicAddress).await;
    world.refused("198.18.7.7", 443, Reason::UnknownSyntheticAddress).await;
    world.refused("lan.example", 53, Reason::NonPublicAddress).await;
    world.refused("a.example", 4322, Reason::ConnectFailed).await;
    // A list closes what it does not hold, and takes UDP away.
    world.server(4323, |mut stream| drop(rest(&mut stream)));
    let mut stream = world.inside.run(|| connect("a.example", 4323)).await;
    world.client.update(ENVIRONMENT, policy(&["b.example"])).await.unwrap();
    assert_eq!(tokio::task::spawn_blocking(move || rest(&mut stream)).await.unwrap(), "");
    world.refused("a.example", 4323, Reason::PolicyChanged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_go_to_and_fro() {
    if !is_root() {
        return;
    }
    let world = world().await;
    world.name("a.example", &[world.upstream.into()]);
    let server = UdpSocket::bind((world.upstream, 4433)).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((length, peer)) = server.recv_from(&mut buffer) {
            let _ = server.send_to(&buffer[..length], peer);
        }
    });
    world
        .inside
        .run(|| {
            let address = look_up("a.example").unwrap();
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            socket.connect((address, 4433)).unwrap();
            for size in [1, 100, 1400] {
                let mut reply = [0; 2000];
                socket.send(&vec![size as u8; size]).unwrap();
                assert_eq!(socket.recv(&mut reply).unwrap(), size);
                assert_eq!(reply[0], size as u8);
            }
            let metadata = UdpSocket::bind("0.0.0.0:0").unwrap();
            metadata.send_to(b"x", "169.254.169.254:123").unwrap();
        })
        .await;
    world.refused("169.254.169.254", 123, Reason::MetadataAddress).await;
    assert_eq!(world.resolver.asked.load(Ordering::SeqCst), 2, "once for DNS and once for the conversation");
}
