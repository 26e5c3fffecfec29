use serde_json::json;
use stead_domain::process::{Process, ProcessStatus};

use super::find;
use crate::arguments::process::Ps;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Ps) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environments = match &arguments.environment {
        Some(reference) => vec![references::environment(&client, reference).await?],
        None => find::environments(&client).await?,
    };
    let mut found: Vec<(String, Process)> = Vec::new();
    let mut left_behind = Vec::new();
    for environment in environments {
        // Of one that cannot be asked the records are shown all the same.
        let background = client.get_activity(environment.id).await.map_or(0, |activity| activity.background);
        if background > 0 {
            left_behind.push((environment.name.clone(), background));
        }
        let processes = find::of_environment(&client, &environment, !arguments.all).await?;
        found.extend(processes.into_iter().map(|process| (environment.name.clone(), process)));
    }
    // Ids are made in the order of time.
    found.sort_by_key(|(_, process)| std::cmp::Reverse(process.id));
    let ids: Vec<String> = found.iter().map(|(_, process)| process.id.to_string()).collect();
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(environment, process)| {
            vec![
                process.id.to_string(),
                environment.clone(),
                status(process),
                process.exit.as_ref().map(|exit| human::milliseconds(exit.usage.cpu_ms)).unwrap_or_default(),
                human::age(invocation.now(), process.created_at),
                command(process),
            ]
        })
        .collect();
    let items: Vec<&Process> = found.iter().map(|(_, process)| process).collect();
    let empty = if arguments.all { "nothing has run here yet" } else { "nothing runs now; --all shows what did" };
    invocation.printer.list(&json!({ "items": items }), &ids, &["id", "environment", "status", "cpu", "age", "command"], &rows, empty)?;
    for (name, count) in left_behind {
        let programs = human::plural(usize::try_from(count).unwrap_or(usize::MAX), "program runs", "programs run");
        invocation.printer.note(&format!("{programs} in {name} that commands left behind; `stead env stop {name}` ends everything in it"));
    }
    Ok(())
}

/// The state, and the code where there is one.
pub fn status(process: &Process) -> String {
    match (&process.status, &process.exit) {
        (ProcessStatus::Exited, Some(exit)) => format!("{} {}", exit.cause, exit.shell_code()),
        (status, _) => status.to_string(),
    }
}

/// What was asked for, as it would be typed.
pub fn command(process: &Process) -> String {
    process.argv.iter().map(|word| crate::printer::given::quoted(word)).collect::<Vec<_>>().join(" ")
}
