use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_client::{Client, ClientError};
use stead_domain::{Code, Error};

use super::{process, status};
use crate::arguments::local::Down;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::server::DataDirectory;
use crate::settings::{Settings, Target};
use crate::{connection, references};

const PATIENCE: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(10);

pub async fn run(invocation: &Invocation<'_>, arguments: &Down) -> Result<()> {
    let settings = invocation.settings_without_lease()?;
    let printer = invocation.printer;
    let data_dir = match &settings.target {
        Target::Local { data_dir, .. } => &data_dir.value,
        Target::Remote { endpoint } => {
            let message = format!("{} is not the local server, and this command stops only that one", endpoint.value);
            return Err(Error::new(Code::Usage, message).suggestion("stead down --profile local").into());
        }
    };
    let Some(client) = connection::try_open(&settings, &invocation.context).await? else {
        return printer.record(&json!({ "stopped": false, "running": [] }), "", |printer| {
            printer.note("the local server is not running");
            Ok(())
        });
    };
    let running = if arguments.all {
        stop_everything(invocation, &settings).await?;
        Vec::new()
    } else {
        running(invocation, &settings).await?
    };
    client.shut_down(arguments.all).await?;
    drop(client);
    let deadline = Instant::now() + PATIENCE;
    // It stops answering before it lets go of its files; whoever comes next needs both.
    while DataDirectory::is_held(data_dir) || connection::try_open(&settings, &invocation.context).await?.is_some() {
        if Instant::now() > deadline {
            let message = format!("the server is still there after {} seconds", PATIENCE.as_secs());
            return Err(Failure::Domain(Error::new(Code::Conflict, message).suggestion("its log is server.log in the data directory")));
        }
        tokio::time::sleep(INTERVAL).await;
    }
    printer.record(&json!({ "stopped": true, "running": running }), "", |printer| {
        printer.note("the local server has stopped");
        if !running.is_empty() {
            printer.note("these go on in their environments; `stead down --all` stops them:");
            status::running_commands(printer, &running);
        }
        Ok(())
    })
}

/// A client for each project: commands run in all of them.
async fn in_every_project(invocation: &Invocation<'_>, settings: &Settings) -> Result<Vec<Client>> {
    let client = connection::client(settings, &invocation.context);
    let projects = references::all(async |options| client.list_projects(&options).await).await?;
    let key = || settings.key.as_ref().map(|key| key.value.clone());
    Ok(projects.into_iter().map(|it| Client::new(settings.endpoint(), key(), it.handle, invocation.context.clone())).collect())
}

/// What runs now and will go on, one line each.
async fn running(invocation: &Invocation<'_>, settings: &Settings) -> Result<Vec<Value>> {
    let mut running = Vec::new();
    for client in in_every_project(invocation, settings).await? {
        for environment in process::find::environments(&client).await? {
            for it in process::find::of_environment(&client, &environment, true).await? {
                running.push(json!(format!("{}  {}  {}", it.id, environment.name, process::command(&it))));
            }
        }
    }
    Ok(running)
}

async fn stop_everything(invocation: &Invocation<'_>, settings: &Settings) -> Result<()> {
    for client in in_every_project(invocation, settings).await? {
        for environment in process::find::environments(&client).await? {
            // One that nothing can run in, or on another host, is not ours to stop.
            if client.get_activity(environment.id).await.is_ok_and(|activity| activity.awake) {
                let stopped = client.stop_environment(environment.id).await;
                // Whoever holds it is told why it ends.
                if let Err(ClientError::Reply { body, .. }) = &stopped
                    && body.error.code == Code::LeaseHeld.as_str()
                    && let Some(lease) =
                        body.error.details.as_ref().and_then(|details| details.get("lease_id")?.as_str()).and_then(|id| id.parse().ok())
                {
                    client.break_lease(lease, "the server was stopped with everything in it").await?;
                    client.stop_environment(environment.id).await?;
                } else {
                    stopped?;
                }
            }
        }
    }
    Ok(())
}
