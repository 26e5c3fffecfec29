//! Everything that came of one process: its children and theirs, and those who left it but carry its mark.

use std::collections::{HashMap, HashSet};
use std::fs;

/// Rounds until nobody new is found: who is ended last may have had time to start another.
const ROUNDS: usize = 16;

/// Ends them all at once. `first` is the process itself, if it is still there; `mark` is a variable that everything it started was given.
/// Whoever takes the mark off and leaves its parents is not found; it ends with the place.
pub fn end(first: Option<i32>, mark: &[u8]) {
    for _ in 0..ROUNDS {
        let found = members(first, mark);
        if found.is_empty() {
            return;
        }
        for pid in found {
            // SAFETY: plain system call on a number of this pid namespace, in which we are the first process. At worst it has been given to
            // another process of the same place since.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

fn members(first: Option<i32>, mark: &[u8]) -> HashSet<i32> {
    let mut parents: HashMap<i32, i32> = HashMap::new();
    let mut found: HashSet<i32> = HashSet::new();
    let Ok(entries) = fs::read_dir("/proc") else { return found };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()).filter(|pid| *pid > 1) else { continue };
        let Some((state, parent)) = fs::read_to_string(entry.path().join("stat")).ok().and_then(|stat| standing(&stat)) else { continue };
        // The dead are only waiting to be buried.
        if state == 'Z' || state == 'X' {
            continue;
        }
        parents.insert(pid, parent);
        let marked = |variables: Vec<u8>| variables.split(|byte| *byte == 0).any(|variable| variable == mark);
        if Some(pid) == first || (!mark.is_empty() && fs::read(entry.path().join("environ")).is_ok_and(marked)) {
            found.insert(pid);
        }
    }
    // Children of those who were found, and theirs.
    loop {
        let more: Vec<i32> =
            parents.iter().filter(|(pid, parent)| found.contains(parent) && !found.contains(pid)).map(|(pid, _)| *pid).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// State and parent, from the fields after the name, which may hold anything.
fn standing(stat: &str) -> Option<(char, i32)> {
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
