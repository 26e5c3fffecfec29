//! Starting a process and staying with it: what `run`, `exec` and `shell` share.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::pin::pin;

use serde::Serialize;
use stead_client::{Client, Request};
use stead_domain::environment::Environment;
use stead_domain::process::{ExitCause, Overflow, Process, ProcessExit, StdinMode};
use stead_domain::process_request::NewProcess;
use stead_domain::signal::Signal;
use stead_domain::{Code, Error};

use super::missing;
use crate::arguments::process::How;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::session::patience::patiently;
use crate::session::{End, Progress, Session, Signals, come_back, terminal};
use crate::settings::Settings;

/// So many signals are kept for a command that has not begun; whoever sends more wants this one to end.
const MOST_EARLY: usize = 2;

/// A command that is to run somewhere.
pub struct Wanted<'a> {
    pub command: &'a [String],
    pub variables: &'a [(String, String)],
    /// Inside; the workspace when there is none.
    pub directory: Option<String>,
    pub timeout: Option<stead_domain::duration::Duration>,
    pub detach: bool,
}

impl<'a> Wanted<'a> {
    pub fn new(command: &'a [String], how: &'a How, detach: bool) -> Self {
        Self { command, variables: &how.variables, directory: how.dir.clone(), timeout: how.timeout, detach }
    }

    fn request(&self) -> NewProcess {
        let terminal = (!self.detach && terminal::is_ours()).then(terminal::size).flatten();
        let mut env: BTreeMap<String, String> = BTreeMap::new();
        if let (Some(_), Ok(kind)) = (terminal, std::env::var("TERM")) {
            env.insert("TERM".to_owned(), kind);
        }
        env.extend(self.variables.iter().cloned());
        let stdin = if terminal.is_none() { Some(if self.reads_stdin() { StdinMode::Open } else { StdinMode::Closed }) } else { None };
        NewProcess {
            argv: self.command.to_vec(),
            cwd: self.directory.clone(),
            env,
            stdin,
            terminal,
            timeout: self.timeout,
            limits: None,
            // As in a pipe: nothing is lost to whoever stays, however slowly it is taken.
            overflow: (!self.detach).then_some(Overflow::Hold),
        }
    }

    /// A terminal whose output goes elsewhere stays with whoever shows that, such as a pager.
    fn reads_stdin(&self) -> bool {
        !self.detach && (terminal::is_ours() || !io::stdin().is_terminal())
    }

    /// Starts it and stays until it is over. Ends with its exit code.
    pub async fn run(&self, here: &Here<'_>, environment: &Environment, signals: &mut Signals) -> Result<()> {
        let (process, early) = self.start(here, environment, signals).await?;
        if self.detach {
            let id = process.id.to_string();
            return here.invocation.printer.record(&process, &id, |printer| printer.line(&id));
        }
        let session = self.session(here, &process, early);
        conclude(here.invocation, &process, session.run(signals).await?)
    }

    /// Starts it. What was meant for it before it was there is told with it.
    pub async fn start(&self, here: &Here<'_>, environment: &Environment, signals: &mut Signals) -> Result<(Process, Vec<Signal>)> {
        let new = self.request();
        let text = format!("starting in {}", environment.name);
        let mut starting = pin!(here.progress.during(&text, start_at(here, environment, "processes", &new)));
        // It may run before we hear of it: what was meant for it is kept until then.
        let mut early: Vec<Signal> = Vec::new();
        let started = loop {
            tokio::select! {
                started = &mut starting => break started,
                signal = signals.ended() => early.push(signal),
            }
            if let [.., last] = early.as_slice()
                && early.len() > MOST_EARLY
            {
                return Err(Failure::Told(ExitStatus::signaled(*last)));
            }
        };
        let process = started.map_err(|failure| missing::explained(here.invocation, environment, self.command, failure))?;
        for warning in &process.warnings {
            here.invocation.printer.warn(warning);
        }
        Ok((process, early))
    }

    /// To stay with what was started.
    pub fn session<'run>(&self, here: &Here<'run>, process: &Process, early: Vec<Signal>) -> Session<'run> {
        Session { early, ..Session::fresh(here.invocation, here.settings, process, self.reads_stdin()) }
    }
}

