//! One round: create, run something, sleep, destroy. What has no answer is asked again under the same key; what was answered is written down.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use stead_domain::ids::EnvironmentId;

use super::super::{Dice, ENVIRONMENTS, eventually, text};
use super::Town;
use crate::support::{Http, Reply};

/// What was acknowledged.
#[derive(Default)]
pub struct Ledger {
    environments: BTreeSet<EnvironmentId>,
    /// Path of a process, and how it ended.
    processes: Vec<(String, Value)>,
    ends: BTreeMap<String, usize>,
    /// What requests were refused with because somebody had just been killed.
    refusals: BTreeMap<String, usize>,
}

impl Ledger {
    pub fn short_ids(&self) -> BTreeSet<String> {
        self.environments.iter().map(EnvironmentId::short).collect()
    }

    /// Everything is still as it was told.
    pub fn check(&self, http: &Http) {
        for (path, exit) in &self.processes {
            assert_eq!(http.get(path).json()["exit"], *exit, "{path} ended in another way before");
        }
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { environments, processes, ends, refusals } = self;
        write!(formatter, "{} environments, {} processes, ends {ends:?}, refused {refusals:?}", environments.len(), processes.len())
    }
}

/// Whether this machine makes places at all; said where it does not.
#[expect(clippy::print_stderr, reason = "what was not run must be seen")]
pub fn can_run(http: &Http) -> bool {
    let made = http.post(ENVIRONMENTS, json!({"name": "probe", "allow_unenforced": true}));
    let path = format!("{ENVIRONMENTS}/{}", text(&made.json(), "id"));
    let woken = http.post(&format!("{path}/wake"), json!({}));
    http.delete(&path);
    if woken.status != 200 {
        eprintln!("NOT RUN: this machine makes no places: {}", String::from_utf8_lossy(&woken.body));
    }
    woken.status == 200
}

/// Does something while an environment with a way out is awake; it is told whether that one is bounded.
pub fn while_one_is_awake(town: &Town, work: impl FnOnce(bool)) {
    let mut sandbox = json!({"network_access": "allowlist", "allowed_hosts": ["localhost:9"], "resources": {"pids": 100}});
    let create = |sandbox: &Value| town.http().post(ENVIRONMENTS, json!({"name": "awake", "spec": {"sandbox": sandbox}}));
    let mut made = create(&sandbox);
    let is_bounded = made.status == 201;
    if !is_bounded {
        // This host bounds no groups of processes.
        sandbox["resources"] = Value::Null;
        made = create(&sandbox);
    }
    let id: EnvironmentId = text(&made.json(), "id").parse().unwrap();
    town.ledger.lock().unwrap().environments.insert(id);
    let path = format!("{ENVIRONMENTS}/{id}");
    assert_eq!(town.http().post(&format!("{path}/wake"), json!({})).status, 200);
    work(is_bounded);
    assert_eq!(town.http().delete(&path).status, 200);
}

impl Town {
    /// Asks until there is an answer: without one, under the same key; refused, under the next one, because then nothing came of it.
    fn ask(&self, method: &str, path: &str, key: &str, body: &Value) -> Reply {
        let body = body.to_string();
        let mut attempt = 0;
        eventually(&format!("{method} {path} is answered"), || {
            let key = format!("{key}-{attempt}");
            let headers = [("Idempotency-Key", key.as_str())];
            let headers = if method == "POST" { &headers[..] } else { &[] };
            let reply = self.http().try_send(method, path, headers, Some(body.as_bytes()).filter(|_| method == "POST")).ok()?;
            if reply.status < 300 {
                self.steps.fetch_add(1, Ordering::SeqCst);
                return Some(reply);
            }
            let code = reply.code();
            assert!(reply.status >= 500 || code == "posture_not_enforced" || code == "conflict", "{method} {path}: {}", reply.json());
            *self.ledger.lock().unwrap().refusals.entry(format!("{} {code}", method.to_lowercase())).or_default() += 1;
            attempt += 1;
            None
        })
    }
}

impl Town {
    /// All that a process has said.
    fn output(&self, process: &str) -> Vec<u8> {
        eventually("its output", || {
            let reply = self.http().try_send("GET", &format!("{process}/logs?limit=8000000"), &[], None).ok()?;
            (reply.status == 200).then_some(reply.body)
        })
    }
}

