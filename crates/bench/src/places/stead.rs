//! Stead itself: a server on a directory of its own, spoken to over its unix socket.

use std::cell::Cell;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream as Blocking;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_store::Location;
use stead_testing::PrivatePostgres;
use tempfile::TempDir;
use tokio::net::UnixStream;

use super::machine;
use crate::client::{Client, request};
use crate::load::ENVIRONMENTS;
use crate::server::Server;

/// How long what was killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Stead {
    server: Option<Server>,
    directory: TempDir,
    /// What it keeps its state in, if that is no file of its own.
    postgres: Option<PrivatePostgres>,
    key: String,
    serial: Cell<usize>,
}

/// One kept connection, one request after the other.
pub struct Caller<'s> {
    stead: &'s Stead,
    client: Client<UnixStream>,
}

impl Stead {
    pub fn start(binary: &Path, root: &Path) -> Self {
        Self::start_on(binary, root, None)
    }

    pub fn start_on(binary: &Path, root: &Path, postgres: Option<PrivatePostgres>) -> Self {
        let directory = tempfile::Builder::new().prefix("stead-bench-").tempdir_in(root).unwrap();
        fs::create_dir(directory.path().join("data")).unwrap();
        let database = postgres.as_ref().map(PrivatePostgres::url);
        let server = Server::start(binary, &directory.path().join("data"), database.as_deref());
        let key = server.key();
        Self { server: Some(server), directory, postgres, key, serial: Cell::new(0) }
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub fn store(&self) -> Location {
        match &self.postgres {
            Some(postgres) => Location::Postgres(postgres.url()),
            None => Location::Sqlite(self.data().join("stead.db")),
        }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.server.as_ref().map(|server| server.address.clone()).unwrap_or_default()
    }

    /// A directory on the same file system, which goes with it.
    pub fn beside(&self) -> &Path {
        self.directory.path()
    }

    pub async fn caller(&self) -> Caller<'_> {
        Caller { stead: self, client: Client::connect_unix(&self.data().join("stead.sock")).await.unwrap() }
    }

    /// Everything below the server: the spawner, stewards, inits, and what runs inside.
    pub fn processes(&self) -> Vec<u32> {
        machine::started_by(self.pid(), &self.data())
    }

    pub fn pid(&self) -> u32 {
        self.server.as_ref().map_or(0, Server::pid)
    }

    /// Mounts of its data directory that are to be seen outside of any environment.
    pub fn mounts(&self) -> usize {
        let seen_by = [std::process::id(), self.pid()];
        seen_by.into_iter().map(|pid| machine::mounts(pid, &self.data())).max().unwrap_or(0)
    }

    /// One request without the runtime, which is gone by the time that we clear up.
    fn ask(&self, method: &str, path: &str) -> std::io::Result<Value> {
        let mut socket = Blocking::connect(self.data().join("stead.sock"))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let message = request(method, path, &self.key, "");
        let message = String::from_utf8_lossy(&message).replacen("\r\n", "\r\nConnection: close\r\n", 1);
        socket.write_all(message.as_bytes())?;
        let mut reply = String::new();
        socket.read_to_string(&mut reply)?;
        Ok(reply.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok()).unwrap_or_default())
    }

    /// Deletes every environment, page by page.
    fn delete_all(&self) -> std::io::Result<()> {
        loop {
            let page = self.ask("GET", &format!("{ENVIRONMENTS}?limit=100"))?;
            let ids: Vec<&str> = page["items"].as_array().into_iter().flatten().filter_map(|item| item["id"].as_str()).collect();
            if ids.is_empty() {
                return Ok(());
            }
            for id in ids {
                let gone = self.ask("DELETE", &format!("{ENVIRONMENTS}/{id}"))?;
                if gone["error"].is_object() {
                    return Err(std::io::Error::other(gone["error"].to_string()));
                }
            }
        }
    }
}

