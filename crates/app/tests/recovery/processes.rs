//! Starting processes: rows, programs and replies agree, whatever is lost between them.

use std::time::Duration;

use stead_app::{App, Entered, Outcome};
use stead_domain::ids::{ApiKeyId, EnvironmentId, HostId, ProcessId};
use stead_domain::principal::Credential;
use stead_domain::process::{ExitCause, Process, ProcessStatus};
use stead_domain::process_request::NewProcess;
use stead_domain::{Code, Context, Error, Result};
use stead_store::processes;
use stead_testing::PrivatePostgres;
use tokio::task::JoinHandle;

use crate::cloud::Cloud;
use crate::life::{Life, World, enter};
use crate::memory::{Call, Mishap};

pub fn command(words: &[&str]) -> NewProcess {
    NewProcess { argv: words.iter().map(|word| (*word).to_owned()).collect(), ..NewProcess::default() }
}

pub fn process_of(outcome: Outcome<Process>) -> Process {
    match outcome {
        Outcome::New(process) => process,
        Outcome::Again(reply) => serde_json::from_slice(&reply.body).unwrap(),
    }
}

async fn start(app: App, context: Context, environment: EnvironmentId, new: NewProcess, key: Option<String>) -> Result<Outcome<Process>> {
    let entered = enter(&app, &context, key.as_deref()).await;
    app.start_process(&entered, environment, new).await
}

impl Life {
    pub fn start_process(&self, world: &World, environment: EnvironmentId, words: &[&str], key: Option<&str>) -> Result<Process> {
        self.run(start(self.app.clone(), world.context.clone(), environment, command(words), key.map(str::to_owned))).map(process_of)
    }

    pub fn spawn_process(
        &self,
        world: &World,
        environment: EnvironmentId,
        words: &[&str],
        key: &str,
    ) -> JoinHandle<Result<Outcome<Process>>> {
        self.start(start(self.app.clone(), world.context.clone(), environment, command(words), Some(key.to_owned())))
    }

    pub fn process(&self, environment: EnvironmentId, id: ProcessId) -> Process {
        self.run(async { self.app.get_process(&self.enter(None).await, environment, id).await }).unwrap()
    }

    /// The row as it stands, without asking the place.
    pub fn row(&self, id: ProcessId) -> Option<Process> {
        self.run(self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(processes::find_any(unit, id).await?) }))).unwrap()
    }

    pub fn rows(&self, host: HostId) -> Vec<Process> {
        self.run(self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(processes::unfinished(unit, host, None).await?) })))
            .unwrap()
    }

    /// Waits until the row says so, which nobody but a watcher writes.
    pub fn until_row(&self, id: ProcessId, is_so: impl Fn(&Process) -> bool) -> Process {
        for _ in 0..500 {
            if let Some(row) = self.row(id).filter(&is_so) {
                return row;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it never came: {:?}", self.row(id));
    }
}

#[test]
fn an_end_is_written_when_nobody_asks() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let process = life.start_process(&world, environment, &["print", "hello"], None).unwrap();
    assert_eq!(process.status, ProcessStatus::Running);
    let row = life.until_row(process.id, |row| row.status.is_over());
    assert_eq!(row.exit.unwrap().code, Some(0));
    let long = life.start_process(&world, environment, &["sleep"], None).unwrap();
    life.until_row(long.id, |row| row.status == ProcessStatus::Running);
    world.cloud.place.exit(long.id, 7);
    assert_eq!(life.until_row(long.id, |row| row.status.is_over()).exit.unwrap().code, Some(7));
    life.end();
}

#[test]
fn what_was_said_of_an_end_is_never_taken_back() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let process = life.start_process(&world, environment, &["sleep"], None).unwrap();
    world.cloud.place.exit(process.id, 1);
    let told = life.process(environment, process.id);
    assert_eq!((told.status, told.exit), (ProcessStatus::Exited, world.cloud.place.exit_of(process.id)));
    for _ in 0..3 {
        world.cloud.place.plan(Call::Progress, Mishap::Fail);
    }
    assert_eq!(life.process(environment, process.id).status, ProcessStatus::Exited, "although its place cannot be asked");
    life.end();
}

