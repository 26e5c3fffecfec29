//! What can make no difference any more is forgotten, so that fewer states differ: that it makes none is tried.

use std::collections::BTreeSet;

use stead_domain::lease::{Event, decide};

use super::cast::{Fault, Model};
use super::rules::{Broken, holds};
use super::state::{Message, State};

impl State {
    pub fn forget(&mut self, model: &Model) -> Result<(), Broken> {
        if [Fault::RefusalsMixedUp, Fault::StewardForgets, Fault::StewardObeys].into_iter().any(|fault| model.has(fault)) {
            return Ok(());
        }
        let (now, steward, server) = (self.store.desk.fence, self.steward.highest, self.server);
        let matters = |message: &Message, from: u8| match *message {
            // One that will be refused, whose refusal will make no difference either.
            Message::Barrier { fence, .. } => fence >= steward || ((fence >= now || steward > now) && from == server),
            Message::Done { fence, .. } => fence >= now,
            Message::Stale { sent, highest } => highest > now || (highest == now && sent == now),
        };
        let (stays, goes): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.sent).into_iter().partition(|(message, from)| matters(message, *from));
        self.sent = stays;
        for (message, _) in goes {
            self.makes_no_difference(&message)?;
        }
        self.history.used.retain(|(fence, _)| *fence >= steward);
        Ok(())
    }

    /// An answer about what was sent for somebody earlier does no more than a look.
    fn makes_no_difference(&self, message: &Message) -> Result<(), Broken> {
        let event = match *message {
            Message::Done { fence, .. } => Event::BarrierDone { fence },
            Message::Stale { sent, highest } => Event::BarrierStale { sent, highest },
            Message::Barrier { .. } => return Ok(()),
        };
        let [late, looked] = [event, Event::Look].map(|event| decide(self.store.desk.clone(), event, self.seen()));
        holds("P6", (&late.desk, &late.effects) == (&looked.desk, &looked.effects), || format!("{event:?} came late: {:?}", late.desk))
    }
}
