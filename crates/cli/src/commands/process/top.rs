use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use stead_client::Client;
use stead_domain::environment::Environment;
use stead_domain::ids::EnvironmentId;
use stead_domain::process::{EnvironmentActivity, Process};
use tokio::time::Instant;

use super::{Screen, find, ps};
use crate::arguments::process::Top;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::session::{Signals, keys, terminal};

/// One environment at one moment.
#[derive(Serialize)]
struct Seen {
    environment: Environment,
    activity: EnvironmentActivity,
    processes: Vec<Process>,
}

/// What stands on the screen: how much each had used, and when.
type Before = HashMap<EnvironmentId, (Instant, u64)>;

pub async fn run(invocation: &Invocation<'_>, arguments: &Top) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let printer = invocation.printer;
    let interval = Duration::from(arguments.interval).max(Duration::from_millis(100));
    if arguments.once || printer.is_json() || !io::stdout().is_terminal() {
        let before = remember(&look(&client).await?);
        if !printer.is_json() {
            tokio::time::sleep(interval.min(Duration::from_millis(500))).await;
        }
        let seen = look(&client).await?;
        if printer.is_json() {
            return printer.json(&json!({ "items": seen }));
        }
        return printer.screen(&render(invocation, &seen, &before));
    }
    let mut signals = Signals::listen()?;
    let _screen = Screen::open()?;
    let raw = terminal::RawMode::enter()?;
    let mut keys = keys(raw.is_some())?;
    let mut before = Before::new();
    loop {
        let seen = look(&client).await?;
        let text = render(invocation, &seen, &before);
        before = remember(&seen);
        // In raw mode a line feed goes down and nothing else.
        printer.screen(&format!("\u{1b}[H{}\u{1b}[J", text.replace('\n', "\u{1b}[K\r\n")))?;
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            _ = signals.ended() => return Ok(()),
            () = keys.any_of(b"q\x03\x1b") => return Ok(()),
        }
    }
}

async fn look(client: &Client) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    for environment in find::environments(client).await? {
        // One that nothing can run in does nothing.
        let Ok(activity) = client.get_activity(environment.id).await else { continue };
        let processes = if activity.awake { find::of_environment(client, &environment, true).await? } else { Vec::new() };
        seen.push(Seen { environment, activity, processes });
    }
    seen.sort_by_key(|it| (!it.activity.awake, std::cmp::Reverse(it.activity.memory_bytes)));
    Ok(seen)
}

fn remember(seen: &[Seen]) -> Before {
    let now = Instant::now();
    seen.iter().map(|it| (it.environment.id, (now, it.activity.cpu_ms))).collect()
}

fn render(invocation: &Invocation<'_>, seen: &[Seen], before: &Before) -> String {
    let now = Instant::now();
    let rows: Vec<Vec<String>> = seen
        .iter()
        .map(|it| {
            let share = before.get(&it.environment.id).filter(|_| it.activity.awake).map(|(then, cpu_ms)| {
                let passed = now.duration_since(*then).as_millis().max(1) as f64;
                format!("{:.1}%", it.activity.cpu_ms.saturating_sub(*cpu_ms) as f64 / passed * 100.0)
            });
            let when_awake = |text: String| if it.activity.awake { text } else { String::new() };
            vec![
                it.environment.name.clone(),
                match (it.activity.awake, it.activity.draining) {
                    (true, true) => "draining",
                    (true, false) => "awake",
                    (false, _) => "asleep",
                }
                .to_owned(),
                when_awake(it.activity.processes.to_string()),
                share.unwrap_or_default(),
                when_awake(human::milliseconds(it.activity.cpu_ms)),
                when_awake(human::bytes(it.activity.memory_bytes)),
            ]
        })
        .collect();
    let printer = invocation.printer;
    let mut text = printer.rendered(&["environment", "state", "processes", "cpu", "cpu time", "memory"], &rows);
    let rows: Vec<Vec<String>> = seen
        .iter()
        .flat_map(|it| it.processes.iter().map(move |process| (it, process)))
        .map(|(it, process)| {
            let age = human::age(invocation.now(), process.created_at);
            vec![process.id.to_string(), it.environment.name.clone(), ps::status(process), age, ps::command(process)]
        })
        .collect();
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&printer.rendered(&["process", "environment", "status", "age", "command"], &rows));
    }
    text
}
