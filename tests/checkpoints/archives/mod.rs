//! Environments that are carried from one server to another.

mod carried;
mod ends;
mod forging;
mod refused;
mod systems;

use std::path::Path;

use serde_json::{Value, json};

use super::Spot;
use crate::api::world::{ENVIRONMENTS, expect, text};
use crate::crashes::eventually;
use crate::support::{Http, Reply, Server};

const IMPORT: &str = "/v1/projects/default/environments/import";

impl Spot {
    /// The whole archive.
    #[track_caller]
    pub(super) fn export(&self) -> Vec<u8> {
        let reply = self.http.post(&self.path("/export"), json!({}));
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
        assert_eq!(reply.header("content-length").unwrap(), reply.body.len().to_string());
        reply.body
    }

    #[track_caller]
    pub(super) fn import(http: &Http, archive: &[u8], name: &str) -> Self {
        let made = expect(&send(http, archive, &format!("?name={name}"), None), 201);
        Self { http: http.clone(), id: text(&made, "id") }
    }

    pub(super) fn checkpoints(&self) -> Vec<Value> {
        let mut rows = crate::api::world::walk(&self.http, &self.path("/checkpoints"), 50);
        rows.reverse();
        rows
    }
}

fn send(http: &Http, archive: &[u8], query: &str, key: Option<&str>) -> Reply {
    let key = key.map(|key| ("Idempotency-Key", key));
    http.send("POST", &format!("{IMPORT}{query}"), &key.into_iter().collect::<Vec<_>>(), Some(archive))
}

/// An ordinary user's server; none where the tests are not run by root, who alone can be somebody else.
fn ordinary() -> Option<Server> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let directory = std::sync::Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
    std::os::unix::fs::chown(directory.path(), Some(5001), Some(5001)).unwrap();
    Some(Server::builder().on(directory).through(&["setpriv", "--reuid=5001", "--regid=5001", "--clear-groups", "--"]).start())
}

/// What lies among the layers, whole or not.
fn layers(data_dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(data_dir.join("layers")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Nothing is there but what was there before: no layer whole or in part, no environment, and nothing of it in the trash for long.
#[track_caller]
fn assert_nothing_came(server: &Server, before: &[String], environments: usize) {
    eventually("nothing of an archive is among the layers", || (layers(server.path()) == before).then_some(()));
    eventually("the trash is empty", || std::fs::read_dir(server.path().join("trash")).unwrap().next().is_none().then_some(()));
    let listed = expect(&server.http().get(&format!("{ENVIRONMENTS}?limit=200&include_destroyed=true")), 200);
    assert_eq!(listed["items"].as_array().unwrap().len(), environments, "{listed}");
}