/// What every step of such a command needs.
pub struct Here<'a> {
    pub invocation: &'a Invocation<'a>,
    pub settings: &'a Settings,
    pub client: &'a Client,
    pub progress: Progress,
}

/// Under one key however often it is asked, so that a server that is restarted in the middle starts it once.
pub async fn start_at(here: &Here<'_>, environment: &Environment, what: &str, body: &impl Serialize) -> Result<Process> {
    let random: [u8; 16] = here.invocation.context.random();
    let key: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = here.client.project_path(&format!("/environments/{}/{what}", environment.id));
    let request = Request::post(path).json(body)?.header("idempotency-key", &key)?;
    Ok(patiently(async || here.client.json(request.clone()).await).await?)
}

/// From the end of a session to that of this command.
pub fn conclude(invocation: &Invocation<'_>, process: &Process, end: End) -> Result<()> {
    match end {
        End::Exit(exit, missed) => {
            if let Some(why) = uncommon(process, &exit) {
                invocation.printer.warn(&why);
            }
            match exit.shell_code() {
                // Whoever takes output for whole must not go on with a part of it. A terminal shows what it shows.
                0 if missed > 0 && process.terminal.is_none() => Err(incomplete(missed)),
                0 => Ok(()),
                // A status is eight bits wide for everybody.
                code => Err(Failure::Told(ExitStatus::Command((code & 0xff) as u8))),
            }
        }
        End::Failed(error) => Err(Error::new(Code::ProviderFailed, error).suggestion("`stead doctor` says more").into()),
        End::Detached(offset) => {
            invocation.printer.hint(&come_back(process.id, offset));
            Err(Failure::Told(ExitStatus::Command(130)))
        }
    }
}

/// How this command ends when a process has, of which nothing more is shown.
pub fn ended(process: &Process) -> Result<()> {
    match &process.exit {
        Some(exit) if exit.shell_code() == 0 => Ok(()),
        Some(exit) => Err(Failure::Told(ExitStatus::Command((exit.shell_code() & 0xff) as u8))),
        None => Err(Failure::Told(ExitStatus::Command(125))),
    }
}

fn incomplete(missed: u64) -> Failure {
    let message = format!("{missed} bytes of the output are missing: more was printed than is kept, and faster than it was taken");
    let suggestion = "write much output to a file inside, as with sh -c 'COMMAND > FILE'";
    Error::new(Code::OutputIncomplete, message).suggestion(suggestion).into()
}

const MAKE_ROOM: &str = "remove files in it, which still works (`rm`), or raise `sandbox.resources.disk_mb` of its definition";

/// What an exit code alone does not tell.
fn uncommon(process: &Process, exit: &ProcessExit) -> Option<String> {
    let why = match exit.cause {
        // It began with no disk left, so it could make no file larger. Whatever it did about that, this is why.
        ExitCause::Exited | ExitCause::Signaled if exit.limits_hit.iter().any(|limit| limit == "disk") && exit.shell_code() != 0 => {
            return Some(format!("nothing could be written: the environment has no disk left; {MAKE_ROOM}"));
        }
        ExitCause::Exited | ExitCause::Signaled => return None,
        ExitCause::Timeout => match process.timeout {
            Some(timeout) => format!("it ran for longer than {timeout} and was ended"),
            None => "it ran for longer than it may and was ended".to_owned(),
        },
        ExitCause::OutOfMemory => "it was ended because the environment had no memory left".to_owned(),
        // Where the filesystem holds the bound nobody is ended, and a program that was refused room ends by itself.
        ExitCause::DiskFull if exit.code.is_some() => format!("it failed when the environment had no disk left; {MAKE_ROOM}"),
        ExitCause::DiskFull => format!("it was ended because the environment had no disk left; {MAKE_ROOM}"),
        ExitCause::Fenced => "it was ended because another holder took the environment over".to_owned(),
        ExitCause::Lost => "how it ended is not known: whoever kept it was gone before it".to_owned(),
    };
    Some(format!("{why} ({})", exit.cause))
}
