//! Everything that there is at one moment.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use stead_domain::ids::{LeaseId, TicketId};
use stead_domain::lease::{Barrier, Deadline, Desk, Moment, Rules, Ticket};

use super::cast::{Budget, Model, STEP};

/// The clock has gone on for longer than anything here takes, so that in another era it is always behind.
const LONG_SINCE: u64 = 1_000 * STEP;
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
            now: Moment { era: 1, at: LONG_SINCE },
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

    /// The same for two states from which the same can follow: of the time only what is left counts. In 64 bits, among a few million.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        relative(&self.store, self.now).hash(&mut hasher);
        self.backup.as_ref().map(|backup| relative(backup, self.now)).hash(&mut hasher);
        (&self.steward, &self.starts, &self.sent, self.server, &self.asked, self.left, &self.history).hash(&mut hasher);
        hasher.finish()
    }
}

/// Of another era nothing counts but who came before whom, and by how much.
fn relative(store: &Store, now: Moment) -> Store {
    let mut store = store.clone();
    let since = |deadline: &mut Deadline| {
        let left = deadline.left(now);
        *deadline = Deadline { era: u64::from(left.is_none()), at: left.unwrap_or(0) };
    };
    for lease in &mut store.desk.leases {
        lease.expires.iter_mut().chain(&mut lease.ends).for_each(since);
    }
    let foreign = |ticket: &Ticket| ticket.deadline.era != now.era;
    let came = |ticket: &Ticket| ticket.rank + i64::from(ticket.priority) * STEP as i64;
    let last = store.desk.waiting.iter().filter(|ticket| foreign(ticket)).map(came).max().unwrap_or(0);
    for ticket in &mut store.desk.waiting {
        let from = if foreign(ticket) { last } else { now.at as i64 };
        // Whoever has waited for longer than any priority is worth comes before whoever comes: by how much does not matter.
        ticket.rank = (ticket.rank - from).max(LONG_AGO);
        since(&mut ticket.deadline);
    }
    store.desk.not_before.iter_mut().for_each(since);
    store
}
