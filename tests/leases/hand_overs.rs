//! Real holders, a real server and real stewards, with everything that goes wrong: whoever holds the environment writes its fence into the
//! workspace, again and again. A checker then reads what was written: no byte of an older fence lies behind where the file ended when a later
//! holder was told that it holds.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ACQUIRE, LEASES, Scene, TICKETS};
use crate::api::world::text;
use crate::support::{Http, Reply, Server, beside};

const HOLDERS: u64 = 8;

/// Writes the fence and a number, from a process that has left its parent and ignores what it is told.
const WRITER: &str = r#"
    trap '' TERM HUP INT
    number=0
    while :; do number=$((number + 1)); echo "$0 $number" >> /workspace/log; sleep 0.004; done
"#;

/// The same, left behind by a command that is over.
const DAEMON: &str = r#"setsid sh -c "$1" "$0" >/dev/null 2>&1 & "#;

/// Somebody was told that it holds the environment, when the file was so long.
#[derive(Clone, Copy, Debug)]
struct Told {
    fence: u64,
    length: u64,
}

struct World {
    environment: String,
    log: PathBuf,
    keys: Http,
    /// Where the server is at the moment; it comes and goes.
    address: RwLock<String>,
    told: Mutex<Vec<Told>>,
    done: AtomicBool,
    hand_overs: AtomicU64,
    goal: u64,
}

/// Numbers by chance that a seed brings back.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

