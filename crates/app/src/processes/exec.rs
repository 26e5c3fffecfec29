//! A command run to its end, with what it printed: the published shape, over the same processes.

use stead_domain::ids::EnvironmentId;
use stead_domain::process::{OutputStream, Process, ProcessExit, StdinMode};
use stead_domain::process_request::{ExecRequest, ExecResult};
use stead_domain::{Code, Error, Result};

use crate::place::{Frame, Place, PlaceError, Progress, Warrant};
use crate::processes::start::Begun;
use crate::{App, Entered};

/// What of each stream is answered. The rest is in the process's log.
const MOST_OF_A_STREAM: usize = 8 << 20;
const PIECE: usize = 1 << 20;
/// What is written to stdin at once.
const STDIN_PIECE: usize = 256 << 10;

pub struct Executed {
    pub result: ExecResult,
    pub process: Process,
    /// Streams of which only the beginning is answered.
    pub truncated: Vec<OutputStream>,
    pub again: bool,
}

impl App {
    /// Starts a command, waits for its end and collects what it printed. A caller that hangs up ends nothing: the process goes on.
    pub async fn execute(&self, entered: &Entered, environment: EnvironmentId, request: ExecRequest) -> Result<Executed> {
        let (new, stdin) = match request.into_process() {
            Ok(parts) => parts,
            Err(error) => return Err(self.unless_unknown(entered, environment, error).await),
        };
        let begun = self.begin_process(entered, environment, new).await?;
        let (exit, end) = self.until_exit(&begun, stdin.as_deref().unwrap_or_default()).await?;
        let Begun { process, ground, again, .. } = begun;
        let (streams, truncated) = collect(ground.place()?, &process, end).await?;
        let [stdout, stderr] = streams.map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        });
        let result = ExecResult { stdout, stderr, exit_code: exit.shell_code() };
        Ok(Executed { result, process: super::read::ended(process, exit), truncated, again })
    }

    /// How it ended, and where its output was then.
    async fn until_exit(&self, begun: &Begun, stdin: &str) -> Result<(ProcessExit, u64)> {
        let (place, environment, id) = (begun.ground.place()?, begun.process.environment_id, begun.process.id);
        // What was started just now has nothing to tell yet: to wait for more than that is one question less.
        let seen = if begun.again { place.progress(environment, id).await? } else { Some(Progress::default()) };
        if let (Some(exit), seen) = (&begun.process.exit, &seen) {
            return Ok((exit.clone(), seen.as_ref().map_or(0, |seen| seen.end)));
        }
        let waiting = async {
            match seen {
                Some(seen) => self.exit_after(place, environment, id, seen).await,
                None => Ok(None),
            }
        };
        let over = match begun.process.stdin {
            StdinMode::Closed => waiting.await?,
            // A program need not read all that it is given, or anything.
            StdinMode::Open => {
                tokio::pin!(waiting);
                tokio::select! {
                    over = &mut waiting => over?,
                    fed = feed(place, &begun.process, begun.warrant, stdin.as_bytes()) => {
                        fed?;
                        waiting.await?
                    }
                }
            }
        };
        over.and_then(|over| over.exit.map(|exit| (exit, over.end))).ok_or_else(|| {
            Error::new(Code::ProviderFailed, format!("the place of process `{id}` lost it"))
                .detail("process_id", id.to_string())
                .suggestion("`stead ps --all` shows what is known of it; `stead doctor` says more")
        })
    }
}

/// Writes all of it and closes stdin. A program that closes its end, or ends, has had enough.
async fn feed(place: &dyn Place, process: &Process, warrant: Warrant, bytes: &[u8]) -> Result<(), PlaceError> {
    let (environment, id) = (process.environment_id, process.id);
    let mut written = 0;
    loop {
        let upto = (written + STDIN_PIECE).min(bytes.len());
        let end = upto == bytes.len();
        match place.write_stdin(environment, id, warrant, written as u64, &bytes[written..upto], end).await {
            Ok(reached) => {
                let reached = usize::try_from(reached).unwrap_or(usize::MAX).min(bytes.len());
                if reached == bytes.len() && end {
                    return Ok(());
                }
                if reached <= written {
                    // Nothing was taken: it waits until the program reads.
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                written = reached.max(written);
            }
            Err(PlaceError::StdinOffset(reached)) => written = usize::try_from(reached).unwrap_or(usize::MAX).min(bytes.len()),
            Err(PlaceError::Over | PlaceError::StdinClosed) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// What was stored of both streams when it ended, each up to the limit.
async fn collect(place: &dyn Place, process: &Process, end: u64) -> Result<([Vec<u8>; 2], Vec<OutputStream>)> {
    let (environment, id) = (process.environment_id, process.id);
    let mut streams = [Vec::new(), Vec::new()];
    let mut truncated = [false, false];
    let (mut from, mut near) = (0, None);
    while from < end && truncated != [true, true] {
        let left = usize::try_from(end - from).unwrap_or(PIECE).min(PIECE);
        let output = place.read(environment, id, from, near, None, left).await?;
        for frame in output.frames {
            match frame {
                Frame::Bytes { stream, bytes, .. } => {
                    let at = usize::from(stream == OutputStream::Stderr);
                    let room = MOST_OF_A_STREAM - streams[at].len();
                    truncated[at] |= bytes.len() > room;
                    streams[at].extend_from_slice(&bytes[..bytes.len().min(room)]);
                }
                // Of which stream nobody knows any more.
                Frame::Gap { .. } => truncated = [true, true],
            }
        }
        if output.next <= from {
            break;
        }
        (from, near) = (output.next, output.near);
    }
    let named = [OutputStream::Stdout, OutputStream::Stderr].into_iter().zip(truncated).filter(|(_, cut)| *cut);
    Ok((streams, named.map(|(stream, _)| stream).collect()))
}
