//! Many environments: created at once, awake at once, asleep.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::machine;
use super::samples::Samples;
use super::stead::Stead;

#[derive(Serialize)]
pub struct Burst {
    pub environments: usize,
    pub rounds: usize,
    /// Of each: from its request to the end of its command.
    pub p50_milliseconds: f64,
    pub p99_milliseconds: f64,
    /// Until the last of a round was over.
    pub longest_round_milliseconds: f64,
}

impl Burst {
    pub fn said(&self) -> String {
        let Self { environments, p50_milliseconds, p99_milliseconds, longest_round_milliseconds, .. } = self;
        format!(
            "{environments} at once: p50 {p50_milliseconds:.0} ms, p99 {p99_milliseconds:.0} ms, all after {longest_round_milliseconds:.0} ms"
        )
    }
}

pub async fn burst(stead: &Stead, environments: usize, rounds: usize) -> Burst {
    let mut each = Samples::default();
    let mut whole = Samples::default();
    for _ in 0..rounds {
        // Connections are there before, as those of clients are that have more than one thing to ask.
        let mut callers = Vec::new();
        for _ in 0..environments {
            callers.push(stead.caller().await);
        }
        let started = Instant::now();
        let all = callers.iter_mut().map(|caller| async move {
            let (id, _) = caller.create().await;
            caller.exec(&id, &["/bin/true"]).await;
            (id, started.elapsed())
        });
        let ended = at_once(all).await;
        whole.add(started.elapsed());
        for (id, took) in ended {
            each.add(took);
            callers[0].delete(&id).await;
        }
    }
    Burst {
        environments,
        rounds,
        p50_milliseconds: each.at(0.50),
        p99_milliseconds: each.at(0.99),
        longest_round_milliseconds: whole.at(1.0),
    }
}

/// All of them side by side, without tasks that would have to own what they use.
async fn at_once<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        let mut open = false;
        for (one, ended) in waiting.iter_mut().filter(|(_, ended)| ended.is_none()) {
            match one.as_mut().poll(context) {
                std::task::Poll::Ready(value) => *ended = Some(value),
                std::task::Poll::Pending => open = true,
            }
        }
        if open { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    waiting.into_iter().filter_map(|(_, ended)| ended).collect()
}

#[derive(Serialize)]
pub struct Awake {
    pub environments: usize,
    pub seconds_to_create_and_wake: f64,
    /// By how much `MemAvailable` fell, for each. It counts the kernel's part, and whatever else the machine did meanwhile.
    pub available_kib_each: f64,
    /// What the kernel counts as its own: objects, stacks, page tables, and what it keeps for each processor.
    pub kernel_kib_each: f64,
    /// Processes outside and inside, each with its share of what they share; none where we may not look.
    pub proportional_kib_each: Option<f64>,
    /// The larger of what fell and of what can be accounted for: noise makes the one too small, shared caches the other.
    pub kib_each: f64,
    pub processes_awake: usize,
    /// Beyond the spawner, which all share.
    pub processes_asleep: usize,
    pub mounts_asleep: usize,
    pub seconds_to_stop: f64,
}

impl Awake {
    pub fn said(&self) -> String {
        format!(
            "{} awake: {:.0} KiB each by MemAvailable, {:.0} KiB of the kernel's own, {} of processes; made in {:.1} s, stopped in {:.1} s",
            self.environments,
            self.available_kib_each,
            self.kernel_kib_each,
            self.proportional_kib_each.map_or("unknown".to_owned(), |kib| format!("{kib:.0} KiB")),
            self.seconds_to_create_and_wake,
            self.seconds_to_stop,
        )
    }
}

pub async fn awake(stead: &Stead, environments: usize) -> Awake {
    let mut caller = stead.caller().await;
    // The first one brings what all share.
    let (first, _) = caller.create().await;
    caller.tell(&first, "wake").await;
    settle().await;
    let before = stead.processes();
    let (available, kernel) = (machine::meminfo("MemAvailable"), machine::kernel());
    let started = Instant::now();
    let mut ids = Vec::new();
    for _ in 0..environments {
        let (id, _) = caller.create().await;
        caller.tell(&id, "wake").await;
        ids.push(id);
    }
    let seconds_to_create_and_wake = started.elapsed().as_secs_f64();
    settle().await;
    let each = |kib: f64| kib / environments as f64;
    let fell = available as f64 - machine::meminfo("MemAvailable") as f64;
    let kernel = machine::kernel() as f64 - kernel as f64;
    let mut added = stead.processes();
    added.retain(|pid| !before.contains(pid));
    let proportional: Option<u64> = added.iter().map(|pid| machine::proportional(*pid)).sum();
    let accounted = kernel + proportional.unwrap_or(0) as f64;
    let stopping = Instant::now();
    for id in ids.iter().chain([&first]) {
        caller.tell(id, "stop").await;
    }
    let seconds_to_stop = stopping.elapsed().as_secs_f64();
    settle().await;
    let asleep = Awake {
        environments,
        seconds_to_create_and_wake,
        available_kib_each: each(fell),
        kernel_kib_each: each(kernel),
        proportional_kib_each: proportional.map(|kib| each(kib as f64)),
        kib_each: each(fell.max(accounted)),
        processes_awake: added.len(),
        processes_asleep: stead.processes().len().saturating_sub(1),
        mounts_asleep: stead.mounts(),
        seconds_to_stop,
    };
    for id in ids.iter().chain([&first]) {
        caller.delete(id).await;
    }
    asleep
}

/// What ended takes a moment to be counted as free.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}
