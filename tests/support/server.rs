//! A real `stead serve` in a directory of its own, ended with the test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;

use super::http::Http;

/// The binary under test, with nothing of the caller's surroundings.
pub fn stead() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
    for (name, _) in std::env::vars() {
        if ["STEAD_", "XDG_", "GITHUB_"].iter().any(|prefix| name.starts_with(prefix)) || name == "GH_TOKEN" {
            command.env_remove(name);
        }
    }
    command.env("NO_COLOR", "1").env("STEAD_NO_START", "1");
    command
}

#[derive(Default)]
pub struct ServerBuilder {
    directory: Option<Arc<TempDir>>,
    arguments: Vec<String>,
    wrapper: Vec<String>,
    variables: Vec<(String, String)>,
}

impl ServerBuilder {
    /// More arguments of `stead serve`.
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// With this in its environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// On the data directory of another one.
    pub fn on(mut self, directory: Arc<TempDir>) -> Self {
        self.directory = Some(directory);
        self
    }

    /// Run through another program, such as `setpriv` or `unshare`.
    pub fn through(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    fn command(&self, directory: &Path) -> Command {
        let plain = stead();
        let mut command = match self.wrapper.split_first() {
            None => plain,
            Some((program, rest)) => {
                let mut command = Command::new(program);
                command.args(rest).arg(plain.get_program());
                for (name, value) in plain.get_envs() {
                    match value {
                        Some(value) => command.env(name, value),
                        None => command.env_remove(name),
                    };
                }
                command
            }
        };
        // Servers on one database have one master key.
        if self.arguments.iter().any(|argument| argument == "--database")
            && !self.arguments.iter().any(|argument| argument == "--key-command")
        {
            command.env("STEAD_MASTER_KEY", "5a".repeat(32));
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory).args(&self.arguments);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts it and waits until it says where it listens.
    pub fn start(self) -> Server {
        self.try_start().unwrap_or_else(|(status, stderr)| panic!("the server did not start ({status}): {stderr}"))
    }

    /// The same; a server that ends instead gives its exit code and what it said.
    pub fn try_start(self) -> Result<Server, (i32, String)> {
        let directory = self.directory.clone().unwrap_or_else(|| Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap()));
        let log = directory.path().with_extension("log");
        let is_shared = log.exists();
        let stderr = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let mut child =
            self.command(directory.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().expect("the server starts");
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        if address.is_empty() {
            let status = child.wait().unwrap();
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            // Nobody else writes to it: nothing stays of it.
            if !is_shared {
                let _ = std::fs::remove_file(&log);
            }
            return Err((status.code().unwrap_or(-1), said));
        }
        Ok(Server { directory, log, child: Some(child), address: address.trim().to_owned() })
    }
}

pub struct Server {
    directory: Arc<TempDir>,
    log: PathBuf,
    child: Option<Child>,
    pub address: String,
}

impl Server {
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    pub fn start() -> Self {
        Self::builder().start()
    }

    pub fn directory(&self) -> Arc<TempDir> {
        Arc::clone(&self.directory)
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn owner_key(&self) -> String {
        std::fs::read_to_string(self.path().join("owner.key")).unwrap().trim().to_owned()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.as_ref().unwrap().id()).unwrap()
    }

    /// Over TCP, with the owner's key.
    pub fn http(&self) -> Http {
        Http::new(&self.address, Some(self.owner_key()))
    }

    /// Over TCP, with another key or none.
    pub fn http_as(&self, key: Option<&str>) -> Http {
        Http::new(&self.address, key.map(str::to_owned))
    }

    /// A client command against this server, over its unix socket.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stead();
        command.arg("--data-dir").arg(self.path()).args(arguments);
        command
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks it to end, and gives its exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        let mut child = self.child.take()?;
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_file(&self.log);
        if Arc::strong_count(&self.directory) == 1 {
            super::beside::end(self.path());
        }
    }
}
