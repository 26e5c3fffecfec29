//! One thing that several do by turns.

use std::io::Result;
use std::time::Duration;

use super::race::NotRun;
use super::samples::{Samples, Timing};

/// Who takes part, the one that all are measured against first. Whoever fails once is out, and it is said why.
pub struct Contest {
    what: &'static str,
    taken: Vec<(&'static str, Samples)>,
    out: Vec<NotRun>,
}

impl Contest {
    pub fn new(what: &'static str, contenders: &[&'static str]) -> Self {
        Self { what, taken: contenders.iter().map(|contender| (*contender, Samples::default())).collect(), out: Vec::new() }
    }

    pub fn is_in(&self, contender: &str) -> bool {
        !self.out.iter().any(|one| one.contender == contender)
    }

    pub fn add(&mut self, contender: &'static str, outcome: Result<Duration>) {
        match outcome {
            Ok(took) => {
                let samples = self.taken.iter_mut().find(|(known, _)| *known == contender);
                samples.expect("every contender is named at the beginning").1.add(took);
            }
            Err(error) if self.is_in(contender) => {
                self.out.push(NotRun { what: self.what, contender, reason: error.to_string() });
            }
            Err(_) => {}
        }
    }

    pub fn end(self, results: &mut Results) {
        let first = self.taken[0].1.clone();
        let whole = self.taken.iter().filter(|(contender, samples)| samples.len() > 0 && self.is_in(contender));
        results.timings.extend(whole.map(|(contender, samples)| Timing::new(self.what, contender, samples, &first)));
        results.not_run.extend(self.out);
    }
}

#[derive(Default)]
pub struct Results {
    pub timings: Vec<Timing>,
    pub not_run: Vec<NotRun>,
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[test]
    fn whoever_fails_once_is_named_with_the_first_reason_and_has_no_time() {
        let mut contest = Contest::new("a race", &["first", "second", "third"]);
        for round in 1..=3 {
            contest.add("first", Ok(Duration::from_millis(10)));
            contest.add("second", Ok(Duration::from_millis(25)));
            contest.add("third", if round == 1 { Ok(Duration::from_millis(1)) } else { Err(Error::other(round.to_string())) });
        }
        assert!(contest.is_in("first") && !contest.is_in("third"));
        let mut results = Results::default();
        contest.end(&mut results);
        let told: Vec<_> = results.timings.iter().map(|one| (one.contender, one.samples, one.times_native)).collect();
        assert_eq!(told, [("first", 3, 1.0), ("second", 3, 2.5)]);
        assert_eq!(results.not_run.len(), 1);
        assert_eq!((results.not_run[0].contender, results.not_run[0].reason.as_str()), ("third", "2"));
    }
}
