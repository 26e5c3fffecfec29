//! Barriers at one steward: who races with them, who hides from them, and who is left in peace.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod house;

use std::time::Duration;

use house::House;
use house::said::path;
use stead_domain::files::FileOrder;
use stead_domain::ids::{EnvironmentId, LeaseId};
use stead_domain::process::ExitCause;
use stead_place::Warrant;
use stead_place::client::Trouble;
use stead_place::protocol::{Answer, Call, Errand, Refusal, Start};

const PATIENCE: Duration = Duration::from_secs(60);

fn warrant(house: &House, fence: u64) -> Warrant {
    Warrant { fence, lease: Some(LeaseId::new(&house.context)) }
}

fn under(warrant: Warrant, start: Start) -> Start {
    Start { warrant: Some(warrant), ..start }
}

async fn background(house: &House, environment: EnvironmentId) -> (u64, u64) {
    match house.stewards.call(environment, Call::Activity, &[]).await.unwrap() {
        Answer::Activity { processes, background, .. } => (processes, background),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_races_with_a_barrier_is_refused_or_ended_and_the_next_one_is_let_in() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let mut old = warrant(&house, 1);
    for round in 0..if std::env::var_os("STEAD_PROVE").is_some() { 1000 } else { 40 } {
        let new = warrant(&house, old.fence + 1);
        let late = under(old, house.start("while :; do echo x >> late; done"));
        if round % 3 == 0 {
            // Something runs already, so that it is not only the race that counts.
            house.stewards.start(&blueprint, &under(old, house.start("sleep 1000"))).await.unwrap();
        }
        let barrier = async {
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            stead_place::fence_file::raise(&blueprint.fence, new).unwrap();
            house.stewards.barrier(environment, new, true, PATIENCE).await.unwrap();
            std::fs::metadata(house.data.join("workspace/late")).map_or(0, |file| file.len())
        };
        let (started, written) = tokio::join!(house.stewards.start(&blueprint, &late), barrier);
        match started {
            // It ran for a moment, and what is written down says so.
            Ok(()) => {
                let exit = house.until_over(environment, late.process).await.exit.unwrap();
                assert_eq!(exit.cause, ExitCause::Fenced, "round {round}");
            }
            Err(Trouble::Refused(Refusal::Fenced)) => {}
            Err(other) => panic!("round {round}: {other:?}"),
        }
        // Right after it, whether the place is there, about to leave or gone.
        let next = under(new, house.start("exit 5"));
        house.stewards.start(&blueprint, &next).await.unwrap();
        assert_eq!(house.until_over(environment, next.process).await.exit.unwrap().code, Some(5));
        assert_eq!(std::fs::metadata(house.data.join("workspace/late")).map_or(0, |file| file.len()), written, "round {round}");
        old = new;
    }
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn a_file_is_written_right_after_a_barrier() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    for fence in 1..20 {
        house.stewards.start(&blueprint, &under(warrant(&house, fence), house.start("sleep 1000"))).await.unwrap();
        let next = warrant(&house, fence + 1);
        house.stewards.barrier(environment, next, true, PATIENCE).await.unwrap();
        let order = Errand {
            directory: "/workspace".into(),
            order: FileOrder::MakeDirectory { path: path(format!("{fence}")), mode: None, parents: false },
        };
        assert!(house.stewards.errand(&blueprint, None, &order).await.is_err(), "nothing is changed without a warrant");
        let mut made = house.stewards.errand(&blueprint, Some(next), &order).await.unwrap();
        made.next().await.unwrap();
        assert!(house.data.join("workspace").join(fence.to_string()).is_dir());
        house.stewards.sleep(environment, true).await.unwrap();
    }
}

#[tokio::test]
async fn a_program_that_calls_itself_an_errand_is_none() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let old = warrant(&house, 1);
    let hides = under(
        old,
        house.start("(setsid bash -c 'exec -a errand sleep 1000' &); until grep -qas '^errand' /proc/[0-9]*/cmdline; do :; done"),
    );
    house.stewards.start(&blueprint, &hides).await.unwrap();
    house.until_over(environment, hides.process).await;
    assert_eq!(background(&house, environment).await, (0, 1));
    let watch = Errand { directory: "/workspace".into(), order: FileOrder::Watch { path: path("."), recursive: false } };
    let mut watching = house.stewards.errand(&blueprint, None, &watch).await.unwrap();
    watching.next().await.unwrap();
    assert_eq!(background(&house, environment).await, (0, 1), "and who only watches changes nothing");
    let write = Errand { directory: "/workspace".into(), order: FileOrder::Write { path: path("file"), mode: None, parents: false } };
    let writing = house.stewards.errand(&blueprint, Some(old), &write).await.unwrap();
    assert_eq!(background(&house, environment).await, (0, 2));
    drop(writing);
    house.stewards.barrier(environment, warrant(&house, 2), true, PATIENCE).await.unwrap();
    assert!(matches!(watching.next().await, Err(Trouble::Gone)), "everything went");
    assert!(!blueprint.run.exists());
}

#[tokio::test]
async fn what_begins_under_a_later_warrant_lets_what_runs_go_on() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let (old, new) = (warrant(&house, 1), warrant(&house, 2));
    let goes_on = Start { stdin_open: true, ..under(old, house.start("read line; exit 3")) };
    house.stewards.start(&blueprint, &goes_on).await.unwrap();
    let next = under(new, house.start("true"));
    house.stewards.start(&blueprint, &next).await.unwrap();
    house.until_over(environment, next.process).await;
    // As after a restart of the server, which only makes sure.
    house.stewards.barrier(environment, new, true, PATIENCE).await.unwrap();
    let stdin = |warrant| Call::Stdin { process: goes_on.process, warrant: Some(warrant), offset: 0, end: false };
    assert!(matches!(house.stewards.call(environment, stdin(old), b"\n").await, Err(Trouble::Refused(Refusal::Fenced))));
    house.stewards.call(environment, stdin(new), b"\n").await.unwrap();
    assert_eq!(house.until_over(environment, goes_on.process).await.exit.unwrap().code, Some(3));
    house.stewards.sleep(environment, true).await.unwrap();
}
