//! Addresses that stand for names. A program that ignores every proxy variable still asks DNS, connects to what it was told, and that address
//! says which name it meant.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::normalised;
use crate::host::HostName;

/// 198.18.0.0/15: set aside for benchmarks, so that nothing on the internet has one of these.
const FOUR: u32 = 0xc612_0000;
const SLOTS: u32 = 1 << 17;
/// A ULA prefix of our own; the last 32 bits are the slot.
const SIX: u128 = 0xfd53_7465_6164_0000_0000_0000_0000_0000;
/// A wildcard lets a program ask for any number of names; the oldest make room.
const MOST_NAMES: usize = 8192;

/// The names of one environment and the addresses that stand for them.
#[derive(Debug, Default)]
pub struct SyntheticNames {
    by_slot: HashMap<u32, HostName>,
    by_name: HashMap<HostName, u32>,
    order: VecDeque<HostName>,
}

impl SyntheticNames {
    /// The address of a name, the same each time.
    pub fn addresses(&mut self, name: &HostName) -> (Ipv4Addr, Ipv6Addr) {
        let slot = self.by_name.get(name).copied().unwrap_or_else(|| self.assign(name));
        (Ipv4Addr::from_bits(FOUR | slot), Ipv6Addr::from_bits(SIX | u128::from(slot)))
    }

    /// The name that an address stands for.
    pub fn name(&self, address: IpAddr) -> Option<&HostName> {
        self.by_slot.get(&slot(address)?)
    }

    /// The place follows from the name, so that an answer that a program remembers outlives a restart of the relay.
    fn assign(&mut self, name: &HostName) -> u32 {
        if self.order.len() >= MOST_NAMES
            && let Some(oldest) = self.order.pop_front()
            && let Some(slot) = self.by_name.remove(&oldest)
        {
            self.by_slot.remove(&slot);
        }
        let mut slot = hash(name.as_str()) % SLOTS;
        // The first and last of a range are odd addresses to connect to. There are far more slots than names, so this ends.
        while slot == 0 || slot == SLOTS - 1 || self.by_slot.contains_key(&slot) {
            slot = (slot + 1) % SLOTS;
        }
        self.by_slot.insert(slot, name.clone());
        self.by_name.insert(name.clone(), slot);
        self.order.push_back(name.clone());
        slot
    }
}

/// Whether an address is one of ours, known or not.
pub fn is_synthetic(address: IpAddr) -> bool {
    slot(address).is_some()
}

fn slot(address: IpAddr) -> Option<u32> {
    match normalised(address) {
        IpAddr::V4(four) => (four.to_bits() & !(SLOTS - 1) == FOUR).then(|| four.to_bits() & (SLOTS - 1)),
        IpAddr::V6(six) => u32::try_from(six.to_bits() ^ SIX).ok(),
    }
}

/// FNV-1a: the standard library's hash may change between versions.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |state, byte| (state ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        HostName::parse(text).unwrap()
    }

    #[test]
    fn each_name_has_its_own_and_keeps_it() {
        let mut names = SyntheticNames::default();
        let (four, six) = names.addresses(&name("api.github.com"));
        assert_eq!(names.addresses(&name("API.github.com.")), (four, six));
        assert_eq!(SyntheticNames::default().addresses(&name("api.github.com")), (four, six), "also after a restart");
        assert_eq!(names.name(four.into()), Some(&name("api.github.com")));
        assert_eq!(names.name(six.into()), Some(&name("api.github.com")));
        assert_eq!(names.name(four.to_ipv6_mapped().into()), Some(&name("api.github.com")));
        assert_ne!(names.addresses(&name("b.example")).0, four);
        assert!(is_synthetic("198.19.255.255".parse().unwrap()) && !is_synthetic("198.20.0.0".parse().unwrap()));
        assert!(!is_synthetic("fd53:7465:6164::1:0:0".parse().unwrap()));
    }

    #[test]
    fn a_flood_of_names_is_bounded_and_stays_unambiguous() {
        let mut names = SyntheticNames::default();
        for number in 0..3 * MOST_NAMES {
            let name = name(&format!("n{number}.example"));
            let (four, six) = names.addresses(&name);
            assert_eq!((names.name(four.into()), names.name(six.into())), (Some(&name), Some(&name)));
        }
        assert_eq!((names.by_slot.len(), names.by_name.len(), names.order.len()), (MOST_NAMES, MOST_NAMES, MOST_NAMES));
    }
}
