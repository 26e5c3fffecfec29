//! `stead lease …`, and what it changes for every other command: two users with a key of their own on one environment.

mod commands;
mod holding;
mod tokens;

use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::desk::Desk;

/// A server, its owner, and bob, who is a member with a key.
pub struct Office {
    pub desk: Desk,
    pub address: String,
}

impl Office {
    pub fn new() -> Self {
        let desk = Desk::new();
        desk.done(&["project", "members", "add", "bob"]);
        desk.done(&["key", "create", "bob", "--for", "bob", "-o", "bob.key"]);
        desk.done(&["env", "create", "web"]);
        let address = desk.server().address.clone();
        Self { desk, address }
    }

    pub fn bob(&self, arguments: &[&str]) -> Command {
        self.desk.command(&[&["--url", &self.address, "--key-file", "bob.key"], arguments].concat())
    }

    pub fn bob_runs(&self, arguments: &[&str]) -> Output {
        self.bob(arguments).output().unwrap()
    }

    /// Acquires for the owner; gives the token.
    pub fn acquire(&self, arguments: &[&str]) -> String {
        let said = self.desk.done(&[&["lease", "acquire", "web"], arguments].concat());
        said.trim().strip_prefix("export STEAD_LEASE=").unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    pub fn presenting(&self, token: &str, arguments: &[&str]) -> Output {
        self.desk.command(arguments).env("STEAD_LEASE", token).output().unwrap()
    }

    /// The one lease that is held.
    pub fn held(&self) -> Value {
        let listed = self.desk.json(&["lease", "list", "web"]);
        let [held] = listed["items"].as_array().unwrap().as_slice() else { panic!("{listed}") };
        // Alone it says who waits.
        let id = held["id"].as_str().unwrap();
        serde_json::from_str(&self.desk.done(&["http", "GET", &format!("environments/leases/{id}")])).unwrap()
    }

    pub fn waiting(&self) -> usize {
        self.held()["waiting"].as_array().map_or(0, Vec::len)
    }
}

pub fn begin(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}
