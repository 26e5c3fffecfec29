//! Everything inside stands still and goes on, whoever is killed meanwhile.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod house;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use house::{House, stewards_speaking};
use rustix::process::{Pid, Signal, kill_process};
use stead_domain::ids::EnvironmentId;
use stead_domain::process::ExitCause;
use stead_place::Warrant;
use stead_place::blueprint::{Blueprint, Limits};
use stead_place::client::{Stewards, Trouble};
use stead_place::protocol::{Answer, Call, Decoder, LAST, PROTOCOL, Refusal, Request, Start, Word, encode};
use stead_sandbox::cgroup::{Availability, Group, Support};

const LONG: Duration = Duration::from_secs(60);
/// Begins others all the time, and leaves some behind.
const RESTLESS: &str = "echo begun; while :; do (setsid sh -c 'echo x >> left' &); echo y >> file; done";

/// Whether this host lets groups be made; said where it does not.
fn groups_here() -> bool {
    let here = Availability::probe().has_groups();
    if !here {
        let _ = writeln!(std::io::stderr(), "not run: this host lets no groups of processes be made");
    }
    here
}

struct Restless {
    house: House,
    environment: EnvironmentId,
    blueprint: Blueprint,
    start: Start,
    file: PathBuf,
}

impl Restless {
    async fn begin(limits: Limits) -> Self {
        let house = House::new();
        let environment = EnvironmentId::new(&house.context);
        let blueprint = Blueprint { limits, ..house.blueprint(environment) };
        let start = house.start(RESTLESS);
        house.stewards.start(&blueprint, &start).await.unwrap();
        let file = house.data.join("workspace/file");
        let restless = Self { house, environment, blueprint, start, file };
        restless.moves();
        restless
    }

