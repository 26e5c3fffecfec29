use std::time::{Duration, Instant};

use serde_json::json;
use stead_domain::{Code, Error};

use super::status;
use crate::arguments::local::Down;
use crate::connection;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::server::DataDirectory;
use crate::settings::Target;

const PATIENCE: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(10);

pub async fn run(invocation: &Invocation<'_>, arguments: &Down) -> Result<()> {
    let settings = invocation.settings()?;
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
    let running = if arguments.all { Vec::new() } else { client.system().await?.running };
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
