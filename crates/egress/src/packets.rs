//! Packets for ports where nothing listens. The kernel refuses them and leaves no trace; this reads them beside it, for the journal.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep};

use crate::environment::Environment;
use crate::reason::Reason;
use crate::sniff::Protocol;

/// The same destination is told once in this time, and no more than so many of them.
const WINDOW: Duration = Duration::from_secs(60);
const MOST: usize = 256;

/// Where names are asked for.
const NAMES: u16 = 53;

/// An attempt to reach somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    pub address: IpAddr,
    pub port: u16,
    pub datagram: bool,
}

/// Reads an `AF_PACKET` socket on the environment's loopback, which comes as a pipe because it is read like one. `listening` are the TCP ports that connections are taken on.
pub async fn watch(environment: Arc<Environment>, socket: pipe::Receiver, listening: HashSet<u16>) {
    let (mut told, mut until) = (HashSet::new(), Instant::now() + WINDOW);
    let mut packet = [0; 128];
    loop {
        // Not `read`: a short read means an empty pipe to it, and here only a short packet.
        match socket.readable().await.and_then(|()| socket.try_read(&mut packet)) {
            Ok(length) if length > 0 => {
                let Some(attempt) = parse(&packet[..length]) else { continue };
                let taken = if attempt.datagram { attempt.port == NAMES } else { listening.contains(&attempt.port) };
                // What stays inside is the environment's own affair.
                if taken || attempt.address.is_loopback() {
                    continue;
                }
                if Instant::now() >= until {
                    told.clear();
                    until = Instant::now() + WINDOW;
                }
                // On loopback every packet is seen going out and coming in.
                if told.len() < MOST && told.insert(attempt) {
                    let host = environment.meant_by(attempt.address).map_or_else(|_| attempt.address.to_string(), |host| host.to_string());
                    let protocol = if attempt.datagram { Protocol::Udp } else { Protocol::Tcp };
                    environment.note_refusal(host, attempt.port, protocol, Reason::NoListener);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(_) | Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// A SYN or a datagram, with or without an Ethernet header before it.
pub fn parse(packet: &[u8]) -> Option<Attempt> {
    let packet = match packet {
        [first, ..] if matches!(first >> 4, 4 | 6) => packet,
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, rest @ ..] | [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, rest @ ..] => rest,
        _ => return None,
    };
    let (address, protocol, payload): (IpAddr, u8, &[u8]) = match packet.first()? >> 4 {
        4 => {
            // Only the first fragment has ports.
            if u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff != 0 {
                return None;
            }
            let four = <[u8; 4]>::try_from(packet.get(16..20)?).ok()?;
            (Ipv4Addr::from(four).into(), *packet.get(9)?, packet.get(usize::from(packet[0] & 0xf) * 4..)?)
        }
        6 => {
            let six = <[u8; 16]>::try_from(packet.get(24..40)?).ok()?;
            (Ipv6Addr::from(six).into(), *packet.get(6)?, packet.get(40..)?)
        }
        _ => return None,
    };
    let port = u16::from_be_bytes([*payload.get(2)?, *payload.get(3)?]);
    match protocol {
        // SYN without ACK.
        6 if payload.get(13)? & 0x12 == 0x02 => Some(Attempt { address, port, datagram: false }),
        // What comes from there is an answer of our own: nobody inside can send from a port so low.
        17 if payload[..2] != NAMES.to_be_bytes() => Some(Attempt { address, port, datagram: true }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn attempts_are_recognised() {
        let mut four = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 127, 0, 0, 1, 9, 9, 9, 9];
        four.extend([0x30, 0x39, 0, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x02]);
        let syn = Attempt { address: "9.9.9.9".parse().unwrap(), port: 25, datagram: false };
        assert_eq!(parse(&four), Some(syn));
        assert_eq!(parse(&[&[0; 12][..], &[8, 0], &four].concat()), Some(syn), "with an Ethernet header");
        *four.last_mut().unwrap() = 0x12;
        assert_eq!(parse(&four), None, "an answer");
        let mut six = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        six.extend([0; 16]);
        six.extend(Ipv6Addr::new(0x2606, 0x4700, 0, 0, 0, 0, 0, 1).octets());
        six.extend([0x30, 0x39, 1, 187, 0, 8, 0, 0]);
        assert_eq!(parse(&six), Some(Attempt { address: "2606:4700::1".parse().unwrap(), port: 443, datagram: true }));
        six[40..42].copy_from_slice(&[0, 53]);
        assert_eq!(parse(&six), None, "an answer to who asked for a name");
    }

    proptest! {
        #[test]
        fn hostile_packets_never_panic(packet in proptest::collection::vec(any::<u8>(), 0..128)) {
            let _ = parse(&packet);
        }
    }
}
