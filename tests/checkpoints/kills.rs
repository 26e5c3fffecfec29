//! The server is killed at random moments of a checkpoint, a restore, a fork and a deletion: each has happened, or it has not.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::Spot;
use super::tree::{MANIFEST, Tree};
use crate::api::world::{ENVIRONMENTS, text};
use crate::crashes::{Dice, eventually, proving};
use crate::support::{Http, Reply, Server};

struct House {
    directory: Arc<tempfile::TempDir>,
    dice: Dice,
}

impl House {
    fn start(&self) -> Server {
        Server::builder().on(Arc::clone(&self.directory)).with(&["--rate-limit", "0"]).start()
    }

    /// Sends a request with a key, kills the server a moment later, and repeats it at the next one until it is answered.
    fn kill_amid(&mut self, server: Server, method: &'static str, path: String, body: serde_json::Value, key: String) -> (Server, Reply) {
        let mut server = server;
        let send = move |http: &Http| {
            let headers = [("Idempotency-Key", key.as_str()), ("content-type", "application/json")];
            http.try_send(method, &path, &headers, Some(body.to_string().as_bytes()))
        };
        let (http, first) = (server.http(), send.clone());
        let thread = std::thread::spawn(move || first(&http));
        std::thread::sleep(Duration::from_micros(self.dice.roll(25_000)));
        server.kill();
        let _ = thread.join().unwrap();
        let server = self.start();
        let reply = send(&server.http()).unwrap();
        (server, reply)
    }
}

#[test]
fn a_server_that_is_killed_leaves_each_of_them_done_or_undone() {
    let rounds = if proving() { 150 } else { 8 };
    let directory = Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
    let mut house = House { directory, dice: Dice(77) };
    let mut server = house.start();
    let mut spot = Spot::new(&server.http(), "victim");
    let mut tree = Tree::default();
    for round in 0..rounds {
        spot.http = server.http();
        let commands: Vec<String> = (0..4).map(|_| tree.change(&mut house.dice)).collect();
        spot.works(&format!("set -e; {}", commands.join("; ")));

        let (next, reply) =
            house.kill_amid(server, "POST", spot.path("/checkpoints"), json!({"name": format!("r{round}")}), format!("c{round}"));
        server = next;
        assert_eq!(reply.status, 201, "{}", reply.json());
        let checkpoint = reply.json();
        spot.http = server.http();
        assert_eq!(spot.works(MANIFEST), tree.manifest(), "after the checkpoint of round {round}");

        let sealed = tree.clone();
        let commands: Vec<String> = (0..4).map(|_| tree.change(&mut house.dice)).collect();
        spot.works(&format!("set -e; {}", commands.join("; ")));
        let path = spot.path("/fork");
        let body = json!({"checkpoint_id": checkpoint["id"], "name": format!("f{round}"), "count": 2});
        let (next, reply) = house.kill_amid(server, "POST", path, body, format!("f{round}"));
        server = next;
        assert_eq!(reply.status, 201, "{}", reply.json());
        spot.http = server.http();
        let forks: Vec<Spot> =
            reply.json()["items"].as_array().unwrap().iter().map(|item| Spot { http: server.http(), id: text(item, "id") }).collect();
        assert_eq!(forks[1].works(MANIFEST), sealed.manifest(), "in a fork of round {round}");
        assert_eq!(spot.works(MANIFEST), tree.manifest(), "beside a fork of round {round}");

        let path = spot.path(&format!("/checkpoints/{}/restore", text(&checkpoint, "id")));
        let (next, reply) = house.kill_amid(server, "POST", path, json!({}), format!("r{round}"));
        server = next;
        assert_eq!(reply.status, 200, "{}", reply.json());
        spot.http = server.http();
        tree = sealed;
        assert_eq!(spot.works(MANIFEST), tree.manifest(), "after the restore of round {round}");

        // The first one goes on as the fork, and the one that it came from is deleted.
        let path = format!("{ENVIRONMENTS}/{}", spot.id);
        let (next, _) = house.kill_amid(server, "DELETE", path, json!({}), format!("d{round}"));
        server = next;
        let gone = server.http().get(&format!("{ENVIRONMENTS}/{}", spot.id)).json();
        assert!(["destroying", "destroyed"].contains(&gone["status"].as_str().unwrap()), "{gone}");
        let mut forks = forks.into_iter();
        let (kept, other) = (forks.next().unwrap(), forks.next().unwrap());
        Spot { http: server.http(), id: other.id }.delete();
        spot = Spot { http: server.http(), id: kept.id };
        assert_eq!(spot.works(MANIFEST), tree.manifest(), "in the fork that is left of round {round}");
    }
    spot.delete();
    // What a killed server could not clean up, the next one does.
    drop(server);
    let server = house.start();
    eventually("no layer is left", || std::fs::read_dir(server.path().join("layers")).unwrap().next().is_none().then_some(()));
}
