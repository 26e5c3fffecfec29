//! Values that are known come out of a place in no stream, however they are said; nothing else is lost by that.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod house;

use std::path::Path;

use house::House;
use house::said::{errand, path as path_of};
use stead_domain::files::{FileOrder, FileProblem};
use stead_domain::ids::EnvironmentId;
use stead_domain::process::{ExitCause, OutputStream, TerminalSize};
use stead_egress::broker::Value;
use stead_place::Warrant;
use stead_place::client::Trouble;
use stead_place::protocol::{Answer, Call, Progress, Refusal, Start};
use stead_place::secrets::{DIRECTORY, KnownValue, SecretFile, Secrets};

const VALUE: &str = "correct-horse-battery";
const OTHER: &str = "Tr0ub4dor&3/xyz";

fn known(name: &str, value: &str) -> KnownValue {
    KnownValue { replacement: format!("***{name}***"), bytes: Value::new(value.as_bytes().to_vec()) }
}

/// A start with the value in its variable `TOKEN`.
fn knowing(house: &House, script: &str) -> Start {
    Start {
        env: vec![("TOKEN".to_owned(), VALUE.to_owned())],
        secrets: Some(Box::new(Secrets { known: vec![known("TOKEN", VALUE)], ..Secrets::default() })),
        ..house.start(script)
    }
}

async fn until(house: &House, environment: EnvironmentId, start: &Start, is_so: impl Fn(&Progress) -> bool) -> Progress {
    let mut seen = house.stewards.progress(environment, start.process).await.unwrap().unwrap();
    while !is_so(&seen) {
        seen = house.stewards.further(environment, start.process, &seen).await.unwrap().unwrap();
    }
    seen
}

async fn say(house: &House, environment: EnvironmentId, start: &Start, said: &mut u64, bytes: &[u8]) {
    let stdin = Call::Stdin { process: start.process, warrant: None, offset: *said, end: false };
    match house.stewards.call(environment, stdin, bytes).await.unwrap() {
        Answer::Written { offset } => *said = offset,
        other => panic!("{other:?}"),
    }
}

/// Whether a value was stored anywhere below a directory.
fn holds(directory: &Path, value: &str) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let (path, kind) = (entry.as_ref().unwrap().path(), entry.as_ref().unwrap().file_type().unwrap());
        let is_in = |bytes: Vec<u8>| bytes.windows(value.len()).any(|part| part == value.as_bytes());
        // Devices and sockets hold nothing.
        if kind.is_dir() { holds(&path, value) } else { kind.is_file() && std::fs::read(&path).is_ok_and(is_in) }
    })
}

