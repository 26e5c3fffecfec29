//! Stewards of other versions than the server that finds them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod house;

use house::{House, stewards_speaking};
use stead_domain::ids::EnvironmentId;
use stead_domain::process::ExitCause;
use stead_place::client::Trouble;
use stead_place::protocol::{Answer, Call, LAST, PROTOCOL, Start};

/// A process that was started under a server whose stewards speak another version, and ends when it has read a line.
async fn started_under(house: &House, protocol: u32, environment: EnvironmentId) -> Start {
    let earlier = stewards_speaking(&house.data, protocol);
    let start = Start { stdin_open: true, ..house.start("echo before; read line; echo $line; exit 4") };
    earlier.start(&house.blueprint(environment), &start).await.unwrap();
    let mut seen = earlier.progress(environment, start.process).await.unwrap().unwrap();
    while seen.end == 0 {
        seen = earlier.further(environment, start.process, &seen).await.unwrap().unwrap();
    }
    earlier.let_go();
    start
}

#[tokio::test]
async fn a_steward_of_the_last_version_keeps_what_runs_and_takes_nothing_new() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let start = started_under(&house, LAST, environment).await;
    let found = house.stewards.find(environment).await.unwrap().unwrap();
    assert!(found.is_draining() && found.running() == [start.process]);
    let other = house.start("true");
    match house.stewards.start(&blueprint, &other).await {
        Err(Trouble::Draining(running)) => assert_eq!(running, [start.process]),
        other => panic!("{other:?}"),
    }
    assert_eq!(house.stewards.progress(environment, other.process).await.unwrap(), None, "nothing was started");
    // What it does not know is never said to it; everything else is.
    let follower = house.stewards.follow(environment, start.process, 7).await.unwrap().unwrap();
    assert!(follower.reached(7));
    drop(follower);
    let stdin = Call::Stdin { process: start.process, warrant: None, offset: 0, end: false };
    assert!(matches!(house.stewards.call(environment, stdin, b"word\n").await.unwrap(), Answer::Written { offset: 5 }));
    assert_eq!(house.until_over(environment, start.process).await.exit.unwrap().code, Some(4));
    assert_eq!(house.text(environment, start.process, None).await, "before\nword\n");
    assert!(!found.is_gone(), "it was never cut off");
    // It ended with its last one: there is another now.
    house.stewards.start(&blueprint, &other).await.unwrap();
    assert!(!house.stewards.find(environment).await.unwrap().unwrap().is_draining());
    assert_eq!(house.until_over(environment, other.process).await.exit.unwrap().code, Some(0));
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn a_steward_of_the_last_version_really_does_not_know_the_new_calls() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let earlier = stewards_speaking(&house.data, LAST);
    let start = house.start("sleep 60");
    earlier.start(&house.blueprint(environment), &start).await.unwrap();
    // Whoever made it takes it for one of its own, until it hangs up.
    let first = earlier.find(environment).await.unwrap().unwrap();
    let with_secrets = Start { secrets: Some(Box::default()), ..house.start("true") };
    let call = || Call::Start(with_secrets.clone());
    assert!(matches!(first.call(call(), &[]).await, Err(Trouble::Gone)));
    assert!(matches!(earlier.call(environment, call(), &[]).await, Err(Trouble::Broken(_))));
    assert_eq!(earlier.progress(environment, start.process).await.unwrap().unwrap().exit, None);
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn what_a_steward_keeps_that_nobody_understands_is_read_and_ended() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let start = started_under(&house, PROTOCOL + 1, environment).await;
    assert!(matches!(house.stewards.find(environment).await, Err(Trouble::Foreign { protocol }) if protocol == PROTOCOL + 1));
    let seen = house.stewards.progress(environment, start.process).await.unwrap().unwrap();
    assert_eq!((seen.end, seen.exit), (7, None));
    assert_eq!(house.text(environment, start.process, None).await, "before\n");
    let signal = Call::Signal { process: start.process, warrant: None, signal: 15 };
    assert!(matches!(house.stewards.call(environment, signal, &[]).await, Err(Trouble::Foreign { .. })));
    let other = house.start("true");
    assert!(matches!(house.stewards.start(&blueprint, &other).await, Err(Trouble::Draining(running)) if running == [start.process]));
    house.stewards.sleep(environment, false).await.unwrap();
    assert!(!blueprint.run.exists());
    assert_eq!(house.until_over(environment, start.process).await.exit.unwrap().cause, ExitCause::Lost);
    house.stewards.start(&blueprint, &other).await.unwrap();
    assert_eq!(house.until_over(environment, other.process).await.exit.unwrap().code, Some(0));
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn what_ends_under_a_steward_that_nobody_understands_is_told_by_its_files() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let later = stewards_speaking(&house.data, PROTOCOL + 1);
    let start = house.start("sleep 1; echo done; exit 6");
    later.start(&house.blueprint(environment), &start).await.unwrap();
    later.let_go();
    assert_eq!(house.until_over(environment, start.process).await.exit.unwrap().code, Some(6));
    assert_eq!(house.text(environment, start.process, None).await, "done\n");
    // Nothing runs any more, so nothing is in the way of the next one.
    let other = house.start("true");
    house.stewards.start(&house.blueprint(environment), &other).await.unwrap();
    assert_eq!(house.until_over(environment, other.process).await.exit.unwrap().code, Some(0));
    house.stewards.sleep(environment, true).await.unwrap();
}
