//! The little of the DNS format that is needed: one question in, addresses or a refusal out.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::host::HostName;

const HEADER: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const CLASS_INTERNET: u16 = 1;
/// Short, as the name may leave the list; an address is only looked up again, never changed.
const TIME_TO_LIVE: u32 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    A,
    Aaaa,
    /// Known, and deliberately without an answer: no HTTPS or SVCB record means no encrypted client hello.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    NoError = 0,
    FormatError = 1,
    ServerFailure = 2,
    NoSuchName = 3,
    NotImplemented = 4,
    Refused = 5,
}

/// A question that can be answered, and what an answer repeats of it.
#[derive(Debug)]
pub struct Question<'packet> {
    pub name: HostName,
    pub kind: Kind,
    packet: &'packet [u8],
    end: usize,
}

#[derive(Debug)]
pub enum Query<'packet> {
    /// Not a question at all; an answer could be bounced to and fro.
    Ignored,
    /// A reply that says why there is no answer.
    Rejected(Vec<u8>),
    Asked(Question<'packet>),
}

pub fn parse(packet: &[u8]) -> Query<'_> {
    if packet.len() < HEADER || packet[2] & 0x80 != 0 {
        return Query::Ignored;
    }
    let reject = |code, end| Query::Rejected(reply(packet, end, code, &[]));
    if packet[2] & 0x78 != 0 {
        return reject(Code::NotImplemented, HEADER);
    }
    let counts = [4, 6, 8].map(|at| u16::from_be_bytes([packet[at], packet[at + 1]]));
    if counts != [1, 0, 0] {
        return reject(Code::FormatError, HEADER);
    }
    let Some((name, at)) = read_name(packet) else { return reject(Code::FormatError, HEADER) };
    let Some(&[type_high, type_low, class_high, class_low]) = packet.get(at..at + 4) else { return reject(Code::FormatError, HEADER) };
    let end = at + 4;
    if u16::from_be_bytes([class_high, class_low]) != CLASS_INTERNET {
        return reject(Code::Refused, end);
    }
    // A name that no host can have is listed nowhere.
    let Ok(name) = HostName::parse(&name) else { return reject(Code::NoSuchName, end) };
    let kind = match u16::from_be_bytes([type_high, type_low]) {
        TYPE_A => Kind::A,
        TYPE_AAAA => Kind::Aaaa,
        _ => Kind::Other,
    };
    Query::Asked(Question { name, kind, packet, end })
}

/// Labels as text, and where they end. No compression: a question has nothing to point back to.
fn read_name(packet: &[u8]) -> Option<(String, usize)> {
    let (mut name, mut at) = (String::new(), HEADER);
    loop {
        let length = usize::from(*packet.get(at)?);
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        if length > 63 || name.len() + length > 254 {
            return None;
        }
        // A dot inside a label would make two names of one; it becomes something that is no name.
        name.extend(
            packet.get(at..at + length)?.iter().map(|&byte| if byte == b'.' || !byte.is_ascii() { '\0' } else { char::from(byte) }),
        );
        name.push('.');
        at += length;
    }
}

impl Question<'_> {
    pub fn addresses(&self, four: Ipv4Addr, six: Ipv6Addr) -> Vec<u8> {
        match self.kind {
            Kind::A => self.with_record(TYPE_A, &four.octets()),
            Kind::Aaaa => self.with_record(TYPE_AAAA, &six.octets()),
            Kind::Other => self.code(Code::NoError),
        }
    }

    pub fn code(&self, code: Code) -> Vec<u8> {
        reply(self.packet, self.end, code, &[])
    }

    fn with_record(&self, kind: u16, data: &[u8]) -> Vec<u8> {
        let mut record = vec![0xc0, HEADER as u8]; // points at the question's name
        record.extend(kind.to_be_bytes());
        record.extend(CLASS_INTERNET.to_be_bytes());
        record.extend(TIME_TO_LIVE.to_be_bytes());
        record.extend((data.len() as u16).to_be_bytes());
        record.extend(data);
        reply(self.packet, self.end, Code::NoError, &record)
    }
}

