//! How long something took, many times over.

use std::time::Duration;

use serde::Serialize;

#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    pub fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// In milliseconds; the sample that this share of all does not exceed, and 0 of none.
    pub fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
        sorted.get(place).map_or(0.0, |took| took.as_secs_f64() * 1000.0)
    }
}

/// One line of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Timing {
    /// What was done.
    pub what: &'static str,
    /// By whom.
    pub contender: &'static str,
    pub samples: usize,
    pub p50_milliseconds: f64,
    pub p99_milliseconds: f64,
    /// Its p50 against that of the first in its group, which is the native one.
    pub times_native: f64,
    pub times_native_p99: f64,
}

impl Timing {
    pub fn new(what: &'static str, contender: &'static str, samples: &Samples, native: &Samples) -> Self {
        let against = |share: f64| if native.at(share) > 0.0 { samples.at(share) / native.at(share) } else { 0.0 };
        Self {
            what,
            contender,
            samples: samples.len(),
            p50_milliseconds: samples.at(0.50),
            p99_milliseconds: samples.at(0.99),
            times_native: against(0.50),
            times_native_p99: against(0.99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let mut samples = Samples::default();
        assert_eq!(samples.at(0.5), 0.0);
        for milliseconds in (1..=200).rev() {
            samples.add(Duration::from_millis(milliseconds));
        }
        assert_eq!((samples.at(0.0), samples.at(0.50), samples.at(0.99), samples.at(1.0)), (1.0, 100.0, 198.0, 200.0));
        let timing = Timing::new("a", "b", &samples, &samples);
        assert_eq!((timing.samples, timing.times_native, timing.times_native_p99), (200, 1.0, 1.0));
    }
}