impl Drop for Stead {
    fn drop(&mut self) {
        let deleted = self.delete_all();
        if let Some(server) = self.server.take() {
            server.end();
        }
        let limit = Instant::now() + PATIENCE;
        loop {
            let left = machine::mentioning(&self.data());
            if left.is_empty() || Instant::now() > limit {
                break;
            }
            // Those that a refused deletion left. All of them have our own directory in their command line.
            for pid in left.into_iter().filter_map(|pid| rustix::process::Pid::from_raw(pid as i32)) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Err(error) = deleted {
            let _ = writeln!(std::io::stderr(), "environments could not be deleted: {error}");
        }
    }
}

impl Caller<'_> {
    async fn call(&mut self, method: &str, path: &str, body: &str) -> (u16, &[u8]) {
        let message = request(method, path, &self.stead.key, body);
        let (status, body) = self.client.call(&message).await.unwrap();
        assert!(matches!(status, 200 | 201), "{method} {path}: {status} {}", String::from_utf8_lossy(body));
        (status, body)
    }

    async fn json(&mut self, method: &str, path: &str, body: &str) -> Value {
        serde_json::from_slice(self.call(method, path, body).await.1).unwrap()
    }

    /// An environment without a network; its id and where the host has its workspace.
    pub async fn create(&mut self) -> (String, PathBuf) {
        let serial = self.stead.serial.get();
        self.stead.serial.set(serial + 1);
        let body = json!({"name": format!("place-{serial}"), "spec": {"sandbox": {"network_access": "disabled"}}});
        let made = self.json("POST", ENVIRONMENTS, &body.to_string()).await;
        let workspace = self.stead.data().join("sandboxes").join(made["sandbox_id"].as_str().unwrap()).join("workspace");
        (made["id"].as_str().unwrap().to_owned(), workspace)
    }

    pub async fn delete(&mut self, id: &str) {
        self.call("DELETE", &format!("{ENVIRONMENTS}/{id}"), "").await;
    }

    /// `wake`, `stop` or `sleep`.
    pub async fn tell(&mut self, id: &str, what: &str) {
        self.call("POST", &format!("{ENVIRONMENTS}/{id}/{what}"), "").await;
    }

    /// Starts a process that goes on.
    pub async fn start(&mut self, id: &str, argv: &[&str]) {
        self.call("POST", &format!("{ENVIRONMENTS}/{id}/processes"), &json!({"argv": argv}).to_string()).await;
    }

    /// The id of a checkpoint of what is there now, when it is `sealed` or `durable`.
    pub async fn checkpoint(&mut self, id: &str, wait: &str) -> String {
        let made = self.json("POST", &format!("{ENVIRONMENTS}/{id}/checkpoints"), &json!({"wait": wait}).to_string()).await;
        made["id"].as_str().unwrap().to_owned()
    }

    pub async fn restore(&mut self, id: &str, checkpoint: &str) {
        self.call("POST", &format!("{ENVIRONMENTS}/{id}/checkpoints/{checkpoint}/restore"), "").await;
    }

    /// The id of a new environment that begins with a checkpoint.
    pub async fn fork(&mut self, id: &str, checkpoint: &str) -> String {
        let made = self.json("POST", &format!("{ENVIRONMENTS}/{id}/fork"), &json!({"checkpoint_id": checkpoint}).to_string()).await;
        made["items"][0]["id"].as_str().unwrap().to_owned()
    }

    pub async fn ports(&mut self, id: &str) -> Value {
        self.json("GET", &format!("{ENVIRONMENTS}/{id}/ports"), "").await
    }

    /// What a command printed.
    pub async fn exec(&mut self, id: &str, command: &[&str]) -> String {
        let result = self.json("POST", &format!("{ENVIRONMENTS}/{id}/exec"), &json!({"command": command}).to_string()).await;
        assert_eq!(result["exit_code"], 0, "{command:?}: {result}");
        result["stdout"].as_str().unwrap_or_default().to_owned()
    }

    /// A process from its start to its exit, by the calls of a client that follows it.
    pub async fn process(&mut self, id: &str, argv: &[&str]) -> String {
        let processes = format!("{ENVIRONMENTS}/{id}/processes");
        let started = self.json("POST", &processes, &json!({"argv": argv}).to_string()).await;
        let process = format!("{processes}/{}", started["id"].as_str().unwrap());
        loop {
            let waited = self.json("GET", &format!("{process}/wait?timeout=5m"), "").await;
            if waited["exit"].is_object() {
                assert_eq!(waited["exit"]["code"], 0, "{argv:?}: {waited}");
                return process;
            }
        }
    }

    /// What is kept of its output from the beginning, up to a mebibyte.
    pub async fn logs(&mut self, process: &str) -> String {
        String::from_utf8_lossy(self.call("GET", &format!("{process}/logs"), "").await.1).into_owned()
    }
}
