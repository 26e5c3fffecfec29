//! Everything that there is at one moment.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use stead_domain::ids::{LeaseId, TicketId};
use stead_domain::lease::{Barrier, Deadline, Desk, Moment, Rules};

use super::cast::{Budget, Fault, Model, STEP};

const LONG_AGO: i64 = -8 * STEP as i64;

/// What was started under a lease. Two of one lease under one fence are as good as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Program {
    pub lease: LeaseId,
    pub fence: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    Barrier {
        fence: u64,
        owner: Option<LeaseId>,
        stop: bool,
    },
    /// To a barrier, with what runs.
    Done {
        fence: u64,
        running: BTreeSet<Program>,
    },
    /// To a barrier or a start.
    Stale {
        sent: u64,
        highest: u64,
    },
}

impl From<Barrier> for Message {
    fn from(Barrier { fence, owner, stop }: Barrier) -> Self {
        Self::Barrier { fence, owner, stop }
    }
}

/// On its disk, but for what runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Steward {
    pub highest: u64,
    pub owner: Option<LeaseId>,
    pub running: BTreeSet<Program>,
}

/// What is in the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    pub desk: Desk,
    /// Programs whose end is not written down.
    pub records: BTreeSet<Program>,
    /// Who waits, in the order in which they came.
    pub line: Vec<(TicketId, i8)>,
}

/// What has been, as far as the rules speak of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// Those that began and have not ended.
    pub live: BTreeSet<LeaseId>,
    /// Who took over from whom, without a barrier between them.
    pub successions: BTreeSet<(LeaseId, LeaseId)>,
    /// The highest fence that was given out.
    pub given: u64,
    /// Under which fences something was started, and by whom.
    pub used: BTreeSet<(u64, LeaseId)>,
    /// The highest barrier that was acknowledged as having stopped what is older.
    pub stopped: u64,
    /// An older state came back, and nobody noticed.
    pub restored: bool,
}

#[derive(Clone, Debug)]
pub struct State {
    pub now: Moment,
    pub store: Store,
    pub backup: Option<Box<Store>>,
    pub steward: Steward,
    /// Starts on their way, each with the server that sent it. None comes twice.
    pub starts: BTreeSet<(Program, u8)>,
    /// Everything else that was ever sent, with the server that it is from or for: it comes at any time, again and again, or never.
    pub sent: BTreeSet<(Message, u8)>,
    pub server: u8,
    /// Which clients have asked.
    pub asked: Vec<bool>,
    pub left: Budget,
    pub history: History,
}

impl State {
    pub fn new(model: &Model) -> Self {
        let rules = Rules { open: false, lock_delay: model.lock_delay, local: model.local };
        Self {
            now: Moment { era: 1, at: 0 },
            store: Store { desk: Desk::new(rules, 0), records: BTreeSet::new(), line: Vec::new() },
            backup: None,
            steward: Steward::default(),
            starts: BTreeSet::new(),
            sent: BTreeSet::new(),
            server: 0,
            asked: vec![false; model.clients.len()],
            left: model.budget,
            history: History::default(),
        }
    }

    /// Forgets what can make no difference any more, so that fewer states differ. An answer about an earlier fence does what a look does; a
    /// barrier that will be refused, whose refusal will make no difference either.
    pub fn forget(&mut self, model: &Model) {
        let (now, steward) = (self.store.desk.fence, self.steward.highest);
        if !model.has(Fault::RefusalsMixedUp) && !model.has(Fault::StewardForgets) && !model.has(Fault::StewardObeys) {
            self.sent.retain(|(message, server)| match *message {
                Message::Barrier { fence, .. } => fence >= steward || (fence >= now || steward > now) && *server == self.server,
                Message::Done { fence, .. } => fence >= now,
                Message::Stale { sent, highest } => highest > now || (highest == now && sent == now),
            });
        }
        self.history.used.retain(|(fence, _)| *fence >= steward);
    }

    /// The same for two states from which the same can follow: of the time only what is left counts. In 64 bits, among a few million.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        relative(&self.store, self.now).hash(&mut hasher);
        self.backup.as_ref().map(|backup| relative(backup, self.now)).hash(&mut hasher);
        (&self.steward, &self.starts, &self.sent, self.server, &self.asked, self.left, &self.history).hash(&mut hasher);
        hasher.finish()
    }
}

fn relative(store: &Store, now: Moment) -> Store {
    let mut store = store.clone();
    let since =
        |deadline: &mut Deadline| *deadline = Deadline { era: deadline.era.abs_diff(now.era), at: deadline.at.saturating_sub(now.at) };
    for lease in &mut store.desk.leases {
        lease.expires.iter_mut().chain(&mut lease.ends).for_each(since);
    }
    for ticket in &mut store.desk.waiting {
        since(&mut ticket.deadline);
        // Whoever has waited for longer than any priority is worth comes before whoever comes: by how much does not matter.
        ticket.rank = (ticket.rank - i64::try_from(now.at).unwrap_or(i64::MAX)).max(LONG_AGO);
    }
    store.desk.not_before.iter_mut().for_each(since);
    store
}
