//! Start: the row's commit and the program's start run side by side, and the reply waits for both. A crash between leaves a row without a
//! program, which the same request finishes, or a watcher gives up.

use std::sync::Arc;

use serde_json::Value;
use stead_domain::environment::Environment;
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::principal::Caller;
use stead_domain::process::{Overflow, Process, ProcessPurpose, ProcessStatus, StdinMode};
use stead_domain::process_request::NewProcess;
use stead_domain::sandbox::Sandbox;
use stead_domain::signal::Signal;
use stead_domain::{Code, Error, Result};
use stead_redaction::Known;
use stead_store::{environments, processes, sandboxes};

use crate::audit::{Act, record};
use crate::idempotency::{self, Claim, Outcome, Reply};
use crate::leases::{Right, Sight, hold_in, see_in, taken_over};
use crate::patience::within;
use crate::place::{Place, PlaceError, Premises, StartProcess, Warrant};
use crate::processes::setup::{check_made, setup_script};
use crate::processes::watch::Since;
use crate::processes::{Ground, check_usable};
use crate::repositories;
use crate::secrets::Resolved;
use crate::{App, Entered};

/// A process that runs, or did, because of a request.
pub(crate) struct Begun {
    pub process: Process,
    pub ground: Ground,
    pub warrant: Warrant,
    /// An earlier request with the same key began it.
    pub again: bool,
}

/// What is known before a start.
struct Found {
    environment: Environment,
    sandbox: Sandbox,
    /// The key of the request was used before.
    is_known: bool,
    /// The setup script, if there is one, has run for this version of the definition.
    is_set_up: bool,
    /// The caller's right to start something, as far as it is there.
    right: Right,
    sight: Sight,
}

/// How a start at the place went.
enum Start {
    Runs,
    /// Nothing was started.
    Refused(Error),
    /// It may run or not; its watcher finds out.
    Unknown(Error),
}

impl Start {
    /// Whatever went wrong is told without what nobody is told.
    fn without(self, known: &Known) -> Self {
        let redacted = |error: Error| error.with_texts(|text| known.redact_str(text).into_owned());
        match self {
            Self::Runs => Self::Runs,
            Self::Refused(error) => Self::Refused(redacted(error)),
            Self::Unknown(error) => Self::Unknown(redacted(error)),
        }
    }
}

impl App {
    pub async fn start_process(&self, entered: &Entered, environment: EnvironmentId, new: NewProcess) -> Result<Outcome<Process>> {
        let begun = self.begin_process(entered, environment, new).await?;
        self.tell_begun(begun).await
    }

    /// What whoever asked for a process is told when it has begun.
    pub(crate) async fn tell_begun(&self, begun: Begun) -> Result<Outcome<Process>> {
        if !begun.again {
            return Ok(Outcome::New(begun.process));
        }
        let process = self.merged(begun.process, begun.ground.place()?).await;
        let body = serde_json::to_vec(&process).map_err(Error::internal)?;
        Ok(Outcome::Again(Reply { status: 201, body }))
    }

