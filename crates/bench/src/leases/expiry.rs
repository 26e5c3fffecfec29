//! A holder that is not heard of any more, with something running: how long after its lease has ended the next one has it.

use std::io::{Error, Result};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::session::Session;
use super::stead::{Drawn, LONG, Target};
use crate::load::ENVIRONMENTS;
use crate::places::samples::Samples;

/// The shortest that there is.
const TTL: Duration = Duration::from_secs(1);

#[derive(Serialize)]
pub struct Expiry {
    pub store: &'static str,
    pub samples: usize,
    /// With the barrier: what ran is stopped and its end is written down.
    pub p50_milliseconds: f64,
    pub longest_milliseconds: f64,
}

pub async fn measure(target: &Target, store: &'static str, rounds: usize) -> Result<Expiry> {
    let spec = json!({"sandbox": {"network_access": "disabled"}, "lease": {"lock_delay": "0s"}});
    let environment = target.create(&json!({"name": "expires", "spec": spec})).await?;
    let processes = format!("{ENVIRONMENTS}/{environment}/processes");
    let (mut holder, mut next) = (target.holder(&environment).await?, target.holder(&environment).await?);
    let mut times = Samples::default();
    for _ in 0..rounds {
        let Drawn::Held = holder.draw(TTL).await? else { return Err(Error::other("somebody holds it already")) };
        // On our own clock; what is left was read a moment before the reply came.
        let ends = Instant::now() + Duration::from_millis(holder.held()?.expires_in_ms);
        let started = holder.call("POST", &processes, &json!({"argv": ["sleep", "1000"]}).to_string()).await?;
        let process = format!("{processes}/{}", started["id"].as_str().unwrap_or_default());
        let Drawn::Waits(ticket) = next.draw(LONG).await? else { return Err(Error::other("the lease ended before somebody waited")) };
        next.take(&ticket.id).await?;
        times.add(Instant::now().saturating_duration_since(ends));
        // It is no hand-over if what ran before goes on.
        let stopped = next.call("GET", &process, "").await?;
        assert!(stopped["exit"].is_object(), "what the holder before left still runs: {stopped}");
        next.release().await?;
    }
    Ok(Expiry { store, samples: times.len(), p50_milliseconds: times.at(0.50), longest_milliseconds: times.at(1.0) })
}

impl Expiry {
    pub fn said(&self) -> String {
        format!(
            "{}: {} leases that expired with something running, the next holder had it p50 {:.1} ms, longest {:.1} ms after the end",
            self.store, self.samples, self.p50_milliseconds, self.longest_milliseconds
        )
    }
}
