//! Checkpoints that nobody asks for, and how many of them are kept: real places and layers, and time that the test moves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stead_app::environments::NewEnvironment;
use stead_app::identity::access::{Admitted, Arrival};
use stead_app::{Access, App, AuditQuery, Entered, Outcome, Presented, Providers, Retention, Settings};
use stead_domain::Context;
use stead_domain::checkpoint::{Checkpoint, CheckpointReason, ForkRequest, NewCheckpoint, RestoreRequest};
use stead_domain::ids::{CheckpointId, EnvironmentId, HostId, RequestId};
use stead_domain::page::PageRequest;
use stead_domain::principal::Role;
use stead_place::client::Spawner;
use stead_providers::local::{Abilities, Known, Local, Relay, Roles, Tell, skeleton};
use stead_secrets::{KeySource, Sealing};
use stead_store::Location;
use stead_testing::TestClock;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::basics::layers_in;
use crate::crashes::eventually;

/// What a server is made of, without its clock.
struct House {
    runtime: Runtime,
    app: App,
    context: Context,
    clock: Arc<TestClock>,
    directory: TempDir,
    _tell: Tell,
}

impl House {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let directory = tempfile::Builder::new().prefix("stead-").tempdir().unwrap();
        let (context, clock) = stead_testing::context(u64::from(std::process::id()));
        let data = directory.path();
        let host = HostId::new(&context);
        let (tell, known) = Known::not_yet();
        tell.send_replace(Some(Arc::new(Abilities::default())));
        let app = {
            let _inside = runtime.enter();
            let store = runtime.block_on(stead_store::open(&Location::Sqlite(data.join("stead.db")))).unwrap();
            let local = Local::open(data, "test", host, Vec::new()).unwrap().with_processes(data, roles(data), known);
            let sealer = Arc::new(Sealing::first(KeySource::File(data.join("master.key")), context.clone()).unwrap());
            App::new(store, context.clone(), Providers::default().with(Arc::new(local)), sealer, settings(data), host)
        };
        runtime.block_on(app.seed("tester", |_| Ok(()))).unwrap();
        Self { runtime, app, context, clock, directory, _tell: tell }
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn enter(&self) -> Entered {
        let arrival = Arrival { source: "test".to_owned(), request_id: RequestId::new(&self.context), lease: None };
        let admitted = self.run(self.app.admit(Access::Project(Role::Owner), Presented::Socket, Some("default".to_owned()), arrival));
        match admitted.unwrap() {
            Admitted::Entered(entered) => entered,
            other => panic!("{other:?}"),
        }
    }

    /// One that is to have a checkpoint every hour.
    fn create(&self, name: &str, keep: u32) -> EnvironmentId {
        let spec = json!({"sandbox": {"network_access": "disabled"}, "checkpoints": {"every": "1h", "keep": keep}});
        let new: NewEnvironment = serde_json::from_value(json!({"name": name, "spec": spec})).unwrap();
        new_one(self.run(self.app.create_environment(&self.enter(), new)).unwrap()).id
    }

    #[track_caller]
    fn works(&self, id: EnvironmentId, script: &str) -> String {
        let request = serde_json::from_value(json!({"command": ["sh", "-c", script]})).unwrap();
        let done = self.run(self.app.execute(&self.enter(), id, request)).unwrap();
        assert_eq!(done.result.exit_code, 0, "{script}: {:?}", done.result);
        done.result.stdout
    }

    /// So much time passes, and what is due is done.
    fn pass(&self, minutes: u64) {
        self.clock.advance(Duration::from_secs(minutes * 60));
        self.run(self.app.make_due_checkpoints()).unwrap();
    }

    /// The latest first.
    fn checkpoints(&self, id: EnvironmentId) -> Vec<Checkpoint> {
        self.run(self.app.list_checkpoints(&self.enter(), id, PageRequest { limit: 100, after: None })).unwrap().items
    }

    fn skipped(&self) -> Vec<Value> {
        let query = AuditQuery { action: Some("environment.checkpoint_skipped".to_owned()), target_id: None };
        let found = self.run(self.app.list_audit(&self.enter(), query, PageRequest { limit: 100, after: None })).unwrap();
        found.items.iter().map(|record| serde_json::to_value(record).unwrap()).collect()
    }