#[tokio::test]
async fn a_value_is_found_wherever_it_is_cut() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    // Each part is taken out of the pipe before the next is written: a reader of the log says so.
    let cut = "import os, sys\nvalue = os.environ['TOKEN'].encode()\nfor at in range(1, len(value)):\n \
               os.write(1, b'<' + value[:at])\n sys.stdin.read(1)\n os.write(1, value[at:] + b'>\\n')\n sys.stdin.read(1)";
    let mut start = knowing(&house, "");
    start.argv = ["python3", "-c", cut].map(str::to_owned).to_vec();
    start.stdin_open = true;
    house.stewards.start(&blueprint, &start).await.unwrap();
    let (mut shown, mut said) = (0, 0);
    for _ in 1..VALUE.len() {
        // What comes before the value is shown when it comes, and the rest of the line when it is whole.
        for more in [1, "***TOKEN***>\n".len() as u64] {
            shown = until(&house, environment, &start, |seen| seen.end >= shown + more).await.end;
            say(&house, environment, &start, &mut said, b".").await;
        }
    }
    let exit = house.until_over(environment, start.process).await.exit.unwrap();
    assert_eq!(exit.code, Some(0));
    let text = house.text(environment, start.process, None).await;
    for line in text.lines() {
        // A slow one shows its first bytes, and then its name.
        let shown = line.strip_prefix('<').and_then(|line| line.strip_suffix("***TOKEN***>")).unwrap_or_else(|| panic!("{text}"));
        assert!(VALUE.starts_with(shown) && shown.len() <= 3, "{text}");
    }
    assert_eq!(text.lines().count(), VALUE.len() - 1);
    assert!(!holds(&house.data, VALUE));
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn both_streams_a_terminal_and_every_encoding_are_cleared() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let script = r#"printf 'out %s\n' "$TOKEN"; printf 'err %s\n' "$TOKEN" >&2
        printf %s "$TOKEN" | base64; printf 'x%s' "$TOKEN" | base64; printf 'xy%sz' "$TOKEN" | base64
        printf %s "$TOKEN" | od -An -tx1 | tr -d ' \n'; echo
        python3 -c 'import os, urllib.parse, json, base64; t = os.environ["TOKEN"]; print(urllib.parse.quote(t, safe="")); print(json.dumps(t)); print(base64.b32encode(t.encode()).decode())'"#;
    for terminal in [None, Some(TerminalSize { rows: 24, cols: 80 })] {
        let mut start = Start { terminal, ..knowing(&house, script) };
        start.env[0].1 = OTHER.to_owned();
        start.secrets = Some(Box::new(Secrets { known: vec![known("TOKEN", OTHER)], ..Secrets::default() }));
        house.stewards.start(&blueprint, &start).await.unwrap();
        assert_eq!(house.until_over(environment, start.process).await.exit.unwrap().code, Some(0));
        until(&house, environment, &start, |seen| seen.closed).await;
        let text = house.text(environment, start.process, None).await;
        let stream = terminal.map_or(OutputStream::Stderr, |_| OutputStream::Stdout);
        assert!(house.text(environment, start.process, Some(stream)).await.contains("err ***TOKEN***"), "{text}");
        assert!(text.contains("out ***TOKEN***"), "{text}");
        assert!(text.matches("***TOKEN***").count() >= 8, "{text}");
        for part in ["Tr0ub", "VHIwdWI", "5472307562", "%263", "KRZDA5LC"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }
    assert!(!holds(&house.data, OTHER));
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn a_prompt_appears_although_it_could_be_a_beginning() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let start = Start {
        stdin_open: true,
        // The value begins as the prompt ends.
        secrets: Some(Box::new(Secrets { known: vec![known("TOKEN", ": correct-horse")], ..Secrets::default() })),
        ..house.start("printf 'Password: '; read answer; echo \"got $answer\"")
    };
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    until(&house, environment, &start, |seen| seen.end == "Password: ".len() as u64).await;
    assert_eq!(house.text(environment, start.process, None).await, "Password: ");
    let stdin = Call::Stdin { process: start.process, warrant: None, offset: 0, end: false };
    house.stewards.call(environment, stdin, b"x\n").await.unwrap();
    house.until_over(environment, start.process).await;
    assert_eq!(house.text(environment, start.process, None).await, "Password: got x\n");
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn what_is_held_back_comes_before_the_end_and_no_byte_is_lost() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    // A beginning that is none, and then the end: of itself, by a signal, with a child that goes on, and of everything at once.
    let ends = knowing(&house, "printf %.20s \"$TOKEN\"");
    house.stewards.start(&blueprint, &ends).await.unwrap();
    assert_eq!(house.until_over(environment, ends.process).await.end, 20);
    assert_eq!(house.text(environment, ends.process, None).await, VALUE[..20]);
    let killed = knowing(&house, "printf %.20s \"$TOKEN\"; touch said; kill -9 $$");
    house.stewards.start(&blueprint, &killed).await.unwrap();
    assert_eq!(house.until_over(environment, killed.process).await.end, 20);
    // Half of it by who ends, the rest by who stays.
    let split = knowing(&house, "(while [ ! -e go ]; do sleep 0.02; done; printf %s \"${TOKEN#??????????}\") & printf %.10s \"$TOKEN\"");
    house.stewards.start(&blueprint, &split).await.unwrap();
    assert_eq!(house.until_over(environment, split.process).await.end, 0);
    std::fs::write(house.data.join("workspace/go"), "").unwrap();
    until(&house, environment, &split, |seen| seen.closed).await;
    assert_eq!(house.text(environment, split.process, None).await, "***TOKEN***");
    for at_once in [true, false] {
        let _ = std::fs::remove_file(house.data.join("workspace/said"));
        let asleep = knowing(&house, "trap '' TERM; printf %.20s \"$TOKEN\"; touch said; exec sleep 60");
        house.stewards.start(&blueprint, &asleep).await.unwrap();
        while !house.data.join("workspace/said").exists() {
            tokio::task::yield_now().await;
        }
        if at_once {
            house.stewards.sleep(environment, true).await.unwrap();
        } else {
            let warrant = Warrant { fence: 7, lease: None };
            house.stewards.barrier(environment, warrant, true, std::time::Duration::from_secs(20)).await.unwrap();
        }
        let seen = house.until_over(environment, asleep.process).await;
        let cause = if at_once { ExitCause::Signaled } else { ExitCause::Fenced };
        assert_eq!((seen.end, seen.exit.unwrap().cause), (20, cause));
        assert_eq!(house.text(environment, asleep.process, None).await, VALUE[..20]);
    }
    assert!(!holds(&house.data, VALUE));
}

