//! Processes in an environment of the client's project.

use std::time::Duration;

use bytes::Bytes;
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::page::Page;
use stead_domain::process::{OutputStream, Process, ProcessStatus, TerminalSize};
use stead_domain::process_request::{ExecRequest, ExecResult, NewProcess, SignalRequest, StdinWritten};
use stead_domain::signal::Signal;

use crate::{Client, ClientError, Follow, ListOptions, Request, Result};

/// What a reply may take longer than the server was asked to wait.
const ON_TOP: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessFilter {
    pub status: Option<ProcessStatus>,
    /// Only those that are not over.
    pub unfinished: bool,
}

/// A piece of the stored output.
#[derive(Clone, Debug)]
pub struct Logs {
    pub bytes: Bytes,
    /// Where to go on.
    pub next: u64,
    /// What is no longer kept, as the server says it; none when everything is there.
    pub gap: Option<String>,
}

impl Client {
    pub async fn start_process(&self, environment: EnvironmentId, new: &NewProcess) -> Result<Process> {
        self.json(Request::post(self.environment_path(environment, "/processes")).json(new)?).await
    }

    pub async fn list_processes(&self, environment: EnvironmentId, filter: ProcessFilter, options: &ListOptions) -> Result<Page<Process>> {
        let request = Request::get(self.environment_path(environment, "/processes"))
            .query("status", filter.status)
            .query("unfinished", filter.unfinished.then_some(true));
        self.json(options.apply(request)).await
    }

    pub async fn get_process(&self, environment: EnvironmentId, id: ProcessId) -> Result<Process> {
        self.json(Request::get(self.process_path(environment, id, ""))).await
    }

    /// Kills it if it runs, and removes its record and its output.
    pub async fn delete_process(&self, environment: EnvironmentId, id: ProcessId) -> Result<Process> {
        self.json(Request::delete(self.process_path(environment, id, ""))).await
    }

    /// The process when it is over, or as it is when the time is. The server waits at most five minutes.
    pub async fn wait_for_process(&self, environment: EnvironmentId, id: ProcessId, timeout: Duration) -> Result<Process> {
        let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let stated = stead_domain::duration::Duration::from_millis(milliseconds);
        let request = Request::get(self.process_path(environment, id, "/wait")).query("timeout", Some(stated));
        self.json(request.within(Some(timeout.saturating_add(ON_TOP)))).await
    }

    /// Writes what lies at `offset`, and tells how far stdin has been written. Sent again it is not written again.
    pub async fn write_stdin(
        &self,
        environment: EnvironmentId,
        id: ProcessId,
        offset: u64,
        bytes: impl Into<Bytes>,
        end: bool,
    ) -> Result<u64> {
        let request = Request::post(self.process_path(environment, id, "/stdin"))
            .query("offset", Some(offset))
            .query("end", end.then_some(true))
            .body(bytes)
            .header("content-type", "application/octet-stream")?;
        let written: StdinWritten = self.json(request).await?;
        Ok(written.offset)
    }

    pub async fn signal_process(&self, environment: EnvironmentId, id: ProcessId, signal: Signal) -> Result<Process> {
        self.json(Request::post(self.process_path(environment, id, "/signals")).json(&SignalRequest { signal })?).await
    }

    pub async fn resize_process(&self, environment: EnvironmentId, id: ProcessId, size: TerminalSize) -> Result<Process> {
        self.json(Request::post(self.process_path(environment, id, "/resize")).json(&size)?).await
    }

    /// What it printed from an offset on, as far as that is there now.
    pub async fn read_logs(&self, environment: EnvironmentId, id: ProcessId, offset: u64, stream: Option<OutputStream>) -> Result<Logs> {
        let request = Request::get(self.process_path(environment, id, "/logs")).query("offset", Some(offset)).query("stream", stream);
        let response = self.request(request.header("accept", "application/octet-stream")?).await?;
        let next = response.header("stead-next-offset").and_then(|next| next.parse().ok()).ok_or_else(|| ClientError::Shape {
            address: self.endpoint().to_string(),
            cause: "the header `Stead-Next-Offset` is missing".to_owned(),
        })?;
        Ok(Logs { next, gap: response.header("stead-gap").map(str::to_owned), bytes: response.body })
    }

    /// What it printed and prints, from an offset on, until it is over.
    pub fn follow_logs(&self, environment: EnvironmentId, id: ProcessId, offset: u64, stream: Option<OutputStream>) -> Follow<'_> {
        Follow::new(self, self.process_path(environment, id, "/logs"), offset, stream)
    }

    /// Runs a command to its end, however long that takes.
    pub async fn exec(&self, environment: EnvironmentId, request: &ExecRequest) -> Result<ExecResult> {
        self.json(Request::post(self.environment_path(environment, "/exec")).json(request)?.within(None)).await
    }

    fn process_path(&self, environment: EnvironmentId, id: ProcessId, rest: &str) -> String {
        self.environment_path(environment, &format!("/processes/{id}{rest}"))
    }
}
