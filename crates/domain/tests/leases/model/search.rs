//! Every state that can be reached, the nearest first.

use std::collections::{HashSet, VecDeque};

use super::cast::Model;
use super::quiet::comes_to_rest;
use super::rules::Broken;
use super::state::State;
use super::steps::Step;

pub struct Found {
    pub broken: Broken,
    /// The fewest steps that lead to it.
    pub path: Vec<Step>,
}

/// How many states there are, or the first that breaks a rule.
pub fn search(model: &Model) -> Result<usize, Found> {
    let first = State::new(model);
    let mut known = HashSet::from([first.fingerprint()]);
    let mut resting = HashSet::new();
    // From which state each was reached, and how.
    let mut ways: Vec<(usize, Step)> = vec![(0, Step::Look)];
    let mut next = VecDeque::from([(0, first)]);
    while let Some((number, state)) = next.pop_front() {
        comes_to_rest(model, &state, &mut resting).map_err(|broken| Found { broken, path: path(&ways, number, None) })?;
        for step in state.steps(model) {
            let after = state.after(model, &step).map_err(|broken| Found { broken, path: path(&ways, number, Some(&step)) })?;
            if known.insert(after.fingerprint()) {
                next.push_back((ways.len(), after));
                ways.push((number, step));
            }
        }
    }
    Ok(known.len())
}

fn path(ways: &[(usize, Step)], mut number: usize, last: Option<&Step>) -> Vec<Step> {
    let mut path: Vec<Step> = last.cloned().into_iter().collect();
    while number > 0 {
        path.push(ways[number].1.clone());
        number = ways[number].0;
    }
    path.reverse();
    path
}