#[tokio::test]
async fn whoever_was_started_before_is_cleared_too_and_what_was_known_stays_known() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let early = Start { stdin_open: true, ..house.start("while read -r line; do printf '%s\\n' \"$line\"; done") };
    house.stewards.start(&blueprint, &early).await.unwrap();
    let mut said = 0;
    say(&house, environment, &early, &mut said, b"hello\n").await;
    until(&house, environment, &early, |seen| seen.end == 6).await;
    for (value, name) in [(VALUE, "TOKEN"), (OTHER, "ROTATED")] {
        let secrets = Some(Box::new(Secrets { known: vec![known(name, value)], ..Secrets::default() }));
        let learned = Start { secrets, ..house.start("true") };
        house.stewards.start(&blueprint, &learned).await.unwrap();
        house.until_over(environment, learned.process).await;
    }
    // Secrets that are gone are not forgotten either.
    let without = Start { secrets: Some(Box::default()), ..house.start("true") };
    house.stewards.start(&blueprint, &without).await.unwrap();
    say(&house, environment, &early, &mut said, format!("{VALUE} {OTHER}\n").as_bytes()).await;
    let whole = "hello\n***TOKEN*** ***ROTATED***\n";
    until(&house, environment, &early, |seen| seen.end >= whole.len() as u64).await;
    assert_eq!(house.text(environment, early.process, None).await, whole);
    assert!(!holds(&house.data, VALUE) && !holds(&house.data, OTHER));
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn much_output_comes_through_as_it_is_but_for_the_values() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let script = "import os, sys\nvalue = os.environ['TOKEN']\nfor at in range(60000):\n \
                  sys.stdout.write(f'{at:08} ' + (value if at % 3 == 0 else value[:at % len(value)]) + '|')";
    let mut start = knowing(&house, "");
    start.argv = ["python3", "-c", script].map(str::to_owned).to_vec();
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    house.until_over(environment, start.process).await;
    let said = (0..60000).map(|at| format!("{at:08} {}|", if at % 3 == 0 { "***TOKEN***" } else { &VALUE[..at % VALUE.len()] }));
    let seen = until(&house, environment, &start, |seen| seen.closed).await;
    let said: String = said.collect();
    assert_eq!(seen.end, said.len() as u64, "offsets count what is stored");
    assert!(house.text(environment, start.process, None).await == said);
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn a_refusal_tells_no_value_and_more_than_can_be_known_is_refused() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let missing = Start { argv: vec![VALUE.to_owned()], ..knowing(&house, "") };
    let refused = house.stewards.start(&blueprint, &missing).await.unwrap_err();
    assert!(matches!(refused, Trouble::Refused(Refusal::Program { missing: true, .. })) && !format!("{refused:?}").contains("horse"));
    assert!(!format!("{missing:?}").contains("horse"), "{missing:?}");
    let many = (0..20).map(|at| known("BIG", &format!("{at}").repeat(64 << 10)[..64 << 10])).collect();
    let big = Start { secrets: Some(Box::new(Secrets { known: many, ..Secrets::default() })), ..house.start("true") };
    assert!(matches!(house.stewards.start(&blueprint, &big).await, Err(Trouble::Refused(_))));
    assert_eq!(house.stewards.progress(environment, big.process).await.unwrap(), None);
    house.stewards.sleep(environment, true).await.unwrap();
}

fn with_files(house: &House, files: &[(&str, &str)], script: &str) -> Start {
    let file = |(name, value): &(&str, &str)| SecretFile { name: (*name).to_owned(), bytes: Value::new(value.as_bytes().to_vec()) };
    let known = files.iter().map(|(name, value)| known(name, value)).collect();
    let secrets = Secrets { files: files.iter().map(file).collect(), known, broker: None };
    Start { secrets: Some(Box::new(secrets)), ..house.start(&format!("cd {DIRECTORY}; {script}")) }
}