    fn restore(&self, id: EnvironmentId, from: CheckpointId, save: bool) {
        let request = RestoreRequest { save, ..RestoreRequest::default() };
        self.run(self.app.restore_checkpoint(&self.enter(), id, from, request)).unwrap();
    }

    fn fork(&self, id: EnvironmentId, from: Option<CheckpointId>) -> EnvironmentId {
        let request = ForkRequest { checkpoint_id: from, ..ForkRequest::default() };
        new_one(self.run(self.app.fork_environment(&self.enter(), id, request)).unwrap()).items[0].id
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.runtime.block_on(self.app.stop());
        crate::support::beside::end(self.directory.path());
    }
}

fn new_one<T: std::fmt::Debug>(outcome: Outcome<T>) -> T {
    match outcome {
        Outcome::New(made) => made,
        Outcome::Again(_) => panic!("it was told before"),
    }
}

fn roles(data: &Path) -> Roles {
    let program = || env!("CARGO_BIN_EXE_stead").into();
    let relay = data.join("relay");
    Roles {
        spawner: Spawner::new(program(), vec!["spawner".into(), skeleton(data).into()]),
        relay: Relay::new(relay.clone(), program(), vec!["relay".into(), relay.into(), data.join("egress").into()]),
        reachable: Vec::new(),
        log_bytes: 1 << 20,
    }
}

fn settings(data: &Path) -> Settings {
    let long = Duration::from_secs(1 << 30);
    Settings {
        version: "0.0.0",
        data_dir: data.to_owned(),
        address: "http://127.0.0.1:1".to_owned(),
        allow_unsandboxed: false,
        ports: None,
        retention: Retention { audit: long, tombstones: long, logs: long, log_bytes: 4 << 20 },
    }
}

#[test]
fn one_is_made_when_its_time_has_come_and_something_was_written() {
    let house = House::new();
    let id = house.create("hourly", 10);
    house.pass(61);
    assert!(house.checkpoints(id).is_empty(), "nothing is there yet");
    house.works(id, "echo 1 > file");
    house.pass(0);
    let made = house.checkpoints(id);
    assert_eq!(made.iter().map(|made| (made.reason, made.created_by)).collect::<Vec<_>>(), [(CheckpointReason::Interval, None)]);
    house.pass(61);
    assert_eq!(house.checkpoints(id).len(), 1, "nothing happened since");
    // To look at something is not to change it, nor is to write what is gone again.
    house.works(id, "cat file; ls -l; touch new; rm new");
    house.pass(61);
    assert_eq!(house.checkpoints(id).len(), 1, "nothing is different");
    house.works(id, "echo 2 > file");
    let requested = house.run(house.app.create_checkpoint(&house.enter(), id, NewCheckpoint::default())).unwrap();
    house.works(id, "echo 3 > file");
    house.pass(40);
    assert_eq!(house.checkpoints(id).len(), 2, "not before its time, whoever made the last one");
    house.pass(21);
    let made = house.checkpoints(id);
    assert_eq!((made.len(), made[0].parent_id), (3, Some(new_one(requested).id)));
    for name in ["a mode", "a name less"] {
        house.works(id, if name == "a mode" { "chmod 711 ." } else { "rm file" });
        house.pass(61);
    }
    assert_eq!(house.checkpoints(id).len(), 5);
    house.restore(id, made[0].id, false);
    assert_eq!(house.works(id, "cat file; stat -c %a ."), "3\n700\n");
}

