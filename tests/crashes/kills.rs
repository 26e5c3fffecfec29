//! `kill -9` at random points of many concurrent requests, again and again on one store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stead_testing::PrivatePostgres;
use tempfile::TempDir;

use super::{Dice, ENVIRONMENTS, all, assert_whole, create, eventually, proving, settled, text};
use crate::support::{Http, Reply, Server};

struct House {
    directory: Arc<TempDir>,
    database: Option<String>,
    dice: Dice,
}

impl House {
    fn start(&self) -> Server {
        let builder = Server::builder().on(Arc::clone(&self.directory)).with(&["--rate-limit", "0"]);
        match &self.database {
            Some(url) => builder.with(&["--database", url]).start(),
            None => builder.start(),
        }
    }

    /// Sends all requests at once and kills the server after so many replies as the dice say. Gives the replies that came.
    fn kill_amid<T, F>(&mut self, requests: Vec<T>, send: F) -> Vec<(T, Reply)>
    where
        T: Send + 'static,
        F: Fn(&Http, &T) -> std::io::Result<Reply> + Clone + Send + 'static,
    {
        let mut server = self.start();
        let http = server.http();
        let replies = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicUsize::new(0));
        let total = requests.len();
        let threads: Vec<_> = requests
            .into_iter()
            .map(|request| {
                let (http, send, replies, ended) = (http.clone(), send.clone(), Arc::clone(&replies), Arc::clone(&ended));
                let body = move || {
                    let reply = send(&http, &request);
                    if reply.is_ok() {
                        replies.fetch_add(1, Ordering::SeqCst);
                    }
                    ended.fetch_add(1, Ordering::SeqCst);
                    reply.ok().map(|reply| (request, reply))
                };
                std::thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap()
            })
            .collect();
        let after = self.dice.roll(total as u64) as usize;
        while replies.load(Ordering::SeqCst) < after && ended.load(Ordering::SeqCst) < total {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(self.dice.roll(5000)));
        server.kill();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    }
}

fn storm(database: Option<String>, seed: u64) {
    let directory = Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
    let mut house = House { directory, database, dice: Dice(seed) };
    let (rounds, creates) = if proving() { (20, 500) } else { (2, 150) };
    let mut kept: BTreeMap<String, String> = BTreeMap::new();
    // The first start is not what this is about.
    drop(house.start());
    for round in 0..rounds {
        let names: Vec<String> = (0..creates).map(|number| format!("r{round}-{number}")).collect();
        let answered = house.kill_amid(names.clone(), |http, name| create(http, name));
        let server = house.start();
        let http = server.http();
        let records = settled(&http);
        let live = assert_whole(&server, &records);
        for (name, reply) in &answered {
            assert_eq!(reply.status, 201, "{}", reply.json());
            let id = text(&reply.json(), "id").to_owned();
            assert_eq!(live.get(name), Some(&id), "`{name}` was acknowledged (seed {seed}, round {round})");
            kept.insert(name.clone(), id);
        }
        for (name, id) in &kept {
            assert_eq!(live.get(name), Some(id), "`{name}` was there before");
        }
        // Repeated with its key, each request has exactly one outcome, whatever became of the first attempt.
        for name in &names {
            let reply = create(&http, name).unwrap();
            assert_eq!(reply.status, 201, "{}", reply.json());
            let id = text(&reply.json(), "id").to_owned();
            let known = kept.entry(name.clone()).or_insert_with(|| id.clone());
            assert_eq!(*known, id, "`{name}` has two outcomes");
        }
        let live = assert_whole(&server, &all(&http));
        assert_eq!(live.len(), kept.len() + 1, "one for each name, and local-default");
        drop(server);

        // Half of what is there is deleted, with another crash in the middle.
        let doomed: Vec<(String, String)> = kept.iter().step_by(2).map(|(name, id)| (name.clone(), id.clone())).collect();
        let answered = house.kill_amid(doomed.clone(), |http, (_, id)| http.try_send("DELETE", &format!("{ENVIRONMENTS}/{id}"), &[], None));
        let server = house.start();
        let http = server.http();
        let records = settled(&http);
        let live = assert_whole(&server, &records);
        for ((name, _), reply) in &answered {
            assert_eq!(reply.status, 200, "{}", reply.json());
            assert_eq!(live.get(name), None, "`{name}` was deleted (seed {seed}, round {round})");
        }
        for (name, id) in &doomed {
            kept.remove(name);
            let reply = http.delete(&format!("{ENVIRONMENTS}/{id}"));
            assert_eq!((reply.status, text(&reply.json(), "status")), (200, "destroyed"));
        }
        assert_eq!(assert_whole(&server, &all(&http)).len(), kept.len() + 1);
        eventually("the trash is empty", || std::fs::read_dir(server.path().join("trash")).unwrap().next().is_none().then_some(()));
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_half_made_stays_on_sqlite() {
    storm(None, 1);
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_half_made_stays_on_postgres() {
    let postgres = PrivatePostgres::start();
    storm(Some(postgres.url()), 2);
}

/// A server that is killed while it starts, at any moment, leaves a directory that the next one takes.
#[test]
fn a_first_start_that_is_cut_off_anywhere_is_finished_by_the_next() {
    let mut dice = Dice(3);
    let rounds = if proving() { 100 } else { 8 };
    for _ in 0..rounds {
        let directory = Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
        let mut command = crate::support::stead();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.path());
        let mut child = command
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(dice.roll(120_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let server = Server::builder().on(directory).start();
        let http = server.http();
        let live = assert_whole(&server, &settled(&http));
        assert_eq!(live.keys().collect::<Vec<_>>(), ["local-default"]);
        assert_eq!(create(&http, "web").unwrap().status, 201);
    }
}