#[tokio::test]
async fn files_are_there_before_a_program_begins_and_follow_what_the_next_start_brings() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let said = async |start: Start| {
        house.stewards.start(&blueprint, &start).await.unwrap();
        house.until_over(environment, start.process).await;
        until(&house, environment, &start, |seen| seen.closed).await;
        house.text(environment, start.process, None).await
    };
    let look = "ls -A; for name in *; do [ -e \"$name\" ] && stat -c %a \"$name\" && cat \"$name\" | rev; done";
    let backwards = |value: &str| value.chars().rev().collect::<String>();
    let first = said(with_files(&house, &[("A", VALUE), ("B", OTHER)], look)).await;
    assert_eq!(first, format!("A\nB\n400\n{}400\n{}", backwards(VALUE), backwards(OTHER)));
    assert_eq!(said(with_files(&house, &[("A", VALUE)], "cat A")).await, "***A***");
    // One that is open stays what it was; the name is another file at once.
    let holds_it = Start { stdin_open: true, ..with_files(&house, &[("A", VALUE)], "exec 3< A; echo open; read go; rev <&3; echo; rev A") };
    house.stewards.start(&blueprint, &holds_it).await.unwrap();
    until(&house, environment, &holds_it, |seen| seen.end >= 5).await;
    assert_eq!(said(with_files(&house, &[("A", OTHER)], look)).await, format!("A\n400\n{}", backwards(OTHER)));
    say(&house, environment, &holds_it, &mut 0, b"go\n").await;
    until(&house, environment, &holds_it, |seen| seen.closed).await;
    let both = format!("open\n{}\n{}", backwards(VALUE), backwards(OTHER));
    assert_eq!(house.text(environment, holds_it.process, None).await, both);
    // What is bound no more is gone, also when nothing is bound at all.
    assert_eq!(said(house.start(&format!("ls -A {DIRECTORY}; echo none"))).await, "none\n");
    assert!(!holds(&house.data, VALUE) && !holds(&house.data, OTHER));
    house.stewards.sleep(environment, true).await.unwrap();
    assert_eq!(said(house.start(&format!("ls -A {DIRECTORY}; echo none"))).await, "none\n");
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn whoever_reads_files_from_outside_is_shown_no_secret() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let mut start = with_files(&house, &[("A", VALUE)], "ln -s /run/stead-secrets /workspace/link; echo $$; exec sleep 60");
    start.env = vec![("TOKEN".to_owned(), VALUE.to_owned())];
    house.stewards.start(&blueprint, &start).await.unwrap();
    until(&house, environment, &start, |seen| seen.end > 0).await;
    let pid = house.text(environment, start.process, None).await.trim().to_owned();
    let read = |path: &str| FileOrder::Read { path: path_of(path), offset: 0, length: None };
    let ways = [format!("{DIRECTORY}/A"), "link/A".to_owned(), format!("/proc/{pid}/root{DIRECTORY}/A")];
    for way in ways.iter().cloned().chain(["environ", "mem", "cmdline"].map(|name| format!("/proc/{pid}/{name}"))) {
        assert_eq!(errand(&house, &blueprint, read(&way), None).await.unwrap_err(), FileProblem::Denied, "{way}");
        let copy = FileOrder::Copy { from: path_of(&way), to: path_of("copied"), overwrite: true };
        assert_eq!(errand(&house, &blueprint, copy, None).await.unwrap_err(), FileProblem::Denied, "{way}");
    }
    for way in &ways {
        assert_eq!(errand(&house, &blueprint, FileOrder::Pack { path: path_of(way) }, None).await.unwrap_err(), FileProblem::Denied);
    }
    for whole in ["/run", DIRECTORY, "."] {
        let packed = errand(&house, &blueprint, FileOrder::Pack { path: path_of(whole) }, None).await;
        assert!(packed.is_err() || !packed.unwrap().bytes.windows(VALUE.len()).any(|part| part == VALUE.as_bytes()), "{whole}");
    }
    let version = errand(&house, &blueprint, read("/proc/version"), None).await.unwrap();
    assert!(version.bytes.starts_with(b"Linux"), "what tells of no process is read");
    house.stewards.sleep(environment, true).await.unwrap();
    assert!(!holds(&house.data, VALUE));
}
