//! What acquire, renew, release and break answered, all at once and in any order, is what one lock could have answered in some order: searched
//! for, not looked at.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use stead_testing::PrivatePostgres;

use super::{ACQUIRE, LEASES, Scene};
use crate::api::world::{at_once, text};
use crate::support::{Http, Server};

const CLIENTS: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Granted under this fence, or refused because somebody else holds it.
    Acquire(Option<u64>),
    /// Of this fence; whether it is still held.
    Renew(u64, bool),
    Release(u64),
    Break(u64),
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    call: Call,
    begun: Instant,
    ended: Instant,
}

/// What one lock knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Lock {
    holder: Option<u64>,
    last: u64,
}

impl Lock {
    /// What it is afterwards; none when it would have answered something else.
    fn after(self, call: Call) -> Option<Self> {
        match call {
            Call::Acquire(Some(fence)) if self.holder.is_none() && fence > self.last => Some(Self { holder: Some(fence), last: fence }),
            Call::Acquire(Some(_)) => None,
            Call::Acquire(None) => self.holder.map(|_| self),
            Call::Renew(fence, held) => ((self.holder == Some(fence)) == held).then_some(self),
            Call::Release(fence) | Call::Break(fence) if self.holder == Some(fence) => Some(Self { holder: None, ..self }),
            Call::Release(_) | Call::Break(_) => Some(self),
        }
    }
}

/// Searches for an order that one lock could have had, in which whoever ended before another began comes first.
fn is_linear(history: &[Operation]) -> bool {
    let mut seen: HashSet<(Vec<u64>, Lock)> = HashSet::new();
    let words = history.len().div_ceil(64);
    let mut open = vec![(vec![0u64; words], Lock::default())];
    while let Some((done, lock)) = open.pop() {
        let left: Vec<usize> = (0..history.len()).filter(|at| done[at / 64] >> (at % 64) & 1 == 0).collect();
        let Some(first_end) = left.iter().map(|at| history[*at].ended).min() else { return true };
        for at in left.into_iter().filter(|at| history[*at].begun <= first_end) {
            if let Some(after) = lock.after(history[at].call) {
                let mut done = done.clone();
                done[at / 64] |= 1 << (at % 64);
                if seen.insert((done.clone(), after)) {
                    open.push((done, after));
                }
            }
        }
    }
    false
}

fn timed(history: &mut Vec<Operation>, work: impl FnOnce() -> Call) -> Call {
    let begun = Instant::now();
    let call = work();
    history.push(Operation { call, begun, ended: Instant::now() });
    call
}

/// One client's share: random calls with leases of its own, each through one of the servers.
fn live(scene: &Scene, servers: &[Http], seed: u64, calls: usize) -> Vec<Operation> {
    let mut random = seed;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut history = Vec::new();
    let mut leases: Vec<Value> = Vec::new();
    for _ in 0..calls {
        let http = &servers[next(servers.len() as u64) as usize];
        let lease = leases.last().cloned();
        let act = |verb: &str, lease: &Value, body: Value| {
            let path = format!("{LEASES}/{}/{verb}", text(lease, "id"));
            http.send("POST", &path, &[("Stead-Lease", &text(lease, "token"))], Some(body.to_string().as_bytes()))
        };
        match (next(10), lease) {
            (0..=4, _) | (_, None) => {
                timed(&mut history, || {
                    let reply = http.post(ACQUIRE, scene.asked(json!({ "bind": "token", "lease_ttl": "1h" })));
                    match (reply.status, reply.code_or_empty().as_str()) {
                        (200, _) => {
                            let lease = reply.json()["lease"].clone();
                            let fence = lease["fence"].as_u64().unwrap();
                            leases.push(lease);
                            Call::Acquire(Some(fence))
                        }
                        (409, "lease_held") => Call::Acquire(None),
                        _ => panic!("{}", String::from_utf8_lossy(&reply.body)),
                    }
                });
            }
            (5..=6, Some(lease)) => {
                let fence = lease["fence"].as_u64().unwrap();
                timed(&mut history, || match act("renew", &lease, json!({})) {
                    reply if reply.status == 200 => Call::Renew(fence, true),
                    reply if reply.status == 410 => Call::Renew(fence, false),
                    reply => panic!("{}", String::from_utf8_lossy(&reply.body)),
                });
            }
            (verb, Some(lease)) => {
                let fence = lease["fence"].as_u64().unwrap();
                timed(&mut history, || {
                    let (reply, call) = match verb {
                        7..=8 => (act("release", &lease, json!({})), Call::Release(fence)),
                        _ => {
                            let path = format!("{LEASES}/{}/break", text(&lease, "id"));
                            (http_as_owner(scene, http).post(&path, json!({ "reason": "by chance" })), Call::Break(fence))
                        }
                    };
                    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
                    call
                });
            }
        }
    }
    history
}

