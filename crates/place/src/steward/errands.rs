//! Which errands are under way. What is handed inside is out of our hands, and nobody says when it is over. But the kernel keeps an entry for a
//! stream that was registered with it for as long as anybody has that stream: the message that it travels in, init, or the errand.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::epoll;

/// So many are remembered before it is looked which of them are over.
const MANY: usize = 256;

#[derive(Default)]
pub struct Errands {
    /// None before the first one.
    registry: Option<OwnedFd>,
    /// By number, and whether it may change something.
    handed: BTreeMap<u64, bool>,
    next: u64,
}

/// How many are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    pub reading: usize,
    pub changing: usize,
}

impl Errands {
    /// Remembers a stream that is about to be handed inside.
    pub fn hand(&mut self, stream: impl AsFd, changes: bool) -> io::Result<()> {
        if self.handed.len() >= MANY {
            self.under_way();
        }
        let registry = match self.registry.take() {
            Some(registry) => registry,
            None => epoll::create(epoll::CreateFlags::CLOEXEC)?,
        };
        let registry = self.registry.insert(registry);
        // Nothing is ever heard of it: only the entry counts.
        epoll::add(&*registry, stream, epoll::EventData::new_u64(self.next), epoll::EventFlags::empty())?;
        self.handed.insert(self.next, changes);
        self.next += 1;
        Ok(())
    }

    pub fn under_way(&mut self) -> UnderWay {
        // What cannot be told is taken to be under way.
        if let Some(there) = self.registry.as_ref().and_then(entries) {
            self.handed.retain(|number, _| there.contains(number));
        }
        let changing = self.handed.values().filter(|changes| **changes).count();
        UnderWay { reading: self.handed.len() - changing, changing }
    }
}

impl UnderWay {
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// The numbers of what is registered and still open somewhere.
fn entries(registry: &OwnedFd) -> Option<Vec<u64>> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", registry.as_raw_fd())).ok()?;
    let lines = text.lines().filter(|line| line.starts_with("tfd:"));
    let number = |line: &str| u64::from_str_radix(line.split("data:").nth(1)?.split_whitespace().next()?, 16).ok();
    // One line that is not understood, and nothing is known.
    lines.map(number).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn one_is_under_way_for_as_long_as_anybody_has_its_stream() {
        let mut errands = Errands::default();
        assert!(!errands.under_way().any());
        let (reading, _other) = UnixStream::pair().unwrap();
        let (changing, _another) = UnixStream::pair().unwrap();
        errands.hand(&reading, false).unwrap();
        errands.hand(&changing, true).unwrap();
        let copy = changing.try_clone().unwrap();
        drop(changing);
        assert_eq!(errands.under_way(), UnderWay { reading: 1, changing: 1 });
        drop(reading);
        assert_eq!(errands.under_way(), UnderWay { reading: 0, changing: 1 });
        drop(copy);
        assert!(!errands.under_way().any());
    }

    #[test]
    fn one_on_its_way_inside_is_under_way() {
        let (ours, inside) = stead_sandbox::message::pair().unwrap();
        let (stream, _other) = UnixStream::pair().unwrap();
        let mut errands = Errands::default();
        errands.hand(&stream, true).unwrap();
        stead_sandbox::message::send(ours.as_fd(), b"errand", &[stream.as_fd()]).unwrap();
        drop(stream);
        assert!(errands.under_way().any(), "nobody has taken the message yet");
        let received = stead_sandbox::message::receive(inside.as_fd(), &mut [0; 64]).unwrap().unwrap();
        assert!(errands.under_way().any());
        drop(received);
        assert!(!errands.under_way().any());
    }

    #[test]
    fn those_that_are_over_are_not_kept() {
        let mut errands = Errands::default();
        for _ in 0..MANY * 3 {
            errands.hand(&UnixStream::pair().unwrap().0, true).unwrap();
        }
        assert!(errands.handed.len() <= MANY && !errands.under_way().any() && errands.handed.is_empty());
    }
}
