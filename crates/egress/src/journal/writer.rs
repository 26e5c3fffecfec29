//! The one task that writes. Refusals that repeat are counted, so that a loop of them does not push everything else out of a bounded file.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::files::Files;
use super::{Decision, Entry, JournalOptions};
use crate::reason::Reason;
use crate::sniff::Protocol;

/// The same refusal is told once in this time.
const WINDOW: Duration = Duration::from_secs(10);
const MOST_REMEMBERED: usize = 4096;

type Line = (Arc<str>, Entry);

pub async fn write(options: JournalOptions, mut receiver: mpsc::Receiver<Line>) {
    let mut files = Files::new(options);
    let mut repeated = Repeated::default();
    let mut tick = interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut lines = Vec::new();
    loop {
        let mut arrived = Vec::new();
        let open = tokio::select! {
            count = receiver.recv_many(&mut arrived, 256) => count > 0,
            _ = tick.tick() => true,
        };
        let now = Instant::now();
        lines.extend(arrived.into_iter().filter_map(|line| repeated.first(line, now)));
        lines.extend(repeated.expired(open.then_some(now)));
        if !lines.is_empty() {
            let batch = mem::take(&mut lines);
            let written = tokio::task::spawn_blocking(move || {
                let outcome = files.append(&batch);
                (files, outcome)
            });
            match written.await {
                Ok((kept, outcome)) => {
                    files = kept;
                    if let Err(error) = outcome {
                        tracing::warn!(%error, "the egress journal cannot be written");
                    }
                }
                // The runtime is going down.
                Err(_) => return,
            }
        }
        if !open {
            return;
        }
    }
}

type Key = (Arc<str>, String, u16, Protocol, Option<Reason>);

#[derive(Default)]
struct Repeated(HashMap<Key, (Instant, Line)>);

impl Repeated {
    /// The line itself, unless it only repeats one that was just written.
    fn first(&mut self, line: Line, now: Instant) -> Option<Line> {
        let (environment, entry) = &line;
        if entry.decision != Decision::Refused {
            return Some(line);
        }
        let key = (environment.clone(), entry.host.clone(), entry.port, entry.protocol, entry.reason);
        if let Some((_, (_, kept))) = self.0.get_mut(&key) {
            (kept.at, kept.repeated) = (entry.at, kept.repeated + 1);
            return None;
        }
        if self.0.len() < MOST_REMEMBERED {
            self.0.insert(key, (now + WINDOW, line.clone()));
        }
        Some(line)
    }

    /// Counts whose time is over; all of them without a time.
    fn expired(&mut self, now: Option<Instant>) -> Vec<Line> {
        let over = self.0.extract_if(|_, (until, _)| now.is_none_or(|now| *until <= now));
        over.map(|(_, (_, line))| line).filter(|(_, entry)| entry.repeated > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Journal, read};
    use tokio_util::task::TaskTracker;

    #[tokio::test]
    async fn repeated_refusals_are_counted_and_nothing_is_lost_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let options = JournalOptions { directory: directory.path().to_owned(), largest_file: 1 << 20 };
        let tasks = TaskTracker::new();
        let journal = Journal::start(options, stead_testing::context(1).0.clock, &tasks);
        let environment: Arc<str> = "env_1".into();
        for _ in 0..1000 {
            let entry = Entry::new("a.example", 443, Protocol::Tls, Decision::Refused).because(Reason::NotListed);
            journal.record(&environment, entry).await;
        }
        journal.record(&environment, Entry::new("b.example", 443, Protocol::Tls, Decision::Allowed)).await;
        drop(journal);
        tasks.close();
        tasks.wait().await;
        let entries = read(directory.path(), "env_1").unwrap();
        assert_eq!(entries.iter().map(|entry| entry.repeated).collect::<Vec<_>>(), [0, 0, 999]);
        assert_eq!(entries[1].host, "b.example");
    }
}
