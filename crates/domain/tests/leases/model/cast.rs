//! Who is there, what may go wrong, and how often.

use stead_domain::ids::{LeaseId, PrincipalId, TicketId};
use stead_domain::lease::{LeaseBind, LeaseMode, OnBusy};

/// One step of the clock. An implicit lease lingers for one, and one is what a step of priority is worth.
pub const STEP: u64 = 30_000;
pub const TTL: u64 = 2 * STEP;
pub const WAIT: u64 = 2 * STEP;
pub const LONGEST: u64 = 3 * STEP;

/// Somebody who asks once, and then does what it may as often as it likes.
#[derive(Clone, Copy, Debug)]
pub enum Client {
    Acquires {
        who: u8,
        bind: LeaseBind,
        mode: LeaseMode,
        on_busy: OnBusy,
        priority: i8,
    },
    /// Calls without a token.
    Enters {
        who: u8,
    },
    /// Is handed the lease of another client.
    Follows {
        client: usize,
        who: u8,
    },
}

/// What is planted, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The steward's fence is gone when it is killed.
    StewardForgets,
    /// It compares numbers, and not whose they are.
    StewardKnowsNobody,
    /// It starts what it is sent.
    StewardObeys,
    /// It answers a barrier before anything is stopped.
    AnsweredFirst,
    /// It answers nothing.
    Silent,
    /// It stops what is older whatever it was told.
    StopsAlways,
    /// The server takes every barrier for done.
    NoBarrier,
    /// The server takes what was refused for what it would send now.
    RefusalsMixedUp,
    /// A server that begins takes the store for the latest one.
    TrustsTheStore,
    /// A record is closed while its start is on its way.
    RecordsClosedEarly,
    /// Something is done that no record tells of.
    Unrecorded,
    /// Tickets come back in another order.
    OrderLost,
    /// The desk is read before its row is locked: whoever acquires it sees it as it was before anybody did.
    Unlocked,
    /// A lease that yields is not written down as ended.
    EndUntold,
}

/// How often each may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub server_crashes: u8,
    pub steward_crashes: u8,
    pub breaks: u8,
    /// An older state comes back: said so, or unnoticed.
    pub restores: u8,
    pub eras: u8,
}

pub const CALM: Budget = Budget { server_crashes: 0, steward_crashes: 0, breaks: 0, restores: 0, eras: 0 };

#[derive(Clone, Debug)]
pub struct Model {
    pub clients: Vec<Client>,
    pub budget: Budget,
    pub local: bool,
    pub lock_delay: u64,
    pub fault: Option<Fault>,
}

impl Model {
    pub fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

pub fn lease(client: usize) -> LeaseId {
    LeaseId::from_bytes([client as u8 + 1; 16])
}

pub fn ticket(client: usize) -> TicketId {
    TicketId::from_bytes([client as u8 + 1; 16])
}

pub fn principal(who: u8) -> PrincipalId {
    PrincipalId::from_bytes([who + 1; 16])
}

fn acquires(who: u8, bind: LeaseBind, on_busy: OnBusy, priority: i8) -> Client {
    Client::Acquires { who, bind, mode: LeaseMode::Exclusive, on_busy, priority }
}

fn reads(who: u8) -> Client {
    Client::Acquires { who, bind: LeaseBind::Token, mode: LeaseMode::Shared, on_busy: OnBusy::Wait, priority: 0 }
}

/// By its name.
pub fn ann() -> Client {
    acquires(0, LeaseBind::Principal, OnBusy::Wait, 0)
}

pub fn ben() -> Client {
    acquires(1, LeaseBind::Principal, OnBusy::Fail, 0)
}

pub fn ann_waits() -> Client {
    acquires(0, LeaseBind::Token, OnBusy::Wait, 0)
}

pub fn ben_waits() -> Client {
    acquires(1, LeaseBind::Token, OnBusy::Wait, 0)
}

pub fn ben_hurries() -> Client {
    acquires(1, LeaseBind::Token, OnBusy::Wait, 1)
}

pub fn ben_preempts() -> Client {
    acquires(1, LeaseBind::Token, OnBusy::Preempt, 0)
}

pub fn ann_reads() -> Client {
    reads(0)
}

pub fn ben_reads() -> Client {
    reads(1)
}

pub fn ann_enters() -> Client {
    Client::Enters { who: 0 }
}

pub fn ben_enters() -> Client {
    Client::Enters { who: 1 }
}

pub fn ben_follows(client: usize) -> Client {
    Client::Follows { client, who: 1 }
}
