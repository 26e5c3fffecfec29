//! Commands run to their end, environments that sleep and go, and what is forgotten.

use std::time::Duration;

use stead_app::processes::{Executed, Piece, ProcessQuery, Reading};
use stead_app::{Outcome, Place, Premises, StartProcess};
use stead_domain::environment::EnvironmentStatus;
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::page::PageRequest;
use stead_domain::process::{ExitCause, OutputStream, ProcessLimits, ProcessStatus, TerminalSize};
use stead_domain::process_request::ExecRequest;
use stead_domain::signal::Signal;
use stead_domain::{Code, Result};

use crate::life::{Life, World};
use crate::memory::{Call, Mishap};
use crate::processes::{command, process_of};

impl Life {
    fn exec(&self, environment: EnvironmentId, words: &[&str], stdin: Option<&str>, key: Option<&str>) -> Result<Executed> {
        let command = words.iter().map(|word| (*word).to_owned()).collect();
        let request = ExecRequest { command, stdin: stdin.map(str::to_owned), ..ExecRequest::default() };
        self.run(async { self.app.execute(&self.enter(key).await, environment, request).await })
    }
}

#[test]
fn a_command_is_answered_with_what_it_printed_and_how_it_ended() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let done = life.exec(environment, &["complain", "no"], None, Some("k")).unwrap();
    assert_eq!((done.result.stdout.as_str(), done.result.stderr.as_str(), done.result.exit_code), ("out", "no", 3));
    let again = life.exec(environment, &["complain", "no"], None, Some("k")).unwrap();
    assert_eq!((again.result, again.process.id, again.again), (done.result, done.process.id, true));
    assert_eq!(world.cloud.place.started().len(), 1);
    // Longer than one piece of stdin.
    let long = "größe\n".repeat(100_000);
    assert_eq!(life.exec(environment, &["cat"], Some(&long), None).unwrap().result.stdout, long);
    assert_eq!(life.exec(environment, &["slow"], None, None).unwrap().result.exit_code, 124);
    let flood = life.exec(environment, &["flood", "9"], None, None).unwrap();
    assert_eq!((flood.result.stdout.len(), flood.truncated), (8 << 20, vec![OutputStream::Stdout]));
    // What a program does not read holds nobody up.
    assert_eq!(life.exec(environment, &["print", "x"], Some("unread"), None).unwrap().result.stdout, "x");
    assert_eq!(life.exec(environment, &["missing"], None, None).err().unwrap().code(), Code::ProgramNotFound);
    life.end();
}

#[test]
fn what_runs_can_be_written_to_signalled_and_resized_and_what_is_over_cannot() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let mut new = command(&["cat"]);
    new.terminal = Some(TerminalSize { rows: 24, cols: 80 });
    let entered = life.run(life.enter(None));
    let id = process_of(life.run(life.app.start_process(&entered, environment, new)).unwrap()).id;
    let write = |offset, bytes: &[u8], end| life.run(life.app.write_stdin(&entered, environment, id, offset, bytes, end));
    assert_eq!(write(0, b"one", false).unwrap().offset, 3);
    assert_eq!(write(0, b"one", false).unwrap().offset, 3, "written once");
    assert_eq!(write(2, b"e two", false).unwrap().offset, 7);
    let error = write(9, b"x", false).unwrap_err();
    assert_eq!((error.code(), error.details()["offset"].as_u64()), (Code::Conflict, Some(7)));
    let size = TerminalSize { rows: 40, cols: 120 };
    life.run(life.app.resize_process(&entered, environment, id, size)).unwrap();
    assert_eq!(world.cloud.place.size_of(id), Some(size));
    let signal = |number| life.run(life.app.send_signal(&entered, environment, id, Signal::from_number(number).unwrap()));
    assert_eq!(signal(10).unwrap().status, ProcessStatus::Running);
    assert_eq!(signal(15).unwrap().exit.unwrap().signal, Some(15));
    for error in [signal(15).unwrap_err(), write(7, b"x", true).unwrap_err()] {
        assert_eq!(error.code(), Code::Conflict);
        assert!(error.suggested().is_some());
    }
    let closed = life.start_process(&world, environment, &["sleep"], None).unwrap().id;
    let refused = life.run(life.app.write_stdin(&entered, environment, closed, 0, b"x", false)).unwrap_err();
    assert!(refused.message().contains("closed stdin"), "{refused}");
    assert_eq!(life.run(life.app.resize_process(&entered, environment, closed, size)).unwrap_err().code(), Code::Conflict);
    life.end();
}

