//! What can be done to a process that runs: write to its stdin, send it a signal, resize its terminal.

use std::sync::Arc;

use serde_json::Value;
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::process::{Process, StdinMode, TerminalSize};
use stead_domain::process_request::{StdinWritten, check_terminal};
use stead_domain::signal::Signal;
use stead_domain::{Code, Error, Result};

use crate::audit::record;
use crate::idempotency::Outcome;
use crate::leases::hold_in;
use crate::processes::start::act;
use crate::processes::{Ground, Placed};
use crate::{App, Entered};

fn over(process: &Process) -> Error {
    Error::new(Code::Conflict, format!("process `{}` is over", process.id))
        .detail("status", process.status.as_str())
        .suggestion("start another one; `stead ps` shows those that run")
}

impl App {
    async fn live(&self, entered: &Entered, environment: EnvironmentId, id: ProcessId) -> Result<(Placed, Ground)> {
        let placed = self.placed(entered, environment, id).await?;
        if placed.process.status.is_over() || self.watches.exit_of(id).is_some() {
            return Err(over(&placed.process));
        }
        let ground = self.ground_of(&placed)?;
        Ok((placed, ground))
    }

    /// Writes what lies at `offset`. The offset is what makes a repetition harmless, so that no key is looked at.
    pub async fn write_stdin(
        &self,
        entered: &Entered,
        environment: EnvironmentId,
        id: ProcessId,
        offset: u64,
        bytes: &[u8],
        end: bool,
    ) -> Result<StdinWritten> {
        let (placed, ground) = self.live(entered, environment, id).await?;
        if placed.process.stdin == StdinMode::Closed {
            return Err(Error::new(Code::Conflict, "the process was started with a closed stdin")
                .suggestion("start it with `stdin: open` to write to it"));
        }
        let right = self.enter(entered, &self.get_environment(entered, environment).await?).await?;
        let offset = ground.place()?.write_stdin(environment, id, right.warrant, offset, bytes, end).await?;
        Ok(StdinWritten { offset })
    }

    pub async fn signal_process(
        &self,
        entered: &Entered,
        environment: EnvironmentId,
        id: ProcessId,
        signal: Signal,
    ) -> Result<Outcome<Process>> {
        self.once(&entered.caller, self.send_signal(entered, environment, id, signal)).await
    }

    /// Sends a signal for a caller whose message comes once by itself, as over a WebSocket.
    pub async fn send_signal(&self, entered: &Entered, environment: EnvironmentId, id: ProcessId, signal: Signal) -> Result<Process> {
        let (placed, ground) = self.live(entered, environment, id).await?;
        let right = Arc::new(self.enter(entered, &self.get_environment(entered, environment).await?).await?);
        let (context, caller, process) = (self.context.clone(), entered.caller.clone(), placed.process.clone());
        let (office, held) = (self.office(), Arc::clone(&right));
        // Written first: it also asks whether the caller may still do this.
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    hold_in(unit, &office, &held).await?;
                    let details: Vec<(&str, Value)> = vec![("signal", signal.to_string().into())];
                    record(unit, &context, &caller, act(&process, "process.signal", details)).await
                })
            })
            .await?;
        let place = ground.place()?;
        place.signal(environment, id, Some(right.warrant), signal.number()).await?;
        Ok(self.merged(placed.process, place).await)
    }

    pub async fn resize_process(
        &self,
        entered: &Entered,
        environment: EnvironmentId,
        id: ProcessId,
        size: TerminalSize,
    ) -> Result<Process> {
        check_terminal("", size)?;
        let (placed, ground) = self.live(entered, environment, id).await?;
        if placed.process.terminal.is_none() {
            return Err(Error::new(Code::Conflict, "the process has no terminal").suggestion("start it with `terminal` to resize it"));
        }
        let place = ground.place()?;
        let right = self.enter(entered, &self.get_environment(entered, environment).await?).await?;
        place.resize(environment, id, right.warrant, size).await?;
        Ok(self.merged(placed.process, place).await)
    }
}
