//! More than usual: of processes in one place, and of words in one definition.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod house;

use house::House;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stead_domain::ids::EnvironmentId;
use stead_place::blueprint::Blueprint;
use stead_place::protocol::Start;

#[tokio::test]
async fn the_limit_of_open_files_counts_inside_and_not_for_the_keeper() {
    // Whatever is started from here has it; this test opens few.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), ..limit }).unwrap();
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let start = Start { stdin_open: true, ..house.start("read line; ulimit -n") };
        house.stewards.start(&blueprint, &start).await.unwrap();
        waiting.push(start.process);
    }
    for process in waiting {
        let stdin = stead_place::protocol::Call::Stdin { process, warrant: None, offset: 0, end: true };
        house.stewards.call(environment, stdin, b"go\n").await.unwrap();
        assert_eq!(house.until_over(environment, process).await.exit.unwrap().code, Some(0));
        assert_eq!(house.text(environment, process, None).await, "128\n");
    }
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn a_definition_may_be_longer_than_a_message() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let hidden = (0..8000).map(|number| format!("/workspace/there-is-nothing-of-this-long-name-{number}").into());
    let blueprint = Blueprint { hidden: hidden.chain(["/workspace/seen".into()]).collect(), ..house.blueprint(environment) };
    assert!(serde_json::to_vec(&blueprint).unwrap().len() > 400_000);
    std::fs::create_dir(house.data.join("workspace/seen")).unwrap();
    std::fs::write(house.data.join("workspace/seen/secret"), "").unwrap();
    let start = house.start("ls; ls seen");
    house.stewards.start(&blueprint, &start).await.unwrap();
    assert_eq!(house.until_over(environment, start.process).await.exit.unwrap().code, Some(0));
    assert_eq!(house.text(environment, start.process, None).await, "seen\n");
    house.stewards.sleep(environment, true).await.unwrap();
}