#[test]
fn who_follows_hears_everything_and_then_the_end() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let id = life.start_process(&world, environment, &["sleep"], None).unwrap().id;
    let place = &world.cloud.place;
    place.print(id, OutputStream::Stdout, b"one");
    let mut reader = life
        .run(async { life.app.read_output(&life.enter(None).await, environment, id, Reading { follow: true, ..Reading::default() }).await })
        .unwrap();
    let mut next = || life.run(reader.next(1024)).unwrap();
    assert!(matches!(next(), Some(Piece::Output(output)) if output.next == 3));
    place.leave_gap(id, 10);
    place.print(id, OutputStream::Stderr, b"two");
    assert!(matches!(next(), Some(Piece::Output(output)) if output.frames.len() == 2 && output.next == 16));
    place.exit(id, 0);
    assert!(matches!(next(), Some(Piece::Exit(exit)) if exit.code == Some(0)));
    // A child in the background goes on printing: the end was told.
    place.print(id, OutputStream::Stdout, b"late");
    assert_eq!(next(), None);
    let mut late = life
        .run(async { life.app.read_output(&life.enter(None).await, environment, id, Reading { from: 16, ..Reading::default() }).await })
        .unwrap();
    assert!(matches!(life.run(late.next(1024)).unwrap(), Some(Piece::Output(output)) if output.next == 20));
    assert_eq!(life.run(late.next(1024)).unwrap(), None);
    life.end();
}

#[test]
fn an_environment_is_asleep_before_its_sandbox_goes() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let id = life.start_process(&world, environment, &["sleep"], None).unwrap().id;
    // A place that fails holds the removal up, and the cause is on the record.
    world.cloud.place.plan(Call::Sleep, Mishap::Fail);
    let record = life.delete(environment).unwrap();
    assert_eq!(record.status, EnvironmentStatus::Destroying);
    assert!(record.last_error.unwrap().contains("planned") && world.cloud.asleep_at_removal.lock().unwrap().is_empty());
    life.pass();
    assert_eq!(life.get(environment).status, EnvironmentStatus::Destroyed);
    assert_eq!(*world.cloud.asleep_at_removal.lock().unwrap(), [1]);
    let row = life.row(id).unwrap();
    assert_eq!(row.exit.unwrap().cause, ExitCause::Signaled, "the row stays, and says how it ended");
    assert!(!world.cloud.place.knows(id), "its output is gone");
    assert_eq!(life.start_process(&world, environment, &["print", "x"], None).unwrap_err().code(), Code::EnvironmentDestroyed);
    life.end();
}

#[test]
fn what_runs_keeps_an_environment_awake_unless_it_may_be_ended() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let id = life.start_process(&world, environment, &["sleep"], None).unwrap().id;
    let sleep = |force| life.run(async { life.app.sleep_environment(&life.enter(None).await, environment, force).await });
    let error = sleep(false).unwrap_err();
    assert_eq!((error.code(), error.details()["processes"].as_u64()), (Code::Conflict, Some(1)));
    assert_eq!(life.process(environment, id).status, ProcessStatus::Running);
    assert!(matches!(sleep(true).unwrap(), Outcome::New(_)));
    assert_eq!(life.row(id).unwrap().exit.unwrap().signal, Some(15), "its end is written when the reply comes");
    sleep(false).unwrap();
    let second = life.start_process(&world, environment, &["sleep"], None).unwrap().id;
    life.run(async { life.app.stop_environment(&life.enter(Some("k")).await, environment).await }).unwrap();
    let slept = world.cloud.place.slept().len();
    life.run(async { life.app.stop_environment(&life.enter(Some("k")).await, environment).await }).unwrap();
    assert_eq!(world.cloud.place.slept().len(), slept, "the same request twice is one");
    assert!(life.row(second).unwrap().status.is_over());
    life.run(async { life.app.wake_environment(&life.enter(None).await, environment).await }).unwrap();
    life.end();
}

