//! The few things that are said to the kernel's network in its own language: routes, addresses, links.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

const HEADER: usize = 16;
const CREATE: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;

pub struct Netlink(OwnedFd);

/// A message that is being put together.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&CREATE.to_ne_bytes());
        bytes.extend(fixed);
        Self(bytes)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend(((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

impl Netlink {
    pub fn open() -> io::Result<Self> {
        // Without a protocol: routes are the first of them.
        Ok(Self(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?))
    }

    /// Sends a message and waits for the kernel to say that it is done.
    fn tell(&self, message: Message) -> io::Result<()> {
        let mut bytes = message.0;
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        sendto(&self.0, &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut reply = [0u8; 1024];
        let (length, _) = recv(&self.0, &mut reply[..], RecvFlags::empty())?;
        let code = reply.get(HEADER..HEADER + 4).filter(|_| length >= HEADER + 4).and_then(|code| code.try_into().ok());
        match code.map(i32::from_ne_bytes) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::Error::from_raw_os_error(libc::EBADMSG)),
        }
    }

    /// Every address of a family is this machine's own: whoever listens on a port here gets what is sent to that port anywhere.
    pub fn take_every_address(&self, any: IpAddr, loopback: u32) -> io::Result<()> {
        let fixed = [family(any), 0, 0, 0, libc::RT_TABLE_LOCAL, libc::RTPROT_STATIC, libc::RT_SCOPE_HOST, libc::RTN_LOCAL, 0, 0, 0, 0];
        self.tell(Message::new(libc::RTM_NEWROUTE, &fixed).attribute(libc::RTA_OIF, &loopback.to_ne_bytes()))
    }

    /// Whatever has no other way goes through this link.
    pub fn default_route(&self, any: IpAddr, link: u32) -> io::Result<()> {
        let fixed = [family(any), 0, 0, 0, libc::RT_TABLE_MAIN, libc::RTPROT_STATIC, libc::RT_SCOPE_LINK, libc::RTN_UNICAST, 0, 0, 0, 0];
        self.tell(Message::new(libc::RTM_NEWROUTE, &fixed).attribute(libc::RTA_OIF, &link.to_ne_bytes()))
    }

    /// Gives a link an address of its own, which can be used at once.
    pub fn add_address(&self, address: IpAddr, link: u32) -> io::Result<()> {
        let bytes = octets(address);
        let mut fixed = vec![family(address), (bytes.len() * 8) as u8, libc::IFA_F_NODAD as u8, 0];
        fixed.extend(link.to_ne_bytes());
        self.tell(Message::new(libc::RTM_NEWADDR, &fixed).attribute(libc::IFA_LOCAL, &bytes).attribute(libc::IFA_ADDRESS, &bytes))
    }

    /// Brings a link up, with packets of at most so many bytes.
    pub fn bring_up(&self, link: u32, largest: u16) -> io::Result<()> {
        let up = (libc::IFF_UP as u32).to_ne_bytes();
        let mut fixed = vec![libc::AF_UNSPEC as u8, 0, 0, 0];
        fixed.extend(link.to_ne_bytes());
        fixed.extend(up);
        fixed.extend(up);
        let message = Message::new(libc::RTM_NEWLINK, &fixed).attribute(libc::IFLA_MTU, &u32::from(largest).to_ne_bytes());
        // A link is changed and never made here.
        let Message(mut bytes) = message;
        bytes[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
        self.tell(Message(bytes))
    }
}
