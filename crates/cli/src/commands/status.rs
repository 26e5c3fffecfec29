use serde_json::{Value, json};
use stead_client::{Client, ClientError, System};

use super::process;
use crate::connection;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::{Printer, human};

pub async fn run(invocation: &Invocation<'_>) -> Result<()> {
    let settings = invocation.settings_without_lease()?;
    let Some(client) = connection::try_open(&settings, &invocation.context).await? else {
        let endpoint = settings.endpoint().to_string();
        return Err(connection::not_running(endpoint.trim_start_matches("unix:").as_ref()).into());
    };
    let system = match client.system().await {
        Ok(system) => system,
        // What the server is and where its files are is its operator's business; that it is there is everybody's.
        Err(ClientError::Reply { status: 403, .. }) => return of_member(invocation.printer, &client).await,
        Err(error) => return Err(error.into()),
    };
    let uptime = human::duration(invocation.now().since(system.started_at));
    invocation.printer.record(&system, &system.address, |printer| show(printer, &system, &client.endpoint().to_string(), uptime))
}

fn show(printer: &Printer, system: &System, endpoint: &str, uptime: String) -> Result<()> {
    let running = (!system.running.is_empty()).then(|| human::plural(system.running.len(), "command", "commands"));
    printer.fields(&[
        ("address", Some(system.address.clone())),
        ("reached at", Some(endpoint.to_owned())),
        ("ports", system.ports.clone()),
        ("version", Some(system.version.clone())),
        ("store", Some(system.store.clone())),
        ("data", Some(system.data_dir.clone())),
        ("uptime", Some(uptime)),
        ("running", running),
    ])?;
    let lines: Vec<Value> = system.running.iter().map(|it| format!("{}  {}", it.id, process::command(it)).into()).collect();
    running_commands(printer, &lines);
    if system.version != env!("CARGO_PKG_VERSION") {
        printer
            .warn(&format!("this command is version {}; restart the server with `stead down` and `stead up`", env!("CARGO_PKG_VERSION")));
    }
    Ok(())
}

/// What somebody who does not run the server may know.
async fn of_member(printer: &Printer, client: &Client) -> Result<()> {
    let (readiness, identity) = (client.readiness().await?, client.identity().await?);
    let (address, project) = (client.endpoint().to_string(), client.project());
    let told = json!({
        "address": address, "status": readiness.status, "version": readiness.version, "identity": identity, "project": project,
    });
    printer.record(&told, &address, |printer| {
        printer.fields(&[
            ("reached at", Some(address.clone())),
            ("status", Some(readiness.status)),
            ("version", readiness.version),
            ("you are", Some(format!("{} ({})", identity.name, identity.principal_id))),
            ("project", Some(project.to_owned())),
        ])
    })
}

/// What runs in environments, one line each.
pub fn running_commands(printer: &Printer, running: &[Value]) {
    for entry in running {
        let text = entry.as_str().map_or_else(|| entry.to_string(), str::to_owned);
        printer.note(&format!("  {text}"));
    }
}