/// The owner at the server that this client talks to.
fn http_as_owner(scene: &Scene, at: &Http) -> Http {
    scene.owner.at(at.address())
}

fn check(scene: &Scene, servers: &[Http], name: &str) {
    let rounds = if std::env::var_os("STEAD_PROVE").is_some() { 40 } else { 2 };
    let seed = std::env::var("STEAD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    static ROUND: AtomicU64 = AtomicU64::new(0);
    for _ in 0..rounds {
        let round = ROUND.fetch_add(1, Ordering::Relaxed) + seed;
        let environment = text(&crate::api::world::create(&scene.owner, json!({ "spec": { "lease": { "lock_delay": "0s" } } })), "id");
        let scene = Scene { owner: scene.owner.clone(), ann: scene.ann.clone(), ben: scene.ben.clone(), environment };
        let histories = at_once(CLIENTS, |client| live(&scene, servers, round * 1000 + client as u64, 12));
        let mut history: Vec<Operation> = histories.into_iter().flatten().collect();
        history.sort_by_key(|operation| operation.begun);
        assert!(history.iter().any(|operation| matches!(operation.call, Call::Acquire(Some(_)))), "{name}: nobody ever held it");
        assert!(is_linear(&history), "{name}, seed {round}: no lock answers like this: {history:#?}");
    }
}

#[test]
fn what_leases_answer_is_linear_on_sqlite() {
    let server = Server::start();
    let scene = Scene::new(&server, json!({}));
    check(&scene, std::slice::from_ref(&scene.ann), "SQLite");
}

#[test]
fn what_leases_answer_is_linear_on_postgresql_through_two_servers() {
    let postgres = PrivatePostgres::start();
    let url = postgres.url();
    let first = Server::builder().with(&["--database", &url]).start();
    let second = Server::builder().with(&["--database", &url]).start();
    let scene = Scene::new(&first, json!({}));
    check(&scene, &[scene.ann.clone(), scene.ann.at(&second.address)], "PostgreSQL");
}

/// The search finds what no lock would have answered.
#[test]
fn a_history_that_no_lock_has_is_found() {
    let start = Instant::now();
    let at = |call, begun: u64, ended: u64| Operation {
        call,
        begun: start + std::time::Duration::from_millis(begun),
        ended: start + std::time::Duration::from_millis(ended),
    };
    let good = [
        at(Call::Acquire(Some(1)), 0, 10),
        at(Call::Acquire(None), 5, 12),
        at(Call::Release(1), 20, 30),
        at(Call::Acquire(Some(2)), 25, 40),
        at(Call::Renew(1, false), 50, 60),
    ];
    assert!(is_linear(&good));
    for wrong in [
        vec![at(Call::Acquire(Some(1)), 0, 10), at(Call::Acquire(Some(2)), 20, 30)],
        vec![at(Call::Acquire(Some(2)), 0, 10), at(Call::Release(2), 11, 12), at(Call::Acquire(Some(2)), 20, 30)],
        vec![at(Call::Acquire(Some(1)), 0, 10), at(Call::Release(1), 11, 12), at(Call::Renew(1, true), 20, 30)],
        vec![at(Call::Acquire(None), 0, 10)],
        vec![at(Call::Acquire(Some(1)), 0, 10), at(Call::Renew(1, false), 20, 30)],
    ] {
        assert!(!is_linear(&wrong), "{wrong:?}");
    }
}
