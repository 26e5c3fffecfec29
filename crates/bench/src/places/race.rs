//! Contenders that take turns, so that what else the machine does hits all of them alike.

use std::io::{Error, Result};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::containers::{Containers, bwrap};
use super::contest::Results;
use super::helper::{Output, run_here};
use super::samples::{Samples, Timing};
use super::stead::{Caller, Stead};

const TRUE: &[&str] = &["/bin/true"];
const ECHO: &[&str] = &["/bin/echo", "hello"];
const SAID: &str = "hello\n";
const WARM_UPS: usize = 3;

pub const NEW: &str = "one command in a new place";
pub const AWAKE: &str = "one command with output in a place that is there";

#[derive(Clone, Debug, Serialize)]
pub struct NotRun {
    pub what: &'static str,
    pub contender: &'static str,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    NativeTrue,
    NativeEcho,
    Bwrap,
    Crun,
    PodmanRun,
    PodmanExec,
    SteadNew,
    SteadExec,
    SteadProcess,
}

use Contender::{Bwrap, Crun, NativeEcho, NativeTrue, PodmanExec, PodmanRun, SteadExec, SteadNew, SteadProcess};

impl Contender {
    /// The native one of each group first.
    const GROUPS: [(&'static str, &'static [Self]); 2] =
        [(NEW, &[NativeTrue, SteadNew, Bwrap, Crun, PodmanRun]), (AWAKE, &[NativeEcho, SteadExec, SteadProcess, PodmanExec])];

    fn name(self) -> &'static str {
        match self {
            NativeTrue | NativeEcho => "native",
            Bwrap => "bwrap",
            Crun => "crun run",
            PodmanRun => "podman run",
            PodmanExec => "podman exec",
            SteadNew => "stead",
            SteadExec => "stead exec",
            SteadProcess => "stead process, wait, logs",
        }
    }

    /// Those that take a tenth of a second do not need a thousand turns.
    fn is_slow(self) -> bool {
        matches!(self, PodmanRun | PodmanExec)
    }
}

pub struct Turns {
    pub rounds: usize,
    /// Slow ones take part in every so many-th round.
    pub slow_each: usize,
}

struct Field<'s> {
    containers: Result<Containers>,
    caller: Caller<'s>,
    /// One that stays awake.
    environment: String,
}

pub async fn run(stead: &Stead, turns: &Turns, results: &mut Results) {
    let mut caller = stead.caller().await;
    let (environment, _) = caller.create().await;
    let containers = Containers::prepare(stead.beside().join("containers"));
    let mut field = Field { containers, caller, environment };
    for (what, contenders) in Contender::GROUPS {
        let mut ready = Vec::new();
        for contender in contenders {
            match field.warm_up(*contender).await {
                Ok(()) => ready.push((*contender, Samples::default())),
                Err(error) => results.not_run.push(NotRun { what, contender: contender.name(), reason: error.to_string() }),
            }
        }
        for round in 0..turns.rounds {
            for (contender, samples) in ready.iter_mut().filter(|(one, _)| !one.is_slow() || round % turns.slow_each == 0) {
                samples.add(field.turn(*contender).await.unwrap());
            }
            // Lets an interruption be heard.
            tokio::task::yield_now().await;
        }
        let native = ready[0].1.clone();
        results.timings.extend(ready.iter().map(|(contender, samples)| Timing::new(what, contender.name(), samples, &native)));
    }
    field.caller.delete(&field.environment).await;
}

impl Field<'_> {
    fn containers(&self) -> Result<&Containers> {
        self.containers.as_ref().map_err(|error| Error::new(error.kind(), error.to_string()))
    }

    async fn warm_up(&mut self, contender: Contender) -> Result<()> {
        match contender {
            Crun => self.containers()?.prepare_crun()?,
            PodmanRun => self.containers()?.prepare_podman()?,
            PodmanExec => self.containers()?.hold()?,
            _ => {}
        }
        for _ in 0..WARM_UPS {
            self.turn(contender).await?;
        }
        Ok(())
    }

    async fn turn(&mut self, contender: Contender) -> Result<Duration> {
        let words = |command: &[&str]| command.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let started = Instant::now();
        let (took, said) = match contender {
            NativeTrue => run_here(&words(TRUE), Output::Nowhere)?,
            NativeEcho => run_here(&words(ECHO), Output::Read)?,
            Bwrap => bwrap(TRUE)?,
            Crun => self.containers()?.crun()?,
            PodmanRun => self.containers()?.podman_once(TRUE)?,
            PodmanExec => self.containers()?.podman_exec(ECHO)?,
            SteadNew => {
                let (id, _) = self.caller.create().await;
                let said = self.caller.exec(&id, TRUE).await;
                let took = started.elapsed();
                self.caller.delete(&id).await;
                (took, said)
            }
            SteadExec => {
                let said = self.caller.exec(&self.environment, ECHO).await;
                (started.elapsed(), said)
            }
            SteadProcess => {
                let process = self.caller.process(&self.environment, ECHO).await;
                let said = self.caller.logs(&process).await;
                (started.elapsed(), said)
            }
        };
        let expected = if matches!(contender, NativeEcho | PodmanExec | SteadExec | SteadProcess) { SAID } else { "" };
        assert_eq!(said, expected, "{contender:?}");
        Ok(took)
    }
}