#[test]
fn one_that_cannot_be_made_is_left_out_and_the_audit_says_so_once() {
    let house = House::new();
    let id = house.create("busy", 10);
    house.works(id, "echo 1 > file");
    let new = || serde_json::from_value(json!({"argv": ["sleep", "600"]})).unwrap();
    let process = new_one(house.run(house.app.start_process(&house.enter(), id, new())).unwrap());
    for _ in 0..3 {
        house.pass(61);
    }
    assert!(house.checkpoints(id).is_empty());
    let told = house.skipped();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0]["details"]["cause"].as_str().unwrap().contains("a process runs"), "{told:?}");
    let seen = house.run(house.app.get_process(&house.enter(), id, process.id)).unwrap();
    assert!(seen.exit.is_none(), "it was not disturbed");
    house.run(house.app.stop_environment(&house.enter(), id)).unwrap();
    house.pass(1);
    assert_eq!((house.checkpoints(id).len(), house.skipped().len()), (1, 1));
    // It is said again when it is so again.
    house.works(id, "echo 2 > file");
    house.run(house.app.start_process(&house.enter(), id, new())).unwrap();
    house.pass(61);
    assert_eq!((house.checkpoints(id).len(), house.skipped().len()), (1, 2));
}

#[test]
fn as_many_are_kept_as_the_definition_says_and_none_goes_that_somebody_asked_for() {
    let house = House::new();
    let id = house.create("kept", 3);
    let mut asked = Vec::new();
    let mut forks = Vec::new();
    for number in 0..8 {
        house.works(id, &format!("echo {number} > file; echo {number} > only-{number}"));
        house.pass(61);
        let latest = house.checkpoints(id).remove(0);
        assert_eq!(latest.reason, CheckpointReason::Interval);
        if number % 4 == 1 {
            // A fork outlives the checkpoint that it began with.
            forks.push((number, house.fork(id, Some(latest.id))));
            house.works(id, "echo asked >> asked");
            let new = NewCheckpoint { name: Some(format!("asked-{number}")), ..NewCheckpoint::default() };
            asked.push(new_one(house.run(house.app.create_checkpoint(&house.enter(), id, new)).unwrap()).id);
        }
    }
    let of = |reason: CheckpointReason| -> Vec<_> {
        let all = house.checkpoints(id).into_iter().filter(|checkpoint| checkpoint.reason == reason);
        all.map(|checkpoint| checkpoint.id).collect()
    };
    eventually("the oldest are gone", || (of(CheckpointReason::Interval).len() == 3).then_some(()));
    let mut requested = of(CheckpointReason::Requested);
    requested.reverse();
    assert_eq!(requested, asked);
    // Layers that nobody needs go, and what is needed stays whole.
    house.run(house.app.drop_layers(&[])).unwrap();
    for (number, fork) in forks {
        assert_eq!(house.works(fork, "cat file; ls | wc -l"), format!("{number}\n{}\n", number + 2 + number / 5));
    }
    for (at, checkpoint) in asked.iter().enumerate() {
        house.restore(id, *checkpoint, false);
        assert_eq!(house.works(id, "cat file; wc -l < asked"), format!("{}\n{}\n", at * 4 + 1, at + 1));
    }
    let kept = of(CheckpointReason::Interval);
    for (at, checkpoint) in kept.iter().enumerate() {
        house.restore(id, *checkpoint, false);
        assert_eq!(house.works(id, "cat file"), format!("{}\n", 7 - at));
    }
}

#[test]
fn what_is_made_for_forks_and_restores_is_not_kept_forever_either() {
    let house = House::new();
    let id = house.create("many", 2);
    for number in 0..5 {
        house.works(id, &format!("echo {number} > file"));
        let fork = house.fork(id, None);
        assert_eq!(house.works(fork, "cat file"), format!("{number}\n"));
    }
    eventually("two are kept", || (house.checkpoints(id).len() == 2).then_some(()));
    for number in 5..9 {
        house.works(id, &format!("echo {number} > file"));
        let latest = house.checkpoints(id).remove(0);
        house.restore(id, latest.id, true);
    }
    eventually("two are kept", || (house.checkpoints(id).len() == 2).then_some(()));
    let saved = house.checkpoints(id).remove(0);
    assert_eq!(saved.reason, CheckpointReason::BeforeRestore);
    house.restore(id, saved.id, false);
    assert_eq!(house.works(id, "cat file"), "8\n");
    house.run(house.app.delete_environment(&house.enter(), id)).unwrap();
    assert!(layers_in(house.directory.path()) > 0, "the forks still need theirs");
}
