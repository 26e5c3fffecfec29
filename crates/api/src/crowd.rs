//! How many connections one address may have: whoever opens all that it can must leave room for the others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// What any address may have, however few slots there are.
const LEAST: usize = 64;

pub struct Crowd {
    slots: usize,
    counts: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection of an address, for as long as it lasts.
pub struct Place {
    crowd: Arc<Crowd>,
    address: IpAddr,
}

impl Crowd {
    pub fn new(slots: usize) -> Arc<Self> {
        Arc::new(Self { slots, counts: Mutex::default() })
    }

    /// A place for one more connection from there, when it has not its share already.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = origin(address);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        // Nothing is left behind by a refusal: to have been refused, an address must have connections.
        if *count >= share(self.slots, address) {
            return None;
        }
        *count += 1;
        Some(Place { crowd: Arc::clone(self), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.crowd.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// A quarter of the slots. This machine's own address may stand for everybody behind a proxy, and gets three quarters.
fn share(slots: usize, address: IpAddr) -> usize {
    let share = if address.is_loopback() { slots / 4 * 3 } else { slots / 4 };
    share.max(LEAST)
}

/// Who has one IPv6 address has the 2⁶⁴ beside it too: they count as one.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(crowd: &Arc<Crowd>, address: &str) -> Vec<Place> {
        std::iter::from_fn(|| crowd.enter(address.parse().unwrap())).take(10_000).collect()
    }

    #[test]
    fn an_address_has_its_share_and_leaves_the_rest() {
        let crowd = Crowd::new(400);
        let places = fill(&crowd, "192.0.2.1");
        assert_eq!(places.len(), 100);
        assert!(crowd.enter("192.0.2.2".parse().unwrap()).is_some());
        assert!(crowd.enter("::ffff:192.0.2.1".parse().unwrap()).is_none(), "the same address in other words");
        drop(places);
        assert!(crowd.counts.lock().unwrap().is_empty());
        assert!(crowd.enter("192.0.2.1".parse().unwrap()).is_some());
    }

    #[test]
    fn neighbours_in_one_network_count_as_one_and_this_machine_gets_more() {
        let crowd = Crowd::new(400);
        let _places = fill(&crowd, "2001:db8::1");
        assert!(crowd.enter("2001:db8::2".parse().unwrap()).is_none());
        assert!(crowd.enter("2001:db8:0:1::1".parse().unwrap()).is_some());
        assert_eq!(fill(&crowd, "127.0.0.1").len(), 300);
        assert_eq!(fill(&Crowd::new(8), "192.0.2.1").len(), LEAST);
    }
}
