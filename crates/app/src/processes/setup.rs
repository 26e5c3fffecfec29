//! The setup script: once for every version of a definition, before anything else runs under it. It is a process like any other, so that a
//! server that ends in the middle finds by its record how it went.

use std::time::Duration;

use stead_domain::environment::{Environment, EnvironmentStatus};
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::principal::Caller;
use stead_domain::process::{ExitCause, Process, ProcessPurpose, ProcessStatus};
use stead_domain::process_request::NewProcess;
use stead_domain::sandbox::{Sandbox, SandboxStatus};
use stead_domain::{Code, Error, Result};
use stead_store::{environments, processes};

use crate::place::{Frame, Place};
use crate::processes::{Placed, check_usable};
use crate::{App, Entered};

/// How long one look at a script that runs takes.
const LOOK: Duration = Duration::from_secs(60);
/// The kernel takes no longer argument than twice this.
const LONGEST_ARGUMENT: usize = 64 << 10;
/// What is told of a script that failed.
const LAST_BYTES: u64 = 4096;
const LAST_LINES: usize = 10;

/// How everything begins that is told of a script that failed.
const SCRIPT: &str = "the setup script";

/// Whether it is the script that keeps an environment from being used.
pub(crate) fn setup_failed(environment: &Environment) -> bool {
    environment.last_error.as_deref().is_some_and(|error| error.starts_with(SCRIPT))
}

/// What helps then, wherever it is noticed.
pub(crate) fn setup_advice(environment: &str) -> String {
    format!("mend the script, or what it needs, and run `stead env setup {environment}`")
}

/// In place of a version: what a script made is gone with the files that were there, and it has to run again.
pub(crate) const SETUP_GONE: u64 = 0;

/// What a definition says is to be run first.
pub(crate) fn setup_script(environment: &Environment) -> Option<&str> {
    let script = environment.spec.setup.as_ref()?.script.as_deref()?;
    (!script.trim().is_empty()).then_some(script)
}

/// A script may run where the one before it failed, as long as there is a sandbox to run it in.
pub(crate) fn check_made(environment: &Environment, sandbox: &Sandbox) -> Result<()> {
    match environment.status {
        EnvironmentStatus::Failed if sandbox.status == SandboxStatus::Ready => Ok(()),
        _ => check_usable(environment),
    }
}

/// How a script went.
enum Verdict {
    Done,
    Failed(String),
    /// Somebody ended it, or it was lost: it counts as not run.
    CutOff,
}

impl App {
    /// Sees to it that the script has run for the present version of the definition. Two callers at once run it once.
    pub(crate) async fn set_up(&self, entered: &Entered, id: EnvironmentId, again: bool) -> Result<()> {
        let _one_at_a_time = self.locks.lock(&format!("setup {id}")).await;
        let environment = self.get_environment(entered, id).await?;
        let Some(script) = setup_script(&environment) else { return Ok(()) };
        let version = environment.spec_version;
        let (done, forgotten, latest) = self
            .store
            .read(move |unit| {
                Box::pin(async move {
                    let known = environments::setup_version(unit, id).await?;
                    let (done, forgotten) = (known == Some(version), known == Some(SETUP_GONE));
                    Ok::<_, Error>((done, forgotten, processes::latest(unit, id, ProcessPurpose::Setup, version).await?))
                })
            })
            .await?;
        if done && !again {
            return Ok(());
        }
        let process = match latest {
            // Begun by a server that is gone, or by a caller who was.
            Some(process) if !process.status.is_over() => process,
            Some(process) if !again && !forgotten && process.exit.as_ref().is_some_and(|exit| exit.code == Some(0)) => process,
            _ => {
                if done {
                    self.store
                        .write(move |unit| Box::pin(async move { Ok::<_, Error>(environments::set_setup_version(unit, id, None).await?) }))
                        .await?;
                }
                let caller = Caller { idempotency: None, ..entered.caller.clone() };
                let new = NewProcess { argv: argv(script), ..NewProcess::default() };
                // The version may be another one by now; then the next look sees to that one.
                let whose = Entered { caller, ..entered.clone() };
                Box::pin(self.begin_to_the_end(whose, id, new, Some(ProcessPurpose::Setup))).await?.process
            }
        };
        let process = loop {
            let process = self.wait_for_process(entered, id, process.id, LOOK).await?;
            if process.status.is_over() {
                break process;
            }
        };
        // The next who asks must find it over, and not wait for its watcher.
        if let Some(exit) = &process.exit {
            self.finish_process(process.id, exit.clone()).await?;
        }
        self.conclude_setup(&process).await
    }

    /// For the watcher of one that nobody waits for any more.
    pub(crate) async fn conclude_left_setup(&self, id: ProcessId) {
        let found: Result<Option<Process>> =
            self.store.read(move |unit| Box::pin(async move { Ok(processes::find_any(unit, id).await?) })).await;
        if let Ok(Some(process)) = found
            && process.status.is_over()
            && let Err(error) = self.conclude_setup(&process).await
        {
            tracing::info!(process = %id, environment = %process.environment_id, %error, "the setup script did not do its work");
        }
    }

