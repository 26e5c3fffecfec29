//! Who may change a sandbox: one holder at a time, a fence that only grows, and a barrier between two holders.
//!
//! [`decide()`] is the only place where a lease changes. It knows neither a clock nor a store: whoever calls it has locked the sandbox's row,
//! read the clock after that and loaded the [`Desk`], and afterwards saves the desk and carries out the effects. The simulation in this
//! crate's tests tries to break it.

mod clock;
mod decide;
mod desk;
mod record;
mod settle;
mod token;
mod wire;

pub use clock::{Deadline, Moment};
pub use decide::decide;
pub use desk::{Barrier, Desk, Lease, PRIORITY, Rules, Stage, Ticket};
pub use record::{EndRecord, LeaseRecord, Terms, TicketRecord, Whereabouts};
pub use settle::LINGER;
pub use token::{LeaseToken, TOKEN_PREFIX, lease_of, signed_content, token};
pub use wire::{
    AcquireReply, AcquiredItem, BreakRequest, HANDED_ON, HolderView, LONGEST_NOTE, LeaseStage, LeaseStatus, LeaseView, MOST_PRIORITY,
    PreviousLease, ReleaseRequest, RenewReply, RenewRequest, TicketStatus, TicketView, TransferRequest,
};

use crate::ids::{LeaseId, PrincipalId, TicketId};

text_enum! {
    pub enum LeaseMode {
        /// It alone changes anything.
        Exclusive = "exclusive",
        /// It changes nothing, and nobody else does meanwhile.
        Shared = "shared",
    }
}

text_enum! {
    /// Whose calls are the holder's.
    pub enum LeaseBind {
        /// Those of the principal that acquired it.
        Principal = "principal",
        /// Those that present its token.
        Token = "token",
    }
}

text_enum! {
    /// What to do when somebody else holds it.
    pub enum OnBusy {
        Fail = "fail",
        Wait = "wait",
        Preempt = "preempt",
    }
}

text_enum! {
    /// How a lease ended.
    pub enum LeaseEnd {
        Released = "released",
        Expired = "expired",
        Revoked = "revoked",
    }
}

text_enum! {
    /// What a holder that renews should do.
    pub enum Directive {
        Continue = "continue",
        /// Somebody waits, or its time is nearly up for good.
        FinishUp = "finish_up",
        Stop = "stop",
    }
}

/// What somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    pub principal: PrincipalId,
    pub bind: LeaseBind,
    pub mode: LeaseMode,
    /// Milliseconds from one renewal to the end.
    pub ttl: u64,
    /// Milliseconds after which no renewal helps.
    pub max_lifetime: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// An explicit request. `lease` and `ticket` are the ids of what comes of it.
    Acquire {
        wanted: Wanted,
        on_busy: OnBusy,
        priority: i8,
        wait: u64,
        lease: LeaseId,
        ticket: TicketId,
    },
    /// Somebody is about to change something and presents no token. `lease` is the id of the implicit one, if it takes one.
    Enter {
        principal: PrincipalId,
        lease: LeaseId,
    },
    /// Somebody without a token is about to do what is nobody's work, such as putting it to sleep: refused while somebody else holds it, and
    /// no lease comes of it.
    Knock {
        principal: PrincipalId,
    },
    /// Somebody is about to change something and presents the token of this one, which decides alone.
    Present {
        lease: LeaseId,
    },
    Renew {
        lease: LeaseId,
    },
    /// `work`: something is to be done with what it leaves before anybody else is let in.
    Release {
        lease: LeaseId,
        work: bool,
    },
    /// Somebody who may has ended it.
    Break {
        lease: LeaseId,
    },
    /// From one holder to the next without a gap; what runs goes on.
    Transfer {
        lease: LeaseId,
        to: PrincipalId,
        bind: LeaseBind,
        successor: LeaseId,
    },
    /// The steward has stored this fence, and nothing older runs.
    BarrierDone {
        fence: u64,
    },
    /// The steward was sent this fence, with a barrier or with something to do, and refused it: it has seen a higher one, or the same of
    /// somebody else.
    BarrierStale {
        sent: u64,
        highest: u64,
    },
    Withdraw {
        ticket: TicketId,
    },
    /// Nobody holds it, and what an unclean end left is to go.
    Sweep,
    /// Time has passed, or something that ran has ended.
    Look,
}

/// What is known of the world when an event is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    pub now: Moment,
    /// Something runs in the sandbox, as far as its records say; or is on its way to it, or changes it in any other way, or the steward has
    /// told of it and no record does. What is not counted here is not stopped before the next holder.
    pub running: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It may go on, under this fence.
    Pass {
        fence: u64,
    },
    /// It is the holder, once what was before it is gone.
    Fencing {
        lease: LeaseId,
    },
    Queued {
        ticket: TicketId,
    },
    Renewed {
        left: u64,
        directive: Directive,
    },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Somebody else holds it, or waits for it; by which lease, if there is one.
    Held { by: Option<LeaseId> },
    /// What was presented has ended.
    Stale,
    /// A shared lease changes nothing.
    ReadOnly,
    /// Nobody waits under that number.
    NoTicket,
    /// A server began, and the steward has not spoken yet: what runs cannot be taken over before. It is asked now; ask again when it has
    /// answered.
    NotYet,
    /// The steward has seen a fence after which there is none to give out: what it keeps can be read, and never be held again.
    NoFence,
}

/// What has to follow from a decision. Each is carried out in the unit that saves the desk, but for the barrier, which is sent when that
/// unit is durable, and again until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    Began {
        lease: LeaseId,
        ticket: Option<TicketId>,
    },
    /// A lease that was waiting for the barrier is the holder's now.
    Activated {
        lease: LeaseId,
    },
    Ended {
        lease: LeaseId,
        how: LeaseEnd,
        clean: bool,
    },
    /// A ticket was drawn.
    Waits(Ticket),
    TimedOut {
        ticket: TicketId,
    },
    Barrier(Barrier),
}

#[derive(Clone, Debug)]
pub struct Decision {
    pub desk: Desk,
    pub effects: Vec<Effect>,
    pub answer: Result<Answer, Refusal>,
}

impl Decision {
    /// It used up everybody who waits that it was told of, though there are others: what they would have changed it cannot say. It is to be
    /// thrown away, and decided anew with more of them.
    pub fn ran_out(&self) -> bool {
        self.desk.waiting.is_empty() && self.desk.more_wait
    }
}