impl World {
    fn http(&self) -> Http {
        self.keys.at(&self.address.read().unwrap())
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/projects/default/environments/{}{rest}", self.environment)
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    /// Sends until there is an answer: a server that is killed answers nothing.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Option<Reply> {
        let text = body.map(Value::to_string);
        while !self.is_done() {
            if let Ok(reply) = self.http().try_send(method, path, headers, text.as_ref().map(|text| text.as_bytes()))
                && reply.status != 503
            {
                return Some(reply);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// Waits for a lease; none when the time is over or the world is.
    fn acquire(&self, key: &str, ttl: &str) -> Option<Value> {
        let body = json!({ "environment_id": self.environment, "bind": "token", "lease_ttl": ttl, "wait": "60s" });
        let mut reply = self.send("POST", ACQUIRE, &[("Idempotency-Key", key)], Some(&body))?;
        while reply.status == 202 {
            let ticket = text(&reply.json()["ticket"], "id");
            reply = self.send("GET", &format!("{TICKETS}/{ticket}?wait=5s"), &[], None)?;
            if reply.status == 202 && reply.json()["ticket"]["status"] != "waiting" && reply.json()["ticket"]["status"] != "granted" {
                return None;
            }
        }
        (reply.status == 200).then(|| reply.json()["lease"].clone())
    }

    /// One who holds it and writes, and then behaves well or badly.
    fn hold(&self, chance: &mut Chance, holder: u64, turn: u64) {
        let ttl = ["1s", "2s"][chance.below(2) as usize];
        let Some(lease) = self.acquire(&format!("{holder}-{turn}"), ttl) else { return };
        let length = std::fs::metadata(&self.log).map_or(0, |file| file.len());
        let fence = lease["fence"].as_u64().unwrap();
        self.told.lock().unwrap().push(Told { fence, length });
        if self.hand_overs.fetch_add(1, Ordering::Relaxed) + 1 >= self.goal {
            self.done.store(true, Ordering::Relaxed);
        }
        let token = text(&lease, "token");
        let presented = [("Stead-Lease", token.as_str())];
        let fence = fence.to_string();
        let argv = match chance.below(2) {
            0 => json!(["sh", "-c", WRITER, fence]),
            _ => json!(["sh", "-c", DAEMON, fence, WRITER]),
        };
        // May be refused: it may be over already.
        if self.send("POST", &self.path("/processes"), &presented, Some(&json!({ "argv": argv }))).is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5 + chance.below(60)));
        let id = text(&lease, "id");
        match chance.below(4) {
            // Says nothing any more, and comes back too late with everything that it can do.
            0 => {
                std::thread::sleep(Duration::from_millis(1200));
                let late = json!({ "command": ["sh", "-c", "echo \"$0 late\" >> log", fence] });
                let _ = self.send("POST", &self.path("/exec"), &presented, Some(&late));
                let _ = self.send("POST", &format!("{LEASES}/{id}/renew"), &presented, Some(&json!({})));
            }
            1 => {
                let _ = self.send("POST", &format!("{LEASES}/{id}/renew"), &presented, Some(&json!({})));
                let _ = self.send("POST", &format!("{LEASES}/{id}/release"), &presented, Some(&json!({})));
            }
            _ => {
                let _ = self.send("POST", &format!("{LEASES}/{id}/release"), &presented, Some(&json!({})));
            }
        }
    }
}

/// The machine's clock as this server sees it has gone on by so many seconds.
pub fn jumped(seconds: u64) -> Vec<String> {
    ["unshare", "--time", "--boottime", &seconds.to_string(), "--fork", "--kill-child"].map(str::to_owned).to_vec()
}

pub fn can_jump() -> bool {
    let mut command = std::process::Command::new("unshare");
    command.args(["--time", "--boottime", "5", "--fork", "true"]).process_group(0);
    command.output().is_ok_and(|output| output.status.success())
}

/// The one before dies a moment after what it was started through.
pub fn start_again(directory: &Arc<TempDir>, wrapper: &[String]) -> Server {
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    for _ in 0..200 {
        let builder = Server::builder().on(Arc::clone(directory));
        let builder = if wrapper.is_empty() { builder } else { builder.through(&wrapper) };
        match builder.try_start() {
            Ok(server) => return server,
            Err((_, said)) => assert!(said.contains("another server uses"), "{said}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the server that was killed is still there");
}

/// Kills and stops what it finds, until the others are done.
fn disturb(world: &World, mut server: Server, chance: &mut Chance) -> Server {
    let directory = server.directory();
    let jumps = can_jump();
    let mut ahead = 0;
    while !world.is_done() {
        std::thread::sleep(Duration::from_millis(300 + chance.below(900)));
        match chance.below(5) {
            0 | 1 => {
                server.kill();
                let wrapper = match jumps && chance.below(2) == 0 {
                    true => {
                        ahead += 1 + chance.below(600);
                        jumped(ahead)
                    }
                    false => Vec::new(),
                };
                server = start_again(&directory, &wrapper);
                *world.address.write().unwrap() = server.address.clone();
            }
            2 => {
                for steward in beside::stewards(directory.path()) {
                    let _ = kill_process(steward, Signal::KILL);
                }
            }
            3 => {
                let stewards = beside::stewards(directory.path());
                for steward in &stewards {
                    let _ = kill_process(*steward, Signal::STOP);
                }
                std::thread::sleep(Duration::from_millis(200));
                for steward in stewards {
                    let _ = kill_process(steward, Signal::CONT);
                }
            }
            _ => {}
        }
    }
    server
}

/// Every line that lies behind where somebody was told that it holds is of that one or of a later one.
fn check(log: &Path, told: &[Told]) {
    let bytes = std::fs::read(log).unwrap();
    let mut lines = Vec::new();
    let mut start = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = std::str::from_utf8(line).unwrap();
        let fence: u64 = text.split(' ').next().unwrap().trim().parse().unwrap_or_else(|_| panic!("not a fence: {text}"));
        lines.push((start, fence));
        start += line.len() as u64;
    }
    let mut fences: Vec<u64> = told.iter().map(|told| told.fence).collect();
    fences.sort_unstable();
    let count = fences.len();
    fences.dedup();
    assert_eq!(fences.len(), count, "a fence was given out twice");
    for Told { fence, length } in told {
        let late = lines.iter().find(|(at, of)| at >= length && of < fence);
        assert!(late.is_none(), "fence {fence} was told at {length}, and after that an older one wrote: {late:?}");
    }
    let written: std::collections::HashSet<u64> = lines.iter().map(|(_, fence)| *fence).collect();
    assert!(written.len() > told.len() / 4, "hardly anybody wrote: {} of {}", written.len(), told.len());
}

#[test]
fn no_byte_of_an_older_fence_comes_after_a_later_holder_was_told() {
    let goal = if std::env::var_os("STEAD_PROVE").is_some() { 2000 } else { 40 };
    let seed: u64 = std::env::var("STEAD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let server = Server::start();
    let scene = Scene::new(&server, json!({ "lease": { "lock_delay": "0s" } }));
    let sandbox = text(&scene.owner.get(&scene.path("")).json(), "sandbox_id");
    let world = Arc::new(World {
        environment: scene.environment,
        log: server.path().join("sandboxes").join(sandbox).join("workspace/log"),
        keys: scene.owner,
        address: RwLock::new(server.address.clone()),
        told: Mutex::default(),
        done: AtomicBool::new(false),
        hand_overs: AtomicU64::new(0),
        goal,
    });
    let server = std::thread::scope(|scope| {
        for holder in 0..HOLDERS {
            let world = Arc::clone(&world);
            scope.spawn(move || {
                let mut chance = Chance(seed * 100 + holder);
                for turn in 0.. {
                    if world.is_done() {
                        return;
                    }
                    world.hold(&mut chance, holder, turn);
                }
            });
        }
        let disturbed = scope.spawn(|| disturb(&world, server, &mut Chance(seed))).join();
        // Also when that failed: nobody goes on alone.
        world.done.store(true, Ordering::Relaxed);
        disturbed.unwrap()
    });
    // Whoever still runs has its chance to write where it must not.
    std::thread::sleep(Duration::from_millis(300));
    let told = world.told.lock().unwrap().clone();
    assert!(told.len() as u64 >= goal);
    check(&world.log, &told);
    drop(server);
}
