//! Keepers that are stopped, killed, or of another version.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, Signal, kill_process};
use stead_app::{PlaceError, Premises};
use stead_domain::process::ExitCause;
use stead_place::protocol::{Call, LAST, PROTOCOL, Request, encode};

use crate::house::{House, until};

const RESTLESS: &str = "(setsid sh -c 'while :; do echo x >> left; done' &); while :; do echo x >> file; done";

fn socket(house: &House, premises: &Premises) -> PathBuf {
    house.data.join("run").join(premises.environment.short()).join("socket")
}

fn keeper(house: &House, premises: &Premises) -> Pid {
    socket_peercred(UnixStream::connect(socket(house, premises)).unwrap()).unwrap().pid
}

/// Something that writes all the time, and leaves something behind that does.
fn restless(house: &House, fence: u64) -> (Premises, stead_app::StartProcess) {
    let (premises, start) = (house.environment(), house.start(house.warrant(fence), RESTLESS));
    house.begin(&premises, &start);
    house.until_written(&["file", "left"]);
    (premises, start)
}

pub fn a_stopped_keeper(directory: &Path) -> Result<(), String> {
    let house = House::new(directory);
    let (premises, start) = restless(&house, 1);
    let keeper = keeper(&house, &premises);
    kill_process(keeper, Signal::STOP).unwrap();
    let new = house.warrant(2);
    match house.barrier(&[&premises], new) {
        Err(PlaceError::Failed(message)) => assert!(message.contains("does not answer"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(!house.inside().is_empty(), "it was right not to take them to be gone");
    kill_process(keeper, Signal::CONT).unwrap();
    house.barrier(&[&premises], new).unwrap();
    house.nobody_is_inside();
    house.was_fenced(&premises, start.id);
    house.works(&premises, new);
    house.run(house.place().sleep(premises.environment, true)).unwrap();
    Ok(())
}

pub fn a_killed_keeper(directory: &Path) -> Result<(), String> {
    let house = House::new(directory);
    for round in 1..=if std::env::var_os("STEAD_PROVE").is_some() { 200 } else { 8 } {
        let (premises, start) = restless(&house, round * 2);
        let new = house.warrant(round * 2 + 1);
        let is_frozen = round % 4 == 3;
        let still = is_frozen.then(|| house.run(house.place().freeze(premises.environment, std::time::Duration::from_secs(60))));
        let keeper = keeper(&house, &premises);
        if round % 2 == 0 {
            // It has been told, and may be anywhere between that and its answer.
            let mut stream = UnixStream::connect(socket(&house, &premises)).unwrap();
            let call = Call::Barrier { warrant: stead_place::Warrant { fence: new.fence, lease: new.lease }, stop: true };
            stream.write_all(&encode(&Request { number: 1, call }, &[]).unwrap()).unwrap();
        }
        // It may have left by itself.
        let _ = kill_process(keeper, Signal::KILL);
        house.barrier(&[&premises], new).unwrap();
        house.nobody_is_inside();
        let before = house.sizes();
        let cause = house.end_of(&premises, start.id).exit.unwrap().cause;
        assert!(matches!(cause, ExitCause::Lost | ExitCause::Fenced), "{cause:?}");
        house.works(&premises, new);
        assert_eq!(house.sizes(), before, "round {round}");
        house.run(house.place().sleep(premises.environment, true)).unwrap();
        drop(still);
        ["file", "left"].iter().for_each(|name| fs::remove_file(house.workspace().join(name)).unwrap());
    }
    Ok(())
}

pub fn other_versions(directory: &Path) -> Result<(), String> {
    for protocol in [LAST, LAST - 1, PROTOCOL + 1] {
        let data = directory.join(protocol.to_string());
        fs::create_dir(&data).unwrap();
        let earlier = House::speaking(&data, protocol);
        let (premises, start) = restless(&earlier, 1);
        let next = earlier.next();
        // Once by who made it and takes it for one of its own, once by a server that finds it.
        let house = if protocol == LAST { &earlier } else { &next };
        let new = house.warrant(2);
        house.barrier(&[&premises], new).unwrap();
        house.nobody_is_inside();
        let run = socket(house, &premises);
        until("nothing is left of it", || !run.exists());
        let before = next.sizes();
        let cause = next.end_of(&premises, start.id).exit.unwrap().cause;
        assert!(matches!(cause, ExitCause::Lost | ExitCause::Fenced), "{cause:?}");
        assert!(matches!(next.run(next.place().start(&premises, &next.start(start.warrant, "true"))), Err(PlaceError::Fenced)));
        next.works(&premises, new);
        assert_eq!(next.sizes(), before);
        next.run(next.place().sleep(premises.environment, true)).unwrap();
    }
    Ok(())
}
