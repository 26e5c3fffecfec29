//! What leads out of a place's own network: sockets and a device that are made inside it and handed to whoever decides outside.
//!
//! Nothing here decides anything. A place that nobody takes the other ends of is a place without a network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use crate::error::{Error, Result, Step};
use crate::netlink::Netlink;

/// Who answers names inside; `resolv.conf` says so. Nobody on the internet has this address.
pub const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
/// What a place with a device is called in its own network.
const OWN: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(192, 0, 2, 2), Ipv6Addr::new(0xfd53, 0x7465, 0x6164, 1, 0, 0, 0, 2));
const LOOPBACK: u32 = 1;
const WAITING: i32 = 512;

/// Which ways out a place has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlets {
    /// Connections to these ports of any address, a proxy, and names: each is a socket. Everything else is refused by the kernel.
    Ports { ports: Vec<u16>, proxy: u16 },
    /// Every packet, through a device.
    Device { largest_packet: u16 },
}

/// One way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlet {
    /// A listening socket for one port of every address.
    Tcp(u16),
    Proxy,
    NameDatagrams,
    NameStreams,
    /// Sees every packet, to tell what was refused.
    Packets,
    Device {
        largest_packet: u16,
    },
}

impl Outlets {
    /// What [`Outlets::make`] makes, in that order.
    pub fn list(&self) -> Vec<Outlet> {
        match self {
            Self::Ports { ports, .. } => {
                let ports = ports.iter().map(|port| Outlet::Tcp(*port));
                ports.chain([Outlet::Proxy, Outlet::NameDatagrams, Outlet::NameStreams, Outlet::Packets]).collect()
            }
            Self::Device { largest_packet } => vec![Outlet::Device { largest_packet: *largest_packet }],
        }
    }

    /// Opens what may be somebody's alone, by whoever makes the place: not every host lets everybody open it, and root's it always is. The
    /// calling process has its new network already.
    pub(crate) fn open(&self) -> Result<Option<OwnedFd>> {
        match self {
            Self::Ports { .. } => Ok(None),
            Self::Device { .. } => rustix::fs::open("/dev/net/tun", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
                .step("open /dev/net/tun, which a place with a network needs")
                .map(Some),
        }
    }

    /// Makes them in the network of the calling process, which is new and has its capabilities still.
    pub(crate) fn make(&self, opened: Option<OwnedFd>) -> Result<Vec<OwnedFd>> {
        let netlink = Netlink::open().step("speak to the network")?;
        match self {
            Self::Ports { ports, proxy } => {
                netlink.take_every_address(Ipv4Addr::UNSPECIFIED.into(), LOOPBACK).step("take every address")?;
                // A host without it needs none.
                let _ = netlink.take_every_address(Ipv6Addr::UNSPECIFIED.into(), LOOPBACK);
                let mut made = Vec::new();
                for port in ports.iter().chain([proxy]) {
                    made.push(listener(*port)?);
                }
                let names = SocketAddr::new(IpAddr::V4(NAME_SERVER), 53);
                made.push(bound(SocketType::DGRAM, names).step("make the socket for names")?);
                let streams = bound(SocketType::STREAM, names).step("make the socket for names")?;
                listen(&streams, WAITING).step("listen for names")?;
                made.push(streams);
                made.push(packets()?);
                Ok(made)
            }
            Self::Device { largest_packet } => {
                let device = opened.ok_or(Error::Ended)?;
                set_up(&device, &netlink, *largest_packet)?;
                Ok(vec![device])
            }
        }
    }
}

fn bound(kind: SocketType, address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}

/// Listens on a port of every address, of both families where there are two.
fn listener(port: u16) -> Result<OwnedFd> {
    let six = bound(SocketType::STREAM, SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port));
    let socket = six.or_else(|_| bound(SocketType::STREAM, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)));
    let socket = socket.step(format!("take port {port}"))?;
    listen(&socket, WAITING).step(format!("listen on port {port}"))?;
    Ok(socket)
}

fn packets() -> Result<OwnedFd> {
    let every = std::num::NonZeroU32::new(ETHERNET_ALL).map(rustix::net::Protocol::from_raw);
    socket_with(AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::CLOEXEC, every).step("watch what is refused")
}

/// Every protocol, in the byte order of the network.
const ETHERNET_ALL: u32 = (libc::ETH_P_ALL as u16).to_be() as u32;

const NAME: &[u8] = b"stead0";

fn set_up(device: &OwnedFd, netlink: &Netlink, largest_packet: u16) -> Result<()> {
    // SAFETY: ifreq is plain old data, and all zeroes is a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which lives through the call.
    let outcome = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if outcome != 0 {
        return Err(std::io::Error::last_os_error()).step("make the network device");
    }
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).step("ask about the network device")?;
    let link = rustix::net::netdevice::name_to_index(any.as_fd(), "stead0").step("find the network device")?;
    netlink.bring_up(link, largest_packet).step("bring the network device up")?;
    netlink.add_address(OWN.0.into(), link).step("give the network device an address")?;
    netlink.default_route(Ipv4Addr::UNSPECIFIED.into(), link).step("lead everything to the network device")?;
    // A host without it needs none.
    if netlink.add_address(OWN.1.into(), link).is_ok() {
        let _ = netlink.default_route(Ipv6Addr::UNSPECIFIED.into(), link);
    }
    Ok(())
}