pub fn round(town: &Town, round: usize, dice: &mut Dice) {
    let name = format!("round-{round}");
    let network = if dice.roll(3) == 0 {
        json!({"network_access": "allowlist", "allowed_hosts": ["localhost:9"]})
    } else {
        json!({"network_access": "disabled"})
    };
    let mut sandbox = network;
    if dice.roll(2) == 0 {
        sandbox["resources"] = json!({"pids": 100});
    }
    let made = town.ask("POST", ENVIRONMENTS, &name, &json!({"name": name, "spec": {"sandbox": sandbox}, "allow_unenforced": true})).json();
    let id: EnvironmentId = text(&made, "id").parse().unwrap();
    town.ledger.lock().unwrap().environments.insert(id);
    let path = format!("{ENVIRONMENTS}/{id}");
    let workspace = town.path().join("sandboxes").join(text(&made, "sandbox_id")).join("workspace");
    assert!(workspace.is_dir(), "`{name}` was acknowledged");

    let mut told = Vec::new();
    for command in 0..=dice.roll(2) {
        let mark = format!("{name}-{command}");
        told.push(run(town, &path, &mark, dice));
        if dice.roll(2) == 0 {
            town.ask("POST", &format!("{path}/sleep"), &format!("{name}-sleep-{command}"), &json!({"force": true}));
            assert!(!town.path().join("run").join(id.short()).exists(), "`{name}` is said to be asleep");
        }
    }
    // Each was asked for under one key at a time, so none began twice, and what ended well did begin.
    let begun = std::fs::read_to_string(workspace.join("begun")).unwrap_or_default();
    let mut seen = BTreeSet::new();
    for line in begun.lines() {
        assert!(seen.insert(line), "{line} began twice: {begun}");
    }

    // Whoever was killed meanwhile, every byte is where it was.
    for (process, output) in told {
        assert!(town.output(&process) == output, "the output of {process} is not what it was");
    }
    let gone = town.ask("DELETE", &path, "", &Value::Null).json();
    if text(&gone, "status") != "destroyed" {
        eventually("it is destroyed", || {
            let reply = town.http().try_send("GET", &path, &[], None).ok()?;
            (text(&reply.json(), "status") == "destroyed").then_some(())
        });
    }
    assert!(!workspace.exists(), "`{name}` is said to be destroyed");
}

/// Runs a program that says a known text, reads while it runs, and compares.
fn run(town: &Town, path: &str, mark: &str, dice: &mut Dice) -> (String, Vec<u8>) {
    let lines = 20 + dice.roll(300);
    let pause = dice.roll(40);
    // `STEAD_PROCESS` is the process's own id: a second request is another process, and may begin.
    let script = format!(
        "echo $STEAD_PROCESS >> begun; i=0; while [ $i -lt {lines} ]; do echo {mark} $i; i=$((i+1)); [ $((i % 64)) = 0 ] && sleep 0.0{pause:02}; done; exit 7"
    );
    let expected: String = (0..lines).map(|line| format!("{mark} {line}\n")).collect();
    let started = town.ask("POST", &format!("{path}/processes"), mark, &json!({"argv": ["sh", "-c", script]})).json();
    let process = format!("{path}/processes/{}", text(&started, "id"));
    let mut read = Vec::new();
    let record = eventually("it is over", || {
        let record = town.http().try_send("GET", &process, &[], None).ok()?;
        // There it is, and stays: it was acknowledged.
        if record.status >= 500 {
            return None;
        }
        assert_eq!(record.status, 200, "{process}: {}", record.json());
        let output =
            town.http().try_send("GET", &format!("{process}/logs?limit=8000000"), &[], None).ok().filter(|reply| reply.status < 500)?;
        assert_eq!(output.status, 200, "{process}: {}", String::from_utf8_lossy(&output.body));
        assert!(output.body.starts_with(&read), "{mark}: what was read is no longer there: {} of {}", output.body.len(), read.len());
        assert!(expected.as_bytes().starts_with(&output.body), "{mark} never said {:?}", String::from_utf8_lossy(&output.body));
        read = output.body;
        (record.json()["status"] == "exited").then(|| record.json())
    });
    // What it said after its end was told of, and before we looked.
    let output = town.output(&process);
    assert!(output.starts_with(&read) && expected.as_bytes().starts_with(&output), "{mark}");
    let cause = text(&record["exit"], "cause");
    if cause == "exited" {
        assert_eq!(record["exit"]["code"], 7, "{record}");
        assert_eq!(output.len(), expected.len(), "{mark} ended well, and not all of it is there");
    } else {
        assert!(matches!(cause, "lost" | "signaled"), "{record}");
    }
    let mut ledger = town.ledger.lock().unwrap();
    *ledger.ends.entry(cause.to_owned()).or_default() += 1;
    ledger.processes.push((process.clone(), record["exit"].clone()));
    (process, output)
}
