//! Readings of the store's clock. They mean something only within one era: between two starts of the machine, or of the database.

/// A reading: which era it is of, and how many milliseconds of it have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    pub era: u64,
    pub at: u64,
}

impl Moment {
    pub fn after(self, milliseconds: u64) -> Deadline {
        Deadline { era: self.era, at: self.at.saturating_add(milliseconds) }
    }

    /// What tickets are ranked by.
    pub(super) fn reading(self) -> i64 {
        i64::try_from(self.at).unwrap_or(i64::MAX)
    }
}

/// A moment that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deadline {
    pub era: u64,
    pub at: u64,
}

impl Deadline {
    /// How much is left; none in another era, where nobody can tell.
    pub fn left(self, now: Moment) -> Option<u64> {
        (self.era == now.era).then(|| self.at.saturating_sub(now.at))
    }

    /// Whether it was set by another clock than this: in another era, or further ahead than it is ever set, because the clock went back.
    pub fn is_foreign(self, now: Moment, most: u64) -> bool {
        self.left(now).is_none_or(|left| left > most)
    }

    pub fn is_past(self, now: Moment) -> bool {
        self.left(now) == Some(0)
    }

    pub fn earlier(self, other: Self) -> Self {
        if self.era == other.era && other.at < self.at { other } else { self }
    }
}