fn a_lost_reply(world: &World) {
    let life = world.live();
    let environment = life.created("web", None).id;
    let first = life.start_process(world, environment, &["sleep"], Some("k")).unwrap();
    let second = life.start_process(world, environment, &["sleep"], Some("k")).unwrap();
    assert_eq!((first.id, world.cloud.place.started()), (second.id, vec![first.id]));
    world.cloud.place.exit(first.id, 0);
    let third = life.start_process(world, environment, &["sleep"], Some("k")).unwrap();
    assert_eq!((third.id, third.status), (first.id, ProcessStatus::Exited));
    assert_ne!(life.start_process(world, environment, &["sleep"], Some("other")).unwrap().id, first.id);
    // Together they are one, too.
    let both: Vec<_> = (0..8).map(|_| life.spawn_process(world, environment, &["sleep"], "together")).collect();
    let ids: Vec<ProcessId> = both.into_iter().map(|one| process_of(life.run(one).unwrap().unwrap()).id).collect();
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
    assert_eq!(world.cloud.place.started().len(), 3);
    life.end();
}

#[test]
fn a_repeated_request_starts_nothing_twice() {
    a_lost_reply(&World::sqlite());
    let server = PrivatePostgres::start();
    a_lost_reply(&World::postgres(&server, "repeated"));
}

fn crash_during_a_start(world: &World, mishap: Mishap) {
    let life = world.live();
    let environment = life.created("web", None).id;
    world.cloud.place.plan(Call::Start, mishap);
    let _starting = life.spawn_process(world, environment, &["sleep"], "k");
    life.run(world.cloud.place.until_hung());
    let row = loop {
        if let Some(row) = life.rows(world.host).pop() {
            break row;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(row.status, ProcessStatus::Starting);
    life.crash();

    let life = world.live();
    life.run(async { life.app.start_background() });
    let again = life.start_process(world, environment, &["sleep"], Some("k")).unwrap();
    assert_eq!((again.id, world.cloud.place.started()), (row.id, vec![row.id]), "{mishap:?}");
    assert_eq!(life.process(environment, row.id).status, ProcessStatus::Running);
    world.cloud.place.exit(row.id, 4);
    assert_eq!(life.until_row(row.id, |row| row.status.is_over()).exit.unwrap().code, Some(4));
    life.end();
}

#[test]
fn a_crash_between_row_and_program_is_finished_by_the_same_request() {
    for mishap in [Mishap::HangBefore, Mishap::HangAfter] {
        crash_during_a_start(&World::sqlite(), mishap);
        let server = PrivatePostgres::start();
        crash_during_a_start(&World::postgres(&server, "crash"), mishap);
    }
}

#[test]
fn a_place_that_loses_its_reply_has_started_it_all_the_same() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    world.cloud.place.plan(Call::Start, Mishap::LoseReply);
    let process = life.start_process(&world, environment, &["sleep"], Some("k")).unwrap();
    assert_eq!((process.status, world.cloud.place.started().len()), (ProcessStatus::Running, 1));

    // Neither the start nor the question is answered: nobody knows, and the same request finds out.
    world.cloud.place.plan(Call::Start, Mishap::LoseReply);
    world.cloud.place.plan(Call::Progress, Mishap::Fail);
    assert_eq!(life.start_process(&world, environment, &["sleep"], Some("l")).unwrap_err().code(), Code::ProviderFailed);
    let found = life.start_process(&world, environment, &["sleep"], Some("l")).unwrap();
    assert_eq!((found.status, world.cloud.place.started().len()), (ProcessStatus::Running, 2));
    life.end();
}

#[test]
fn what_cannot_be_started_is_a_record_that_says_why() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let error = life.start_process(&world, environment, &["missing"], Some("k")).unwrap_err();
    assert_eq!(error.code(), Code::ProgramNotFound);
    let id: ProcessId = error.details()["process_id"].as_str().unwrap().parse().unwrap();
    let row = life.row(id).unwrap();
    assert_eq!((row.status, row.exit), (ProcessStatus::Failed, None));
    assert!(row.error.unwrap().contains("missing"));
    // The key is free again.
    world.cloud.place.plan(Call::Start, Mishap::Fail);
    assert_eq!(life.start_process(&world, environment, &["sleep"], Some("k")).unwrap_err().code(), Code::ProviderFailed);
    life.start_process(&world, environment, &["sleep"], Some("k")).unwrap();
    life.end();
}