    /// Waits until it has written more than now.
    #[track_caller]
    fn moves(&self) {
        let (before, begun) = (size(&self.file), Instant::now());
        while size(&self.file) <= before {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not go on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[track_caller]
    fn stands(&self) {
        let all = || ["file", "left"].map(|name| size(&self.house.data.join("workspace").join(name)));
        let before = all();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(all(), before);
    }

    async fn end(self) {
        self.house.stewards.sleep(self.environment, true).await.unwrap();
        assert!(!self.blueprint.run.exists());
        self.nothing_is_left();
    }

    #[track_caller]
    fn nothing_is_left(&self) {
        assert!(Group::open(&Availability::probe(), &self.environment.short()).unwrap().is_none(), "its group is left");
    }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

fn bounds() -> Vec<Limits> {
    let bounded = Availability::probe().pids == Support::Enforced;
    std::iter::once(Limits::default()).chain(bounded.then(|| Limits { pids: Some(500), ..Limits::default() })).collect()
}

#[tokio::test]
async fn everything_stands_still_and_goes_on() {
    if !groups_here() {
        return;
    }
    for limits in bounds() {
        let restless = Restless::begin(limits).await;
        let stewards = &restless.house.stewards;
        for _ in 0..3 {
            let still = stewards.freeze(restless.environment, LONG).await.unwrap().unwrap();
            restless.stands();
            let again = stewards.freeze(restless.environment, LONG).await;
            assert!(matches!(again, Err(Trouble::Refused(Refusal::CannotStandStill { .. }))), "one at a time");
            still.thaw().await.unwrap();
            restless.moves();
        }
        drop(stewards.freeze(restless.environment, LONG).await.unwrap().unwrap());
        restless.moves();
        restless.end().await;
    }
    let house = House::new();
    assert!(house.stewards.freeze(EnvironmentId::new(&house.context), LONG).await.unwrap().is_none(), "it is asleep");
}

#[tokio::test]
async fn it_goes_on_after_its_time_and_when_whoever_asked_is_gone() {
    if !groups_here() {
        return;
    }
    let restless = Restless::begin(Limits::default()).await;
    let stewards = &restless.house.stewards;
    let still = stewards.freeze(restless.environment, Duration::from_millis(30)).await.unwrap().unwrap();
    restless.moves();
    assert!(matches!(still.thaw().await, Err(Trouble::Refused(Refusal::Thawed))), "whoever asked hears that it was too long");
    let stream = frozen_by_hand(&restless.blueprint);
    restless.stands();
    // As it ends when a server is killed.
    drop(stream);
    restless.moves();
    restless.end().await;
}

/// A stream over which everything was made to stand still.
fn frozen_by_hand(blueprint: &Blueprint) -> UnixStream {
    let mut stream = UnixStream::connect(blueprint.run.join("socket")).unwrap();
    let call = Call::Freeze { at_most_milliseconds: LONG.as_millis() as u64 };
    stream.write_all(&encode(&Request { number: 1, call }, &[]).unwrap()).unwrap();
    let (mut decoder, mut buffer) = (Decoder::default(), [0; 4096]);
    loop {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0, "it hung up");
        decoder.push(&buffer[..length]);
        while let Some((word, _)) = decoder.take::<Word>().unwrap() {
            match word {
                Word::Answer { number: 1, answer: Answer::Done } => return stream,
                Word::Answer { answer, .. } => panic!("{answer:?}"),
                Word::Progress(_) => {}
            }
        }
    }
}

#[tokio::test]
async fn what_is_asked_meanwhile_is_done_when_it_goes_on() {
    if !groups_here() {
        return;
    }
    let restless = Restless::begin(Limits::default()).await;
    let stewards = &restless.house.stewards;
    let still = stewards.freeze(restless.environment, LONG).await.unwrap().unwrap();
    let other = restless.house.start("echo other");
    let signal = Call::Signal { process: restless.start.process, warrant: None, signal: 9 };
    let (started, signalled, activity, ()) = tokio::join!(
        stewards.start(&restless.blueprint, &other),
        stewards.call(restless.environment, signal, &[]),
        stewards.call(restless.environment, Call::Activity, &[]),
        async {
            restless.stands();
            still.thaw().await.unwrap();
        },
    );
    started.unwrap();
    signalled.unwrap();
    assert!(matches!(activity.unwrap(), Answer::Activity { processes: 1, .. }));
    let exit = restless.house.until_over(restless.environment, restless.start.process).await.exit.unwrap();
    assert_eq!((exit.cause, exit.signal), (ExitCause::Signaled, Some(9)));
    assert_eq!(restless.house.until_over(restless.environment, other.process).await.exit.unwrap().code, Some(0));
    restless.end().await;
}

#[tokio::test]
async fn what_stands_still_can_be_stopped_and_ended() {
    if !groups_here() {
        return;
    }
    for limits in bounds() {
        for at_once in [true, false] {
            let restless = Restless::begin(limits).await;
            let still = restless.house.stewards.freeze(restless.environment, LONG).await.unwrap().unwrap();
            let before = size(&restless.file);
            restless.house.stewards.sleep(restless.environment, at_once).await.unwrap();
            assert!(!at_once || size(&restless.file) == before, "it ended as it stood");
            assert!(still.thaw().await.is_err());
            let exit = restless.house.until_over(restless.environment, restless.start.process).await.exit.unwrap();
            assert_eq!(exit.cause, ExitCause::Signaled);
            restless.nothing_is_left();
        }
        let restless = Restless::begin(limits).await;
        let still = restless.house.stewards.freeze(restless.environment, LONG).await.unwrap().unwrap();
        let before = size(&restless.file);
        restless
            .house
            .stewards
            .call(restless.environment, Call::Barrier { warrant: Warrant { fence: 7, lease: None }, stop: true }, &[])
            .await
            .unwrap();
        assert_eq!(size(&restless.file), before, "nothing was written under an older fence");
        assert!(matches!(still.thaw().await, Err(Trouble::Refused(Refusal::Thawed) | Trouble::Gone)));
        let exit = restless.house.until_over(restless.environment, restless.start.process).await.exit.unwrap();
        assert_eq!(exit.cause, ExitCause::Fenced);
        restless.end().await;
    }
}

/// The pid of whoever keeps an environment.
async fn keeper(stewards: &Stewards, environment: EnvironmentId) -> i32 {
    match stewards.call(environment, Call::Hello { protocol: PROTOCOL }, &[]).await.unwrap() {
        Answer::Hello { pid, .. } => i32::try_from(pid).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_steward_that_is_killed_leaves_nobody_standing() {
    if !groups_here() {
        return;
    }
    for (limits, wakes) in bounds().into_iter().flat_map(|limits| [(limits, true), (limits, false)]) {
        let restless = Restless::begin(limits).await;
        let stewards = &restless.house.stewards;
        let pid = keeper(stewards, restless.environment).await;
        let still = stewards.freeze(restless.environment, LONG).await.unwrap().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        assert!(matches!(still.thaw().await, Err(Trouble::Gone)));
        if wakes {
            // The next one finds what was left, and is not held by it.
            let other = restless.house.start("echo fine");
            stewards.start(&restless.blueprint, &other).await.unwrap();
            assert_eq!(restless.house.until_over(restless.environment, other.process).await.exit.unwrap().code, Some(0));
        }
        stewards.sleep(restless.environment, true).await.unwrap();
        let before = size(&restless.file);
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(size(&restless.file), before, "nobody is left who writes");
        restless.nothing_is_left();
    }
}

#[tokio::test]
async fn one_of_the_last_version_stands_still_and_one_that_nobody_understands_is_not_asked() {
    if !groups_here() {
        return;
    }
    for protocol in [LAST, LAST - 1] {
        let house = House::new();
        let environment = EnvironmentId::new(&house.context);
        let earlier = stewards_speaking(&house.data, protocol);
        let start = house.start("sleep 60");
        earlier.start(&house.blueprint(environment), &start).await.unwrap();
        earlier.let_go();
        match house.stewards.freeze(environment, LONG).await {
            Ok(Some(still)) if protocol == LAST => still.thaw().await.unwrap(),
            Err(Trouble::Foreign { .. }) if protocol != LAST => {}
            other => panic!("{:?}", other.map(|_| ())),
        }
        assert_eq!(house.stewards.progress(environment, start.process).await.unwrap().unwrap().exit, None, "it goes on");
        house.stewards.sleep(environment, true).await.unwrap();
    }
}