/// Repeats the packet up to `end`: the header alone, or with its question in the very same letters.
fn reply(packet: &[u8], end: usize, code: Code, record: &[u8]) -> Vec<u8> {
    let mut reply = Vec::with_capacity(end + record.len());
    reply.extend(&packet[..2]);
    // An answer, with the opcode and "recursion desired" as they came; recursion is available.
    reply.extend([0x80 | (packet[2] & 0x79), 0x80 | code as u8]);
    reply.extend([0, u8::from(end > HEADER), 0, u8::from(!record.is_empty()), 0, 0, 0, 0]);
    reply.extend(&packet[HEADER..end]);
    reply.extend(record);
    reply
}

#[cfg(test)]
pub fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut packet = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        packet.push(label.len() as u8);
        packet.extend(label.as_bytes());
    }
    packet.push(0);
    packet.extend(kind.to_be_bytes());
    packet.extend([0, 1]);
    packet
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FOUR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 7);
    const SIX: Ipv6Addr = Ipv6Addr::new(0xfd53, 0, 0, 0, 0, 0, 0, 7);

    fn asked(packet: &[u8]) -> Question<'_> {
        match parse(packet) {
            Query::Asked(question) => question,
            other => panic!("{other:?}"),
        }
    }

    fn rejected(packet: &[u8]) -> u8 {
        match parse(packet) {
            Query::Rejected(reply) => {
                assert_eq!(reply[..2], packet[..2]);
                reply[3] & 0xf
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_question_is_answered_in_its_own_letters() {
        let packet = question("aPi.GitHub.com", 1);
        let question = asked(&packet);
        assert_eq!((question.name.as_str(), question.kind), ("api.github.com", Kind::A));
        let reply = question.addresses(FOUR, SIX);
        assert_eq!(reply[12..packet.len()], packet[12..]);
        assert_eq!(reply[2..8], [0x81, 0x80, 0, 1, 0, 1]);
        assert_eq!(reply[packet.len()..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 7]);
    }

    #[test]
    fn only_addresses_are_answered() {
        let six = question("a.example", 28);
        assert!(asked(&six).addresses(FOUR, SIX).ends_with(&SIX.octets()));
        for kind in [5, 12, 15, 16, 33, 64, 65, 255] {
            let packet = question("a.example", kind);
            let reply = asked(&packet).addresses(FOUR, SIX);
            assert_eq!((reply[3] & 0xf, reply[7]), (0, 0), "no error and no answer");
        }
    }

    #[test]
    fn odd_packets() {
        let good = question("a.example", 1);
        assert!(matches!(parse(&good[..11]), Query::Ignored));
        let mut answer = good.clone();
        answer[2] |= 0x80;
        assert!(matches!(parse(&answer), Query::Ignored), "an answer is not answered");
        let mut two = good.clone();
        two[5] = 2;
        assert_eq!(rejected(&two), 1);
        let mut update = good.clone();
        update[2] |= 5 << 3;
        assert_eq!(rejected(&update), 4);
        let mut chaos = good.clone();
        *chaos.last_mut().unwrap() = 3;
        assert_eq!(rejected(&chaos), 5);
        let mut pointer = good.clone();
        pointer[12] = 0xc0;
        assert_eq!(rejected(&pointer), 1);
        assert_eq!(rejected(&good[..good.len() - 1]), 1);
        let dotted = [&good[..12], b"\x05a.b.c\x00\x00\x01\x00\x01"].concat();
        assert_eq!(rejected(&dotted), 3, "a dot inside a label");
        let root = [&good[..12], b"\x00\x00\x01\x00\x01"].concat();
        assert_eq!(rejected(&root), 3);
    }

    proptest! {
        #[test]
        fn hostile_packets_never_panic_and_never_grow(packet in proptest::collection::vec(any::<u8>(), 0..600)) {
            match parse(&packet) {
                Query::Ignored => {}
                Query::Rejected(reply) => prop_assert!(reply.len() <= packet.len()),
                Query::Asked(question) => prop_assert!(question.addresses(FOUR, SIX).len() <= packet.len() + 28),
            }
        }

        #[test]
        fn damaged_questions_never_panic(at in 0usize..40, byte in any::<u8>(), cut in 0usize..40) {
            let mut packet = question("some.long.name.example.org", 28);
            let end = packet.len();
            packet[at % end] = byte;
            let _ = parse(&packet[..end - cut % end]);
        }
    }
}
