//! What comes of a state when nobody asks for anything any more and nothing goes wrong: everything ends.

use std::collections::HashSet;

use stead_domain::lease::Event;

use super::cast::{CALM, Model, STEP};
use super::rules::{self, Broken};
use super::state::{History, Message, State};

/// More than enough for whoever waits to be let in, renewed by nobody, and to expire.
const ROUNDS: usize = 30;

/// `resting` are those of which it is known.
pub fn comes_to_rest(model: &Model, state: &State, resting: &mut HashSet<u64>) -> Result<(), Broken> {
    let mut state = state.clone();
    // What is on its way is lost: what is needed is sent again. What has been does not matter for what comes, but for what began.
    state.starts.clear();
    state.sent.clear();
    state.left = CALM;
    state.backup = None;
    state.asked.clear();
    state.history = History {
        live: state.store.desk.leases.iter().map(|lease| lease.id).collect(),
        given: state.store.desk.fence,
        restored: true,
        successions: state.history.successions,
        ..History::default()
    };
    let mut passed = Vec::new();
    for _ in 0..ROUNDS {
        if !resting_before(&state, resting, &mut passed) {
            round(model, &mut state)?;
        } else {
            resting.extend(passed);
            return Ok(());
        }
    }
    Err(Broken("P5", format!("never over: {:?}", state.store.desk)))
}

fn resting_before(state: &State, resting: &HashSet<u64>, passed: &mut Vec<u64>) -> bool {
    let fingerprint = state.fingerprint();
    passed.push(fingerprint);
    rules::over(state) || resting.contains(&fingerprint)
}

fn round(model: &Model, state: &mut State) -> Result<(), Broken> {
    state.steward.running.clear();
    state.close_records(model)?;
    state.decide(model, Event::Sweep).map(drop)?;
    let barriers: Vec<Message> =
        state.store.desk.barrier().map(Message::from).into_iter().chain(state.sent.iter().map(|(message, _)| message.clone())).collect();
    for message in barriers {
        if let Message::Barrier { fence, owner, stop } = message
            && let Some(answer) = state.barrier_arrives(model, fence, owner, stop, state.server)?
        {
            state.answer_arrives(model, &answer)?;
        }
    }
    state.sent.clear();
    state.now.at += STEP;
    Ok(())
}
