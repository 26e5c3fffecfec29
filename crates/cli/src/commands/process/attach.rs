use std::io::{self, IsTerminal};

use stead_client::Client;
use stead_domain::process::{Process, StdinMode};

use super::{begin, find};
use crate::arguments::process::Attach;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::session::{Session, Signals, terminal};

pub async fn run(invocation: &Invocation<'_>, arguments: &Attach) -> Result<()> {
    let settings = invocation.settings()?;
    let client = invocation.client().await?;
    let process = find::process(&client, &arguments.reference.process).await?;
    let terminal = process.terminal.is_some() && terminal::is_ours();
    let offset = match arguments.since {
        Some(offset) => offset,
        None => present_end(&client, &process).await?,
    };
    // Without a terminal on both sides, one on ours stays with the user.
    let typed = process.stdin == StdinMode::Open && (terminal || !io::stdin().is_terminal()) && !process.status.is_over();
    let stdin = match typed {
        // Nothing at the beginning writes nothing, and tells how far others have written.
        true => client.write_stdin(process.environment_id, process.id, 0, Vec::new(), false).await.ok(),
        false => None,
    };
    if let Some(size) = terminal.then(terminal::size).flatten() {
        // A program that is over by now needs no size.
        let _ = client.resize_process(process.environment_id, process.id, size).await;
    }
    let session = Session { offset, stdin, terminal, ..Session::fresh(invocation, &settings, &process, false) };
    let mut signals = Signals::listen()?;
    begin::conclude(invocation, &process, session.run(&mut signals).await?)
}

/// Where its output ends now.
async fn present_end(client: &Client, process: &Process) -> Result<u64> {
    let mut offset = 0;
    loop {
        let logs = client.read_logs(process.environment_id, process.id, offset, None).await?;
        if logs.next <= offset {
            return Ok(offset);
        }
        offset = logs.next;
    }
}
