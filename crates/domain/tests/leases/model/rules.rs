//! What must hold.

use std::collections::BTreeSet;

use stead_domain::ids::LeaseId;
use stead_domain::lease::{Desk, Effect, Event, LeaseMode, Seen, Stage, decide};

use super::state::{Program, State};
use crate::rules::taken_over;

/// Which rule, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str, pub String);

pub fn holds(rule: &'static str, holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken(rule, otherwise())) }
}

/// A repeated event does no more than a look at the same moment, and a look leaves nothing that should have been done.
pub fn repeated(after: &Desk, event: Event, seen: Seen) -> Result<(), Broken> {
    if matches!(event, Event::Enter { .. } | Event::Present { .. } | Event::Renew { .. } | Event::Look | Event::Sweep) {
        return Ok(());
    }
    let again = decide(after.clone(), event, seen);
    let looked = decide(after.clone(), Event::Look, seen);
    let due = looked.desk.due();
    let late = due.is_some_and(|due| due.era != seen.now.era || due.at <= seen.now.at);
    holds("P5", !late, || format!("nothing was done about {due:?} at {:?}", seen.now))?;
    let more = (&again.desk, &again.effects) != (&looked.desk, &looked.effects);
    holds("P6", !more, || format!("{event:?} once more: {:?}, and a look alone: {:?}", again.desk, looked.desk))
}

/// After each decision.
pub fn decided(state: &mut State, before: &Desk, event: Event, effects: &[Effect]) -> Result<(), Broken> {
    if let Some(succession) = taken_over(before, event, effects) {
        state.history.successions.insert(succession);
    }
    if let Event::Withdraw { ticket } = event {
        // By the time that it is heard of it may have been served, and then it is not in line any more.
        let served = |effect: &Effect| matches!(*effect, Effect::Began { ticket: Some(id), .. } if id == ticket);
        if !effects.iter().any(served) {
            state.store.line.retain(|(id, _)| *id != ticket);
        }
    }
    for effect in effects {
        match *effect {
            Effect::Began { lease, ticket } => {
                holds("P7", state.history.live.insert(lease), || format!("{lease} began twice"))?;
                if let Some(held) = state.store.desk.find(lease).filter(|held| held.mode == LeaseMode::Exclusive) {
                    let given = state.history.given;
                    holds("P2", held.fence > given, || format!("{} after {given}", held.fence))?;
                    state.history.given = held.fence;
                }
                if let Some(ticket) = ticket {
                    let line = &state.store.line;
                    let place = line.iter().position(|(id, _)| *id == ticket);
                    let priority = place.map(|place| line[place].1);
                    let first = line.iter().position(|(_, other)| Some(*other) == priority);
                    holds("P4", place.is_some() && place == first, || format!("{ticket} of {line:?}"))?;
                    state.store.line.retain(|(id, _)| *id != ticket);
                }
            }
            Effect::Ended { lease, .. } => {
                holds("P7", state.history.live.remove(&lease), || format!("{lease} ended twice, or never began"))?;
            }
            Effect::Waits(ticket) => state.store.line.push((ticket.id, ticket.priority)),
            Effect::TimedOut { ticket } => state.store.line.retain(|(id, _)| *id != ticket),
            Effect::Activated { .. } | Effect::Barrier(_) => {}
        }
    }
    desk(state)
}

fn desk(state: &State) -> Result<(), Broken> {
    let desk = &state.store.desk;
    let writers = desk.leases.iter().filter(|lease| lease.mode == LeaseMode::Exclusive).count();
    holds("P1", writers == 0 || desk.leases.len() == 1, || format!("{:?}", desk.leases))?;
    let held: BTreeSet<LeaseId> = desk.leases.iter().map(|lease| lease.id).collect();
    holds("P7", held == state.history.live, || format!("held {held:?}, not ended {:?}", state.history.live))
}

/// The steward lets something begin.
pub fn starts(state: &mut State, program: Program) -> Result<(), Broken> {
    let another = state.history.used.iter().find(|(fence, lease)| *fence == program.fence && *lease != program.lease).copied();
    holds("P2", another.is_none(), || format!("{program:?} under the fence of {another:?}"))?;
    state.history.used.insert((program.fence, program.lease));
    Ok(())
}

/// A barrier ended these: nobody's whose lease goes on.
pub fn stops(state: &State, gone: &BTreeSet<Program>) -> Result<(), Broken> {
    let holder = state.store.desk.exclusive().filter(|holder| holder.stage != Stage::Stopping && !state.history.restored);
    let wronged = holder.and_then(|holder| gone.iter().find(|program| is_of(state, holder.id, **program)));
    holds("P8", wronged.is_none(), || format!("{wronged:?} of {holder:?}"))
}

/// In every state.
pub fn always(state: &State) -> Result<(), Broken> {
    let (desk, running) = (&state.store.desk, &state.steward.running);
    let older = running.iter().find(|program| program.fence < state.history.stopped);
    holds("P3", older.is_none(), || format!("{older:?} after the barrier {}", state.history.stopped))?;
    let holder = desk.exclusive().filter(|holder| holder.stage == Stage::Active && !desk.unconfirmed);
    let stranger = holder.and_then(|holder| running.iter().find(|program| !is_of(state, holder.id, **program)));
    holds("P3", stranger.is_none(), || format!("{stranger:?} beside {holder:?}"))
}

/// Whether it is the holder's, or of one that it took over from.
fn is_of(state: &State, holder: LeaseId, program: Program) -> bool {
    let mut known = Some(holder);
    while let Some(id) = known {
        if id == program.lease {
            return true;
        }
        known = state.history.successions.iter().find(|(successor, _)| *successor == id).map(|(_, previous)| *previous);
    }
    false
}

/// When nothing goes wrong and nobody asks any more, everything comes to its end.
pub fn over(state: &State) -> bool {
    let Desk { leases, waiting, dirty, .. } = &state.store.desk;
    leases.is_empty() && waiting.is_empty() && dirty.is_none()
}
