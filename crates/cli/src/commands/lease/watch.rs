use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::time::Duration;

use serde::Serialize;
use stead_client::Client;
use stead_domain::environment::Environment;
use stead_domain::ids::EnvironmentId;
use stead_domain::lease::LeaseView;

use super::words;
use crate::arguments::lease::Watch;
use crate::commands::process::{self, Screen};
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::references;
use crate::session::patience::patiently;
use crate::session::{Signals, keys, terminal};

const INTERVAL: Duration = Duration::from_secs(1);

/// One environment at one moment.
#[derive(Serialize)]
struct Seen {
    environment_id: EnvironmentId,
    environment: String,
    /// None when nobody holds it; several when they only read.
    leases: Vec<LeaseView>,
}

impl Seen {
    /// In one line; with how much longer, or without what changes by itself.
    fn line(&self, with_time: bool) -> String {
        let told = |lease: &LeaseView| {
            let who = words::named(&lease.holder, lease.note.as_deref());
            let left = match words::left_of(lease) {
                left if with_time && lease.expires_in_ms.is_some() => format!(", {left} left"),
                left if with_time => format!(", {left}"),
                _ => String::new(),
            };
            let waiting = words::waiting(lease).map(|waits| format!(", and {waits}")).unwrap_or_default();
            format!("{who}, {}{left}{waiting}", words::status(lease))
        };
        if self.leases.is_empty() { "nobody".to_owned() } else { self.leases.iter().map(told).collect::<Vec<_>>().join("; ") }
    }
}

pub async fn run(invocation: &Invocation<'_>, arguments: &Watch) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let only = match &arguments.environment {
        Some(reference) => Some(references::environment(&client, reference).await?),
        None => None,
    };
    let mut signals = Signals::listen()?;
    if invocation.printer.is_human() && io::stdout().is_terminal() {
        return draw(invocation, &client, only.as_ref(), &mut signals).await;
    }
    // What nobody holds is told of when it was held before, or was asked about.
    let mut before: BTreeMap<EnvironmentId, String> = BTreeMap::new();
    loop {
        for seen in look(&client, only.as_ref()).await? {
            let lasting = seen.line(false);
            let known = before.insert(seen.environment_id, lasting.clone());
            if known.as_ref() == Some(&lasting) || (known.is_none() && seen.leases.is_empty() && only.is_none()) {
                continue;
            }
            if invocation.printer.is_json() {
                invocation.printer.json_line(&seen)?;
            } else {
                invocation.printer.line(&format!("{}: {}", seen.environment, seen.line(true)))?;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            _ = signals.ended() => return Ok(()),
        }
    }
}

async fn look(client: &Client, only: Option<&Environment>) -> Result<Vec<Seen>> {
    let environments = match only {
        Some(only) => vec![only.clone()],
        None => process::find::environments(client).await?,
    };
    let listed = references::all(async |options| patiently(async || client.list_leases(false, &options).await).await).await?;
    // One that a call took for itself and under which nothing runs keeps nobody out.
    let held = listed.into_iter().filter(|lease| !(lease.implicit && lease.expires_in_ms.is_some()));
    let wanted = |lease: &LeaseView| only.is_none_or(|only| only.sandbox_id == lease.sandbox_id);
    let mut leases = Vec::new();
    for lease in held.filter(wanted) {
        // Alone it tells who waits; one that has ended meanwhile is held no more.
        let lease = patiently(async || client.get_lease(lease.id).await).await?;
        leases.extend(lease.stage.is_some().then_some(lease));
    }
    let of = |environment: &Environment| {
        let own = leases.iter().filter(|lease| lease.environment_id == environment.id || only.is_some());
        Seen { environment_id: environment.id, environment: environment.name.clone(), leases: own.cloned().collect() }
    };
    Ok(environments.iter().map(of).collect())
}

async fn draw(invocation: &Invocation<'_>, client: &Client, only: Option<&Environment>, signals: &mut Signals) -> Result<()> {
    let _screen = Screen::open()?;
    let raw = terminal::RawMode::enter()?;
    let mut keys = keys(raw.is_some())?;
    loop {
        let text = render(invocation, &look(client, only).await?);
        // In raw mode a line feed goes down and nothing else.
        invocation.printer.screen(&format!("\u{1b}[H{}\u{1b}[J", text.replace('\n', "\u{1b}[K\r\n")))?;
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            _ = signals.ended() => return Ok(()),
            () = keys.any_of(b"q\x03\x1b") => return Ok(()),
        }
    }
}

fn render(invocation: &Invocation<'_>, seen: &[Seen]) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for it in seen {
        for lease in &it.leases {
            let waiting: Vec<String> = lease.waiting.iter().map(|waiter| words::named(&waiter.holder, waiter.note.as_deref())).collect();
            rows.push(vec![
                it.environment.clone(),
                words::named(&lease.holder, lease.note.as_deref()),
                words::status(lease),
                words::left_of(lease),
                human::age(invocation.now(), lease.acquired_at),
                waiting.join(", "),
            ]);
        }
        if it.leases.is_empty() && seen.len() == 1 {
            rows.push(vec![it.environment.clone(), "nobody".to_owned()]);
        }
    }
    if rows.is_empty() {
        return "nobody holds anything\n".to_owned();
    }
    invocation.printer.rendered(&["environment", "held by", "status", "left", "age", "waiting"], &rows)
}
