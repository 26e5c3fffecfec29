//! Environments that are made, used, put to sleep and destroyed while every part of Stead is killed at random moments: nothing is lost that
//! was acknowledged, nothing happens twice, and nothing is left over.

mod left;
mod victims;
mod work;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use tempfile::TempDir;

use self::left::Leftovers;
use self::victims::{Kind, victim};
use self::work::Ledger;
use super::{Dice, eventually, proving, settled, text};
use crate::support::{Http, Server, beside};

const WORKERS: usize = 4;

/// What workers and the killer share: the server that is there now.
pub struct Town {
    directory: Arc<TempDir>,
    server: Mutex<Option<Server>>,
    http: RwLock<Http>,
    pub ledger: Mutex<Ledger>,
    /// What was asked for and done.
    pub steps: AtomicUsize,
    /// How often each kind was killed.
    kills: Mutex<BTreeMap<Kind, usize>>,
    rounds: AtomicUsize,
    over: AtomicBool,
}

impl Town {
    fn start(directory: &Arc<TempDir>) -> Server {
        Server::builder().on(Arc::clone(directory)).with(&["--rate-limit", "0", "--egress-allow", "localhost"]).start()
    }

    fn open() -> Self {
        let directory = Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
        let server = Self::start(&directory);
        Self {
            http: RwLock::new(server.http()),
            directory,
            server: Mutex::new(Some(server)),
            ledger: Mutex::default(),
            steps: AtomicUsize::new(0),
            kills: Mutex::default(),
            rounds: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        }
    }

    pub fn path(&self) -> &std::path::Path {
        self.directory.path()
    }

    pub fn http(&self) -> Http {
        self.http.read().unwrap().clone()
    }

    /// Another server on the same directory.
    fn restart(&self) {
        let mut server = self.server.lock().unwrap();
        server.as_mut().unwrap().kill();
        let next = Self::start(&self.directory);
        *self.http.write().unwrap() = next.http();
        *server = Some(next);
    }

    /// Kills somebody after every few steps, a moment into the next ones, until the work is done. On a slow machine everything takes longer,
    /// and this too: who is killed again and again before it is there gets nothing done.
    fn haunt(&self, seed: u64) {
        let mut dice = Dice(seed);
        while !self.over.load(Ordering::SeqCst) {
            let until = self.steps.load(Ordering::SeqCst) + dice.roll(6) as usize;
            while self.steps.load(Ordering::SeqCst) < until && !self.over.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_micros(dice.roll(30_000)));
            let kind = Kind::ALL[dice.roll(Kind::ALL.len() as u64) as usize];
            let killed = match kind {
                // It takes the longest to come back, and what it does meanwhile is what the others are killed in.
                Kind::Server if dice.roll(3) > 0 => false,
                Kind::Server => {
                    self.restart();
                    true
                }
                _ => {
                    let server = self.server.lock().unwrap().as_ref().unwrap().pid();
                    victim(self.path(), server, kind, dice.roll(1 << 16)).is_some_and(victims::kill)
                }
            };
            if killed {
                *self.kills.lock().unwrap().entry(kind).or_default() += 1;
            }
        }
    }
}

#[test]
fn whoever_is_killed_and_whenever_what_was_acknowledged_stays_and_nothing_else() {
    let (rounds, seed) = if proving() { (2000, 5) } else { (150, 4) };
    let town = Town::open();
    if !work::can_run(&town.http()) {
        return;
    }
    let before = Leftovers::of(&town);
    work::while_one_is_awake(&town, |is_bounded| Leftovers::of(&town).assert_sees(&before, is_bounded));
    eventually("it is gone again", || (Leftovers::of(&town) == before).then_some(()));
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| town.haunt(seed));
        let town = &town;
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                scope.spawn(move || {
                    let mut dice = Dice(seed * 1000 + worker as u64);
                    loop {
                        let round = town.rounds.fetch_add(1, Ordering::SeqCst);
                        if round >= rounds {
                            return;
                        }
                        work::round(town, round, &mut dice);
                    }
                })
            })
            .collect();
        let ends: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        town.over.store(true, Ordering::SeqCst);
        killer.join().unwrap();
        // The first that failed says what is wrong.
        ends.into_iter().for_each(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    });
    let took = began.elapsed();

    // A last one finds everything as it was told, byte for byte.
    town.restart();
    let http = town.http();
    for record in settled(&http).iter().filter(|record| text(record, "name") != "local-default") {
        assert_eq!(text(record, "status"), "destroyed", "{record}");
    }
    town.ledger.lock().unwrap().check(&http);
    eprintln!("{rounds} rounds in {took:?}: killed {:?}; {}", town.kills.lock().unwrap(), town.ledger.lock().unwrap());
    let after = eventually("everything is back to where it was", || {
        let after = Leftovers::of(&town);
        if after != before {
            eprintln!("still there: {after:?} instead of {before:?}");
            std::thread::sleep(Duration::from_millis(500));
        }
        (after == before).then_some(after)
    });
    eprintln!("left over: nothing; there are {after:?}");
    let server = town.server.lock().unwrap().take();
    assert_eq!(server.unwrap().terminate(), Some(0));
    let directory = town.path();
    beside::retire_relay(directory);
    eventually("nobody is left", || victims::all(directory).is_empty().then_some(()));
}
