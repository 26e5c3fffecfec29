//! A user's desk: a home, a working directory, a server, and what each command said and how it ended.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use insta::internals::SettingsBindDropGuard;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Server, ServerBuilder, stead};

/// What differs from run to run, and what stands for it in a snapshot.
const FILTERS: &[(&str, &str)] = &[
    (r"\b(env|sbx|prj|prn|key|hst|aud|req|prc|lse|tkt|sec)_[0-9a-f]{32}\b", "${1}_[ID]"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "[TIME]"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "[SECOND]"),
    (r"\bstk_[a-z2-7]{52}\b", "stk_[KEY]"),
    (r"\bstk_[a-z2-7]{6}…", "stk_[KEY]…"),
    (r"\bstl_[0-9a-f]{96}\b", "stl_[TOKEN]"),
    // What is left of half an hour, and of the usual time of a lease.
    (r"\b29m\d{1,2}s\b", "[LEFT]"),
    (r"((?:for|lasts) |  )(?:29m|30m)\b", "$1[LEFT]"),
    // Not what a definition says.
    (r#"([^"])\b1m(30|2\d)s\b"#, "$1[LEFT]"),
    (r"127\.0\.0\.1:\d{4,5}\b", "127.0.0.1:[PORT]"),
    (r"\.localhost:\d{4,5}\b", ".localhost:[PORT]"),
    (r"\bunix:uid=\d+,pid=\d+", "unix:uid=[UID],pid=[PID]"),
    (r"\(process \d+\)", "(process [PID])"),
    // What a provider calls its resource ends in some digits of an id.
    (r"\b([a-z-]+)-[0-9a-f]{12}\b", "${1}-[DIGITS]"),
    // An age in a table, with the space that fills its column.
    (r"\b\d{1,2}s {2,}", "[AGE]  "),
    (r"(?m)\b\d{1,2}s$", "[AGE]"),
    (r"\b\d{1,2}s ago\b", "[AGE] ago"),
    (r"(uptime +)\d+s", "${1}[AGE]"),
    (r"\b\d+\.\d [KMGT]iB", "[SIZE]"),
    (r"(?m) +$", ""),
];

pub struct Desk {
    home: TempDir,
    data: PathBuf,
    server: Option<Server>,
    _filters: SettingsBindDropGuard,
}

impl Desk {
    /// With a server that runs until the test ends, started by a user called olivia.
    pub fn new() -> Self {
        Self::beside(Server::builder())
    }

    /// The same with a server that was given more arguments.
    pub fn beside(builder: ServerBuilder) -> Self {
        let server = builder.through(&["env", "USER=olivia"]).start();
        let data = server.path().to_owned();
        Self::at(data, Some(server))
    }

    /// With a server that runs already.
    pub fn with(server: Server) -> Self {
        Self::at(server.path().to_owned(), Some(server))
    }

    /// Without a server; commands may start one in the data directory below the home, which is ended with the test.
    pub fn alone() -> Self {
        let mut desk = Self::at(PathBuf::new(), None);
        desk.data = desk.home.path().join("data");
        desk
    }

    fn at(data: PathBuf, server: Option<Server>) -> Self {
        let home = tempfile::Builder::new().prefix("stead-home-").tempdir().unwrap();
        std::fs::create_dir(home.path().join("work")).unwrap();
        let mut settings = insta::Settings::clone_current();
        if server.is_some() {
            settings.add_filter(&plain(&data), "[DATA]");
        }
        settings.add_filter(&plain(&home.path().join("work")), "[WORK]");
        settings.add_filter(&plain(home.path()), "[HOME]");
        settings.add_filter(&plain(Path::new(env!("CARGO_PKG_VERSION"))), "[VERSION]");
        for (pattern, replacement) in FILTERS {
            settings.add_filter(pattern, *replacement);
        }
        Self { home, data, server, _filters: settings.bind_to_scope() }
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub fn server_mut(&mut self) -> &mut Server {
        self.server.as_mut().unwrap()
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The directory that the user stands in.
    pub fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Writes a file below the working directory.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work().join(name)).unwrap()
    }

    /// A command that has not run yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stead();
        command.args(arguments).current_dir(self.work()).env("HOME", self.home()).env("STEAD_DATA_DIR", &self.data);
        command.env("USER", "olivia").env_remove("COLUMNS").env_remove("TERM").stdin(Stdio::null());
        if self.server.is_none() {
            command.env_remove("STEAD_NO_START").env("STEAD_LISTEN", "127.0.0.1:0");
        }
        command
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command; gives its exit code, its stdout and its stderr as one text.
    pub fn run(&self, arguments: &[&str]) -> String {
        told(&self.output(arguments))
    }

    /// Runs a command that reads from stdin.
    pub fn run_fed(&self, arguments: &[&str], input: &str) -> String {
        let mut child = self.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        told(&child.wait_with_output().unwrap())
    }

    /// Runs a command that must succeed, for what it does.
    pub fn done(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command with `--json` that must succeed.
    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Runs a command for its exit code alone.
    pub fn code(&self, arguments: &[&str]) -> i32 {
        self.output(arguments).status.code().unwrap()
    }

    /// The error that a command with `--json` ends with.
    pub fn error(&self, arguments: &[&str]) -> Value {
        let output = self.output(&[arguments, &["--json"]].concat());
        assert!(!output.status.success(), "{arguments:?}: {}", told(&output));
        assert!(output.stdout.is_empty(), "{arguments:?}: {}", told(&output));
        let error: Value = serde_json::from_slice(&output.stderr).unwrap_or_else(|_| panic!("{}", told(&output)));
        error["error"].clone()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // What runs in an environment outlives its server, and must not outlive its test.
        let is_awake = std::fs::read_dir(self.data.join("run")).is_ok_and(|mut awake| awake.next().is_some());
        if is_awake || (self.server.is_none() && self.data.join("lock").exists()) {
            let _ = self.command(&["down", "--all"]).output();
        }
        crate::support::beside::end(&self.data);
    }
}

/// A path as a pattern that means itself.
fn plain(path: &Path) -> String {
    path.display()
        .to_string()
        .chars()
        .map(|character| if character.is_alphanumeric() { character.to_string() } else { format!("\\{character}") })
        .collect()
}

/// A table whose columns are as wide as paths that differ from machine to machine.
pub fn squeezed(text: &str) -> String {
    let mut squeezed = text.to_owned();
    while squeezed.contains("   ") {
        squeezed = squeezed.replace("   ", "  ");
    }
    squeezed
}

pub fn told(output: &Output) -> String {
    let code = output.status.code().map_or_else(|| output.status.to_string(), |code| code.to_string());
    let mut text = format!("exit code: {code}\n");
    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if !bytes.is_empty() {
            text.push_str(&format!("--- {name} ---\n{}", String::from_utf8_lossy(bytes)));
            if !text.ends_with('\n') {
                text.push_str("(no newline)\n");
            }
        }
    }
    text
}