    /// Writes down what follows from how the script went; the error of one that failed. It may be repeated.
    async fn conclude_setup(&self, process: &Process) -> Result<()> {
        let verdict = self.verdict_on(process).await;
        let (context, id, version, own) = (self.context.clone(), process.environment_id, process.spec_version, process.id);
        let failure = match &verdict {
            Verdict::Failed(cause) => Some(cause.clone()),
            _ => None,
        };
        if !matches!(verdict, Verdict::CutOff) {
            let failure = failure.clone();
            self.store
                .write(move |unit| {
                    Box::pin(async move {
                        let Some(mut environment) = environments::lock(unit, id).await? else { return Ok(()) };
                        let latest = processes::latest(unit, id, ProcessPurpose::Setup, version).await?;
                        // Another version, or another attempt, has the word.
                        if environment.spec_version != version || latest.is_some_and(|latest| latest.id != own) {
                            return Ok(());
                        }
                        let next = match &failure {
                            None => {
                                environments::set_setup_version(unit, id, Some(version)).await?;
                                EnvironmentStatus::Ready
                            }
                            Some(_) => EnvironmentStatus::Failed,
                        };
                        let usable = matches!(environment.status, EnvironmentStatus::Ready | EnvironmentStatus::Running);
                        if (next == EnvironmentStatus::Failed && usable) || environment.status == EnvironmentStatus::Failed {
                            environment.advance(next)?;
                            environment.last_error = failure;
                            environment.updated_at = context.now();
                            environments::save(unit, &environment).await?;
                        }
                        Ok::<_, Error>(())
                    })
                })
                .await?;
        }
        let refusal = |message: String| Error::new(Code::Conflict, message).detail("process_id", own.to_string());
        match verdict {
            Verdict::Done => Ok(()),
            Verdict::Failed(cause) => {
                Err(refusal(cause).suggestion(format!("`stead logs {own}` shows all of it; {}", setup_advice(&id.to_string()))))
            }
            Verdict::CutOff => Err(refusal("the setup script was ended before it was done".to_owned())
                .suggestion("try again: it runs anew before the next process")),
        }
    }

    async fn verdict_on(&self, process: &Process) -> Verdict {
        if process.status == ProcessStatus::Failed {
            let cause = process.error.clone().unwrap_or_default();
            return Verdict::Failed(format!("{SCRIPT} could not be started: {cause}"));
        }
        let Some(exit) = &process.exit else { return Verdict::CutOff };
        let how = match (exit.cause, exit.code) {
            (ExitCause::Exited, Some(0)) => return Verdict::Done,
            (ExitCause::Exited, code) => format!("ended with exit code {}", code.unwrap_or_default()),
            (ExitCause::Timeout, _) => "ran for too long".to_owned(),
            (ExitCause::OutOfMemory, _) => "had no memory left".to_owned(),
            (ExitCause::DiskFull, _) => "had no disk left, by `sandbox.resources.disk_mb`".to_owned(),
            (ExitCause::Signaled | ExitCause::Fenced | ExitCause::Lost, _) => return Verdict::CutOff,
        };
        let lines = self.last_lines(process).await.unwrap_or_default();
        Verdict::Failed(if lines.is_empty() { format!("{SCRIPT} {how}") } else { format!("{SCRIPT} {how}:\n{lines}") })
    }

    async fn last_lines(&self, process: &Process) -> Result<String> {
        let (environment, id) = (self.load(process.environment_id).await?, process.id);
        let sandbox = self.load_sandbox(&environment).await?;
        let placed = Placed { process: process.clone(), provider: sandbox.provider, host: sandbox.host_id };
        let ground = self.ground_of(&placed)?;
        let place: &dyn Place = ground.place()?;
        let end = place.progress(environment.id, id).await?.map_or(0, |progress| progress.end);
        let mut bytes = Vec::new();
        let mut from = end.saturating_sub(LAST_BYTES);
        while from < end {
            let output = place.read(environment.id, id, from, None, None, LAST_BYTES as usize).await?;
            for frame in output.frames {
                if let Frame::Bytes { bytes: piece, .. } = frame {
                    bytes.extend(piece);
                }
            }
            if output.next <= from {
                break;
            }
            from = output.next;
        }
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        Ok(lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"))
    }
}

/// A shell that gives up at the first command that fails. One that is longer than an argument may be comes in parts.
fn argv(script: &str) -> Vec<String> {
    let shell = ["sh", "-eu", "-c"].map(str::to_owned).into_iter();
    if script.len() <= LONGEST_ARGUMENT {
        return shell.chain([script.to_owned()]).collect();
    }
    let mut parts = Vec::new();
    let mut rest = script;
    while !rest.is_empty() {
        let mut at = LONGEST_ARGUMENT.min(rest.len());
        while !rest.is_char_boundary(at) {
            at -= 1;
        }
        let (part, further) = rest.split_at(at);
        parts.push(part.to_owned());
        rest = further;
    }
    let joined: String = (1..=parts.len()).map(|number| format!("${{{number}}}")).collect();
    shell.chain([format!("eval \"{joined}\""), "sh".to_owned()]).chain(parts).collect()
}
