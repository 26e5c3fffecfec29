//! IP packets: taken apart and put together.

use std::net::{IpAddr, SocketAddr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, IpRepr, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket, UdpRepr};

#[derive(Debug, PartialEq, Eq)]
pub enum Packet<'bytes> {
    Datagram {
        source: SocketAddr,
        destination: SocketAddr,
        payload: &'bytes [u8],
    },
    /// Of a TCP stream; `begins` for the first of one.
    Segment {
        source: SocketAddr,
        destination: SocketAddr,
        begins: bool,
    },
}

/// `None` for everything else, fragments included: what comes here was made for this device and its MTU.
pub fn parse(bytes: &[u8]) -> Option<Packet<'_>> {
    let (source, destination, protocol, payload): (IpAddr, IpAddr, _, _) = match bytes.first()? >> 4 {
        4 => {
            let packet = Ipv4Packet::new_checked(bytes).ok()?;
            if packet.more_frags() || packet.frag_offset() != 0 {
                return None;
            }
            (packet.src_addr().into(), packet.dst_addr().into(), packet.next_header(), packet.payload())
        }
        6 => {
            let packet = Ipv6Packet::new_checked(bytes).ok()?;
            (packet.src_addr().into(), packet.dst_addr().into(), packet.next_header(), packet.payload())
        }
        _ => return None,
    };
    match protocol {
        IpProtocol::Udp => {
            let packet = UdpPacket::new_checked(payload).ok()?;
            let (source, destination) = (SocketAddr::new(source, packet.src_port()), SocketAddr::new(destination, packet.dst_port()));
            Some(Packet::Datagram { source, destination, payload: packet.payload() })
        }
        IpProtocol::Tcp => {
            let packet = TcpPacket::new_checked(payload).ok()?;
            let (source, destination) = (SocketAddr::new(source, packet.src_port()), SocketAddr::new(destination, packet.dst_port()));
            (source.port() != 0 && destination.port() != 0).then(|| Packet::Segment {
                source,
                destination,
                begins: packet.syn() && !packet.ack() && !packet.rst(),
            })
        }
        _ => None,
    }
}

/// A datagram that seems to come from `source`. `None` if it does not fit, as there are no fragments here.
pub fn datagram(source: SocketAddr, destination: SocketAddr, payload: &[u8], mtu: u16) -> Option<Vec<u8>> {
    if source.is_ipv4() != destination.is_ipv4() {
        return None;
    }
    let header = UdpRepr { src_port: source.port(), dst_port: destination.port() };
    let (from, to) = (source.ip().into(), destination.ip().into());
    let ip = IpRepr::new(from, to, IpProtocol::Udp, header.header_len() + payload.len(), 64);
    if ip.buffer_len() > usize::from(mtu) {
        return None;
    }
    let mut bytes = vec![0; ip.buffer_len()];
    let checksums = ChecksumCapabilities::default();
    ip.emit(&mut bytes[..], &checksums);
    let mut packet = UdpPacket::new_unchecked(&mut bytes[ip.header_len()..]);
    header.emit(&mut packet, &from, &to, payload.len(), |body| body.copy_from_slice(payload), &checksums);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn datagrams_are_read_as_they_were_written() {
        for (from, to) in [("9.9.9.9:53", "10.0.0.2:4000"), ("[2606:4700::1]:443", "[fd00::2]:4000")] {
            let (source, destination) = (from.parse().unwrap(), to.parse().unwrap());
            let bytes = datagram(source, destination, b"hello", 1500).unwrap();
            assert_eq!(parse(&bytes), Some(Packet::Datagram { source, destination, payload: b"hello" }));
            assert!(datagram(source, destination, &[0; 1500], 1500).is_none());
        }
        assert!(datagram("9.9.9.9:53".parse().unwrap(), "[fd00::2]:4000".parse().unwrap(), b"", 1500).is_none());
    }

    proptest! {
        #[test]
        fn hostile_packets_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), six in any::<bool>(), udp in any::<bool>()) {
            let _ = parse(&bytes);
            if bytes.len() > 10 {
                let protocol = if udp { 17 } else { 6 };
                let length = (bytes.len() as u16).to_be_bytes();
                if six {
                    bytes[0] = 0x60;
                    bytes[6] = protocol;
                    bytes[4..6].copy_from_slice(&length.map(|byte| byte.saturating_sub(40)));
                } else {
                    bytes[0] = 0x45;
                    bytes[2..4].copy_from_slice(&length);
                    bytes[6..8].fill(0);
                    bytes[9] = protocol;
                }
                let _ = parse(&bytes);
            }
        }
    }
}