#[test]
fn a_program_without_a_row_is_ended_and_forgotten() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    life.start_process(&world, environment, &["true"], None).unwrap();
    let outcome = life.run(async {
        let entered = life.enter(None).await;
        // Revoked on the way: the row is refused when the program runs already.
        let mut caller = entered.caller.clone();
        caller.credential = Credential::Key { id: ApiKeyId::new(&world.context), project: None };
        caller.operator = false;
        life.app.start_process(&Entered { caller, ..entered }, environment, command(&["sleep"])).await
    });
    assert_eq!(outcome.unwrap_err().code(), Code::Unauthorized);
    let started = world.cloud.place.started();
    assert_eq!(started.len(), 2);
    assert!(!world.cloud.place.knows(started[1]) && life.row(started[1]).is_none());
    life.end();
}

#[test]
fn a_server_that_comes_back_hears_of_ends_that_it_missed() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let [ended, lost, alive] = [(); 3].map(|()| life.start_process(&world, environment, &["sleep"], None).unwrap().id);
    life.until_row(lost, |row| row.status == ProcessStatus::Running);
    life.crash();
    world.cloud.place.exit(ended, 5);
    world.cloud.place.lose(lost);
    // An error of the place says nothing about a process.
    for _ in 0..3 {
        world.cloud.place.plan(Call::Progress, Mishap::Fail);
    }
    let life = world.live();
    life.run(async { life.app.start_background() });
    assert_eq!(life.until_row(ended, |row| row.status.is_over()).exit.unwrap().code, Some(5));
    assert_eq!(life.until_row(lost, |row| row.status.is_over()).exit.unwrap().cause, ExitCause::Lost);
    world.cloud.place.plan(Call::Further, Mishap::Fail);
    world.cloud.place.exit(alive, 6);
    assert_eq!(life.until_row(alive, |row| row.status.is_over()).exit.unwrap().code, Some(6));
    life.end();
}

#[test]
fn only_what_is_whole_and_here_runs_something() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    life.delete(environment).unwrap();
    let error = life.start_process(&world, environment, &["sleep"], None).unwrap_err();
    assert_eq!(error.code(), Code::EnvironmentDestroyed);
    assert!(error.suggested().is_some());
    let kept = life.created("kept", None).id;
    let other = world.live_on(HostId::new(&world.context), &Cloud::new(), Duration::from_secs(60));
    let error = other.run(start(other.app.clone(), world.context.clone(), kept, command(&["sleep"]), None)).unwrap_err();
    assert_eq!(error.code(), Code::EnvironmentOnOtherHost);
    assert!(world.cloud.place.started().is_empty());
    other.end();
    life.end();
}

#[test]
fn values_of_variables_are_stored_nowhere() {
    #[derive(Clone, Default)]
    struct Shared(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
    impl std::io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let mut new = command(&["print", "x"]);
    new.env.insert("TOKEN".to_owned(), "s3cr3t-value".to_owned());
    let process = process_of(life.run(start(life.app.clone(), world.context.clone(), environment, new, Some("k".to_owned()))).unwrap());
    assert_eq!(world.cloud.place.variables_of(process.id), [("TOKEN".to_owned(), "s3cr3t-value".to_owned())]);
    life.until_row(process.id, |row| row.status.is_over());
    let out = Shared::default();
    life.run(stead_store::backup::write(&life.store, out.clone(), world.context.now())).unwrap();
    let dumped = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
    assert!(dumped.contains("process.start") && !dumped.contains("s3cr3t-value"));
    life.end();
}
