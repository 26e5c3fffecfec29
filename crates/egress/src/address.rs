//! Which addresses are public. Everything else is refused after a name was resolved, unless the operator says otherwise.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Public,
    /// Loopback, private, link-local and all that is not routed on the internet.
    NonPublic,
    /// Hands out a machine's own credentials; no operator can allow it.
    Metadata,
}

/// An IPv4 address that is written as IPv6 (`::ffff:a.b.c.d`) becomes the IPv4 address, because that is where a connection goes.
pub fn normalised(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

pub fn reach(address: IpAddr) -> Reach {
    match normalised(address) {
        IpAddr::V4(four) => reach_of_four(four),
        IpAddr::V6(six) => reach_of_six(six),
    }
}

const METADATA_FOUR: [Ipv4Addr; 7] = [
    Ipv4Addr::new(169, 254, 169, 254), // nearly every cloud
    Ipv4Addr::new(169, 254, 170, 2),   // task roles
    Ipv4Addr::new(169, 254, 170, 23),  // pod identities
    Ipv4Addr::new(169, 254, 0, 23),    // Tencent
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle
    Ipv4Addr::new(168, 63, 129, 16),   // Azure's wire server, in a public range
];

const METADATA_SIX: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
];

fn reach_of_four(address: Ipv4Addr) -> Reach {
    if METADATA_FOUR.contains(&address) {
        return Reach::Metadata;
    }
    let non_public = match address.octets() {
        [0 | 10 | 127, ..] | [224..=255, ..] => true,
        [100, second, ..] => second & 0xc0 == 64,
        [169, 254, ..] | [192, 168, ..] => true,
        [172, second, ..] => second & 0xf0 == 16,
        // Protocol assignments, documentation, the old 6to4 relays.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 51, 100, _] | [203, 0, 113, _] => true,
        // Benchmarks, and our own synthetic addresses.
        [198, 18 | 19, ..] => true,
        _ => false,
    };
    if non_public { Reach::NonPublic } else { Reach::Public }
}

fn reach_of_six(address: Ipv6Addr) -> Reach {
    if METADATA_SIX.contains(&address) {
        return Reach::Metadata;
    }
    let carried = carried_four(address);
    if carried.is_some_and(|four| reach_of_four(four) == Reach::Metadata) {
        return Reach::Metadata;
    }
    let segments = address.segments();
    // NAT64 leads to the IPv4 address that it carries.
    if segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return carried.map_or(Reach::NonPublic, reach_of_four);
    }
    let public = match segments {
        // Teredo, benchmarks, ORCHID and other special blocks stand in 2001:0::/23; documentation behind it; 6to4 is given up.
        [0x2001, second, ..] => second >= 0x200 && second != 0xdb8,
        [0x2002, ..] => false,
        [0x3fff, second, ..] => second >= 0x1000,
        [first, ..] => first & 0xe000 == 0x2000,
    };
    if public { Reach::Public } else { Reach::NonPublic }
}

/// The IPv4 address inside an IPv6 one: compatible, NAT64 (both prefixes), 6to4, ISATAP.
fn carried_four(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let four = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        [0, 0, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, _, _, _, _, high, low] => four(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => four(high, low),
        [0x2002, high, low, ..] => four(high, low),
        [.., 0 | 0x200, 0x5efe, high, low] => four(high, low),
        _ => None,
    }
}

/// `10.0.0.0/8` or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: IpAddr,
    bits: u8,
}

impl Range {
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().ok()?;
        let longest = if first.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= longest)?,
            None => longest,
        };
        Some(Self { first, bits })
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, normalised(address)) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                first.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                first.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Reach {
        reach(text.parse().unwrap())
    }

    #[test]
    fn the_world_and_what_is_not_part_of_it() {
        for text in [
            "1.1.1.1",
            "93.184.216.34",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
        ] {
            assert_eq!(of(text), Reach::Public, "{text}");
        }
        for text in ["2606:4700::1111", "2001:4860:4860::8888", "2a00:1450::1", "64:ff9b::1.1.1.1", "::ffff:1.1.1.1"] {
            assert_eq!(of(text), Reach::Public, "{text}");
        }
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "127.0.0.1",
            "127.255.0.9",
            "169.254.1.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "192.88.99.1",
        ] {
            assert_eq!(of(text), Reach::NonPublic, "{text}");
        }
        for text in [
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "fec0::1",
            "2001:db8::1",
            "2001::1",
            "2001:10::1",
            "2002:7f00:1::",
            "2002:0101:0101::",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1.1.1.1",
            "100::1",
            "3fff::1",
            "5f00::1",
            "::1.1.1.1",
        ] {
            assert_eq!(of(text), Reach::NonPublic, "{text}");
        }
    }

    #[test]
    fn metadata_in_every_dress() {
        for text in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "2001:470::5efe:a9fe:a9fe",
            "100.100.100.200",
            "168.63.129.16",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::a9fe:a9fe",
        ] {
            assert_eq!(of(text), Reach::Metadata, "{text}");
        }
    }

    #[test]
    fn ranges() {
        let range = Range::parse("10.0.0.0/8").unwrap();
        assert!(range.contains("10.255.0.1".parse().unwrap()) && range.contains("::ffff:10.0.0.1".parse().unwrap()));
        assert!(!range.contains("11.0.0.1".parse().unwrap()) && !range.contains("::1".parse().unwrap()));
        assert!(Range::parse("0.0.0.0/0").unwrap().contains("9.9.9.9".parse().unwrap()));
        assert!(Range::parse("fd00::/8").unwrap().contains("fd12::1".parse().unwrap()));
        assert!(Range::parse("::1").unwrap().contains("::1".parse().unwrap()));
        for text in ["10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "a/8", "/8", ""] {
            assert!(Range::parse(text).is_none(), "{text}");
        }
    }

    proptest! {
        // What IPv6 carries is never easier to reach than the IPv4 address itself.
        #[test]
        fn dressed_addresses_gain_nothing(bits in any::<u32>()) {
            let four = Ipv4Addr::from_bits(bits);
            let [a, b, c, d] = four.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for six in [four.to_ipv6_mapped(), Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low), Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1)] {
                if reach(six.into()) == Reach::Public {
                    prop_assert_eq!(reach(four.into()), Reach::Public);
                }
                if reach(four.into()) == Reach::Metadata {
                    prop_assert_eq!(reach(six.into()), Reach::Metadata);
                }
            }
        }
    }
}