#[test]
fn one_that_is_removed_is_killed_and_leaves_nothing() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let id = life.start_process(&world, environment, &["sleep"], Some("k")).unwrap().id;
    let remove = || life.run(async { life.app.remove_process(&life.enter(None).await, environment, id).await });
    // Cut off before the output is gone, it is found again.
    world.cloud.place.plan(Call::Forget, Mishap::Fail);
    remove().unwrap_err();
    let last = remove().unwrap();
    assert_eq!((last.status, last.exit.unwrap().signal), (ProcessStatus::Exited, Some(9)));
    assert!(life.row(id).is_none() && !world.cloud.place.knows(id));
    assert_eq!(remove().unwrap_err().code(), Code::NotFound);
    // The request that made it does not make it again.
    assert_eq!(life.start_process(&world, environment, &["sleep"], Some("k")).unwrap_err().code(), Code::Conflict);
    life.end();
}

#[test]
fn what_was_over_for_long_enough_is_forgotten() {
    let world = World::sqlite();
    let life = world.live();
    let environment = life.created("web", None).id;
    let over = life.start_process(&world, environment, &["print", "x"], None).unwrap().id;
    let running = life.start_process(&world, environment, &["sleep"], None).unwrap().id;
    life.until_row(over, |row| row.status.is_over());
    assert_eq!(life.run(life.app.forget_old_processes()).unwrap(), 0);
    world.clock.advance(Duration::from_secs(2 << 30));
    world.cloud.place.plan(Call::Forget, Mishap::Fail);
    assert_eq!(life.run(life.app.forget_old_processes()).unwrap(), 0, "the row stays as long as its output does");
    assert!(life.row(over).is_some());
    assert_eq!(life.run(life.app.forget_old_processes()).unwrap(), 1);
    assert!(life.row(over).is_none() && !world.cloud.place.knows(over));
    assert!(life.row(running).is_some() && world.cloud.place.knows(running));
    let listed = life
        .run(async {
            let page = PageRequest { limit: 10, after: None };
            life.app.list_processes(&life.enter(None).await, environment, ProcessQuery::default(), page).await
        })
        .unwrap();
    assert_eq!(listed.items.iter().map(|process| process.id).collect::<Vec<_>>(), [running]);
    life.end();
}

#[test]
fn a_program_that_a_crash_left_without_a_row_is_ended_at_its_second_sighting() {
    let world = World::sqlite();
    let life = world.live();
    let record = life.created("web", None);
    let kept = life.start_process(&world, record.id, &["sleep"], None).unwrap().id;
    let stray = ProcessId::new(&world.context);
    let premises = Premises {
        stack: Default::default(),
        environment: record.id,
        sandbox: record.sandbox_id,
        name: record.name,
        spec: record.spec,
        authority: None,
        spec_version: record.spec_version,
        allow_unenforced: record.allow_unenforced,
    };
    let start = StartProcess {
        id: stray,
        argv: vec!["sleep".to_owned()],
        cwd: None,
        env: Vec::new(),
        stdin_open: false,
        terminal: None,
        timeout: None,
        limits: ProcessLimits::default(),
        warrant: Default::default(),
        hold: false,
        secrets: stead_app::secrets::Delivery::default(),
    };
    life.run(world.cloud.place.start(&premises, &start)).unwrap();
    let mut sightings = std::collections::HashMap::new();
    life.run(life.app.sweep(&mut sightings));
    assert!(world.cloud.place.exit_of(stray).is_none());
    life.run(life.app.sweep(&mut sightings));
    assert!(!world.cloud.place.knows(stray));
    assert!(world.cloud.place.exit_of(kept).is_none(), "what has a row is left alone");
    life.end();
}
