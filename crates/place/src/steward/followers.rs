//! Those who follow the output of a process that waits for them.

use std::collections::BTreeMap;

/// How long a process waits for somebody to follow it: at its start, and when a server is being replaced by the next.
const ABSENCE: u64 = 30_000;

/// Who follows: the peer that said so, and its number for them.
pub type Follower = (u64, u64);

pub struct Followers {
    /// How far each has come.
    there: BTreeMap<Follower, u64>,
    /// How far the slowest of them had, when somebody was there.
    reached: u64,
    /// Since when nobody is.
    absent_since: Option<u64>,
}

impl Followers {
    pub fn expected(now: u64) -> Self {
        Self { there: BTreeMap::new(), reached: 0, absent_since: Some(now) }
    }

    pub fn follows(&mut self, follower: Follower, offset: u64) {
        self.there.insert(follower, offset);
        self.absent_since = None;
    }

    /// Forgets those who are gone.
    pub fn retain(&mut self, is_there: impl Fn(Follower) -> bool, now: u64) {
        self.reached = self.slowest();
        self.there.retain(|follower, _| is_there(*follower));
        if self.there.is_empty() && self.absent_since.is_none() {
            self.absent_since = Some(now);
        }
    }

    fn slowest(&self) -> u64 {
        self.there.values().min().copied().unwrap_or(self.reached)
    }

    /// How far all have come who are waited for; none when nobody is.
    pub fn reached(&self, now: u64) -> Option<u64> {
        let waits = self.absent_since.is_none_or(|since| now < since + ABSENCE);
        waits.then(|| self.slowest())
    }

    /// When waiting for nobody ends.
    pub fn due(&self, now: u64) -> Option<u64> {
        self.absent_since.map(|since| since + ABSENCE).filter(|due| *due > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_counts_and_nobody_for_a_while() {
        let mut followers = Followers::expected(100);
        assert_eq!(followers.reached(100), Some(0));
        followers.follows((1, 1), 50);
        followers.follows((1, 2), 20);
        assert_eq!((followers.reached(1_000_000), followers.due(1_000_000)), (Some(20), None));
        followers.follows((1, 2), 70);
        assert_eq!(followers.reached(1_000_000), Some(50));
        followers.retain(|follower| follower != (1, 1), 1_000_000);
        assert_eq!(followers.reached(1_000_000), Some(70));
        followers.retain(|_| false, 1_000_000);
        assert_eq!(followers.reached(1_000_000 + ABSENCE - 1), Some(70));
        assert_eq!(followers.due(1_000_001), Some(1_000_000 + ABSENCE));
        assert_eq!((followers.reached(1_000_000 + ABSENCE), followers.due(1_000_000 + ABSENCE)), (None, None));
        followers.follows((2, 1), 90);
        assert_eq!(followers.reached(9_000_000), Some(90));
    }
}