    /// Starts it, or finds what the first request with the same key started. Runs to its end even when the caller hangs up.
    pub(crate) async fn begin_process(&self, entered: &Entered, environment: EnvironmentId, new: NewProcess) -> Result<Begun> {
        if let Err(error) = new.check() {
            return Err(self.unless_unknown(entered, environment, error).await);
        }
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move { app.begin_to_the_end(entered, environment, new, None).await }).await
    }

    /// An environment that is not the caller's to see comes before anything that is wrong with a request.
    pub async fn unless_unknown(&self, entered: &Entered, environment: EnvironmentId, error: Error) -> Error {
        self.get_environment(entered, environment).await.err().unwrap_or(error)
    }

    pub(crate) async fn begin_to_the_end(
        &self,
        entered: Entered,
        id: EnvironmentId,
        new: NewProcess,
        purpose: Option<ProcessPurpose>,
    ) -> Result<Begun> {
        let _one_at_a_time = match idempotency::lock_key(&entered.caller) {
            Some(key) => Some(self.locks.lock(&key).await),
            None => None,
        };
        let (mut held, mut was_refused) = (None, false);
        let (_passing, environment, sandbox, is_known, right) = loop {
            let passing = self.gates.pass(id).await;
            let Found { environment, sandbox, is_known, is_set_up, right, sight } = self.read_for_start(&entered, id).await?;
            match purpose {
                Some(ProcessPurpose::Setup) => check_made(&environment, &sandbox)?,
                Some(ProcessPurpose::Checkout) | None => check_usable(&environment)?,
            }
            // A repetition finds what the first request started, whoever holds the environment by now and whatever the definition says.
            if is_known && (sight == Sight::Passes || held.is_some() || was_refused) {
                break (passing, environment, sandbox, is_known, right);
            }
            let _ = self.ground(sandbox.provider, sandbox.host_id)?;
            if sight == Sight::Undecided {
                // Nobody waits for a right behind a gate: whoever stops what the last holder left shuts them all.
                drop(passing);
                match self.obtain(&entered, &environment, right).await {
                    Ok(right) => held = Some(right),
                    Err(_) if is_known => was_refused = true,
                    Err(error) => return Err(error),
                }
                continue;
            }
            if purpose.is_some() || is_set_up {
                break (passing, environment, sandbox, is_known, right);
            }
            drop(passing);
            self.set_up(&entered, id, false).await?;
        };
        drop(held);
        // Until there is a row that says that something runs, or nothing does.
        let right = Arc::new(right);
        let ground = self.ground(sandbox.provider, sandbox.host_id)?;
        let place = ground.place()?;
        // What was begun before is told whether its secrets are still there or not.
        let (resolved, unresolved) = match self.resolve(&entered, &environment, right.warrant, &new).await {
            Err(error) if is_known => (Resolved::default(), Some(error)),
            resolved => (resolved?, None),
        };
        let known = resolved.delivery.redaction();
        let process = Process { purpose, ..draft(self, &entered, &environment, &sandbox, &right, &new) };
        let process = Process {
            argv: process.argv.iter().map(|argument| known.redact_str(argument).into_owned()).collect(),
            cwd: process.cwd.as_deref().map(|directory| known.redact_str(directory).into_owned()),
            warnings: resolved.warnings.clone(),
            ..process
        };
        let premises = self.premises(&environment)?;
        let start = to_start(&process, right.warrant, new, resolved);
        let first_secrets = !start.secrets.is_empty() && !environment.contains_secrets;
        // Another server may claim the same key for a sandbox of no host: then the claim has to come first. And whoever no longer holds the
        // environment is given no secret: that is known for certain when the row is written.
        if is_known || (sandbox.host_id.is_none() && entered.caller.idempotency.is_some()) || !start.secrets.is_empty() {
            return match self.write_row(&entered, &process, &sandbox, &right, first_secrets).await? {
                Claim::New => {
                    let started = match unresolved {
                        Some(error) => Start::Refused(error),
                        None => self.start_at(place, &premises, &start).await.without(&known),
                    };
                    self.conclude(&entered.caller, process, ground, start.warrant, started).await
                }
                Claim::Unfinished(target) => self.resume(&entered, target, ground, &premises, start, unresolved).await,
                Claim::Answered(_) => Err(Error::internal("a process was answered by a stored reply")),
            };
        }
        // The start first: what it asks for is done elsewhere while the row is put together here.
        let (started, written) =
            tokio::join!(self.start_at(place, &premises, &start), self.write_row(&entered, &process, &sandbox, &right, false));
        match written {
            Ok(Claim::New) => self.conclude(&entered.caller, process, ground, start.warrant, started).await,
            other => {
                // No row stands for it: nobody would ever hear of it again.
                self.undo_start(place, id, process.id, started).await;
                match other? {
                    Claim::Unfinished(target) => self.resume(&entered, target, ground, &premises, start, unresolved).await,
                    _ => Err(idempotency::in_progress()),
                }
            }
        }
    }

    /// Everything that a process is given beside what was asked for.
    async fn resolve(&self, entered: &Entered, environment: &Environment, warrant: Warrant, new: &NewProcess) -> Result<Resolved> {
        let mut resolved = self.resolve_secrets(entered, environment).await?;
        let stated = new.env.contains_key(repositories::VARIABLE);
        self.resolve_repositories(environment, warrant, stated, &mut resolved).await?;
        Ok(resolved)
    }

    async fn read_for_start(&self, entered: &Entered, id: EnvironmentId) -> Result<Found> {
        let (project, caller, now, office) = (entered.project, entered.caller.clone(), self.context.now(), self.office());
        self.store
            .glance(move |unit| {
                Box::pin(async move {
                    let found = environments::find(unit, project, id).await?;
                    let environment = found.ok_or_else(|| crate::environments::unknown(id))?;
                    let sandbox = sandboxes::find(unit, environment.sandbox_id).await?;
                    let sandbox = sandbox.ok_or_else(|| Error::internal(format!("environment {id} has no sandbox row")))?;
                    let is_set_up = match setup_script(&environment) {
                        Some(_) => environments::setup_version(unit, id).await? == Some(environment.spec_version),
                        None => true,
                    };
                    let is_known = idempotency::is_known(unit, &caller, now).await?;
                    let (right, sight) = see_in(unit, &office, &caller, &environment).await?;
                    Ok(Found { environment, sandbox, is_known, is_set_up, right, sight })
                })
            })
            .await
    }

    /// The row, its audit record and the claim on the key: all of it or nothing.
    async fn write_row(
        &self,
        entered: &Entered,
        process: &Process,
        sandbox: &Sandbox,
        right: &Arc<Right>,
        first_secrets: bool,
    ) -> Result<Claim> {
        let (office, right) = (self.office(), Arc::clone(right));
        let (context, sealer, entered) = (self.context.clone(), self.sealer.clone(), entered.clone());
        let (process, host) = (process.clone(), sandbox.host_id);
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let claim = idempotency::claim(unit, &context, &*sealer, &entered.caller).await?;
                    if matches!(claim, Claim::New) {
                        hold_in(unit, &office, &right).await?;
                        idempotency::note_target(unit, &entered.caller, &process.id.to_string()).await?;
                        processes::insert(unit, &process, host).await?;
                        if first_secrets {
                            environments::set_contains_secrets(unit, process.environment_id).await?;
                        }
                        let program = process.argv.first().cloned().unwrap_or_default();
                        let details: Vec<(&str, Value)> =
                            vec![("environment_id", process.environment_id.to_string().into()), ("program", program.into())];
                        record(unit, &context, &entered.caller, act(&process, "process.start", details)).await?;
                    }
                    Ok::<_, Error>(claim)
                })
            })
            .await
    }

    async fn start_at(&self, place: &dyn Place, premises: &Premises, start: &StartProcess) -> Start {
        match within(place.start(premises, start)).await {
            Ok(()) => Start::Runs,
            // It may have begun all the same; its place knows.
            Err(PlaceError::Failed(cause)) => match place.progress(premises.environment, start.id).await {
                Ok(Some(_)) => Start::Runs,
                Ok(None) => Start::Refused(PlaceError::Failed(cause).into()),
                Err(_) => Start::Unknown(PlaceError::Failed(cause).into()),
            },
            Err(error) => Start::Refused(error.into()),
        }
    }

    /// What follows from how the start went, for a process whose row is there.
    async fn conclude(&self, caller: &Caller, process: Process, ground: Ground, warrant: Warrant, started: Start) -> Result<Begun> {
        let id = process.id;
        match started {
            Start::Runs => {
                self.watch(process.clone(), ground.clone(), Since::Start);
                Ok(Begun { process: Process { status: ProcessStatus::Running, ..process }, ground, warrant, again: false })
            }
            Start::Unknown(error) => {
                self.watch(process, ground, Since::Row);
                Err(error.detail("process_id", id.to_string()))
            }
            Start::Refused(error) => {
                let (context, caller, cause) = (self.context.clone(), caller.clone(), error.message().to_owned());
                let noted: Result<()> = self
                    .store
                    .write(move |unit| {
                        Box::pin(async move {
                            processes::fail(unit, id, &cause, context.now()).await?;
                            idempotency::give_back(unit, &caller).await
                        })
                    })
                    .await;
                if let Err(error) = noted {
                    tracing::warn!(process = %id, %error, "that it could not be started could not be noted; its watcher finds no trace of it");
                    self.watch(process, ground, Since::Row);
                }
                Err(error.detail("process_id", id.to_string()))
            }
        }
    }

    /// Goes on from where the first request with this key was cut off. A start under an id that was started before finds that process.
    async fn resume(
        &self,
        entered: &Entered,
        target: Option<String>,
        ground: Ground,
        premises: &Premises,
        start: StartProcess,
        unresolved: Option<Error>,
    ) -> Result<Begun> {
        let first: ProcessId = target.and_then(|target| target.parse().ok()).ok_or_else(idempotency::in_progress)?;
        let (project, environment) = (entered.project, premises.environment);
        let found = self
            .store
            .read(move |unit| Box::pin(async move { Ok::<_, Error>(processes::find(unit, project, environment, first).await?) }))
            .await?;
        let process = found.ok_or_else(|| {
            Error::new(Code::Conflict, format!("process `{first}`, which this request started, has been removed"))
                .suggestion("use a new Idempotency-Key to start another one")
        })?;
        let place = ground.place()?;
        if !process.status.is_over() && place.progress(environment, first).await?.is_none() {
            // Under the lease that it was asked for under, or not at all.
            if process.fence != start.warrant.fence {
                return Err(taken_over());
            }
            let start = StartProcess { id: first, ..start };
            let started = match unresolved {
                Some(error) => Start::Refused(error),
                None => self.start_at(place, premises, &start).await.without(&start.secrets.redaction()),
            };
            let begun = self.conclude(&entered.caller, process, ground, start.warrant, started).await?;
            return Ok(Begun { again: true, ..begun });
        }
        if !process.status.is_over() {
            self.watch(process.clone(), ground.clone(), Since::Row);
        }
        Ok(Begun { process, ground, warrant: start.warrant, again: true })
    }

    async fn undo_start(&self, place: &dyn Place, environment: EnvironmentId, id: ProcessId, started: Start) {
        if matches!(started, Start::Refused(_)) {
            return;
        }
        let undone = match place.signal(environment, id, None, Signal::KILL.number()).await {
            Ok(()) | Err(PlaceError::Over | PlaceError::NoProcess) => {
                self.until_over(place, environment, id).await;
                place.forget(environment, Some(id)).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = undone {
            tracing::error!(process = %id, %environment, %error, "a process without a record could not be ended");
        }
    }
}

fn draft(app: &App, entered: &Entered, environment: &Environment, sandbox: &Sandbox, right: &Right, new: &NewProcess) -> Process {
    Process {
        id: ProcessId::new(&app.context),
        project_id: environment.project_id,
        environment_id: environment.id,
        sandbox_id: sandbox.id,
        status: ProcessStatus::Starting,
        argv: new.argv.clone(),
        cwd: new.cwd.clone(),
        stdin: new.stdin_mode(),
        terminal: new.terminal,
        timeout: new.timeout,
        spec_version: environment.spec_version,
        fence: right.warrant.fence,
        started_by: Some(entered.caller.principal),
        created_at: app.context.now(),
        exit: None,
        error: None,
        purpose: None,
        warnings: Vec::new(),
    }
}

fn to_start(process: &Process, warrant: Warrant, new: NewProcess, resolved: Resolved) -> StartProcess {
    // What the caller says itself comes last, and counts.
    let env = resolved.env.into_iter().filter(|(name, _)| !new.env.contains_key(name)).chain(new.env.clone()).collect();
    StartProcess {
        id: process.id,
        argv: new.argv,
        cwd: new.cwd,
        env,
        stdin_open: process.stdin == StdinMode::Open,
        terminal: new.terminal,
        timeout: new.timeout.map(Into::into),
        limits: new.limits.unwrap_or_default(),
        warrant,
        hold: new.overflow == Some(Overflow::Hold),
        secrets: resolved.delivery,
    }
}

pub(crate) fn act<'a>(process: &Process, action: &'a str, details: Vec<(&'a str, Value)>) -> Act<'a> {
    Act { project: process.project_id, action, target_type: "process", target_id: process.id.to_string(), details }
}
