//! A private PostgreSQL from the installed binaries: its own directory, its own socket, no TCP, gone with the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// How many connections one takes unless it is told otherwise.
const CONNECTIONS: usize = 200;

pub struct PrivatePostgres {
    directory: TempDir,
    binaries: PathBuf,
    server: Option<Child>,
    durable: bool,
    connections: usize,
}

impl PrivatePostgres {
    /// Starts one that does not sync: quick, and durable enough for a test that does not cut the power.
    pub fn start() -> Self {
        Self::start_with(false, CONNECTIONS)
    }

    /// Starts one that syncs each commit, for measurements.
    pub fn start_durable() -> Self {
        Self::start_with(true, CONNECTIONS)
    }

    /// The same for so many who each have a connection.
    pub fn start_durable_for(connections: usize) -> Self {
        Self::start_with(true, connections)
    }

    pub fn is_installed() -> bool {
        find_binaries().is_some()
    }

    fn start_with(durable: bool, connections: usize) -> Self {
        let binaries = find_binaries().expect("PostgreSQL is installed (`make deps` installs it)");
        let directory = tempfile::Builder::new().prefix("stead-pg-").tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            run(Command::new("chown").arg("nobody").arg(directory.path()));
        }
        run(as_ordinary_user(&binaries.join("initdb"))
            .args(["--auth=trust", "--username=stead", "--encoding=UTF8", "--locale=C", "--no-sync", "--pgdata"])
            .arg(directory.path().join("data")));
        let mut postgres = Self { directory, binaries, server: None, durable, connections };
        postgres.resume();
        postgres
    }

    /// Where the sockets are that it listens on.
    pub fn sockets(&self) -> &Path {
        self.directory.path()
    }

    /// The address of the database `stead` that every server has; [`PrivatePostgres::database`] makes others.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://stead@localhost/{database}?host={}", self.directory.path().display())
    }

    /// A new, empty database.
    pub fn database(&self, name: &str) -> String {
        self.sql(&format!("CREATE DATABASE {name}"));
        self.url_of(name)
    }

    pub fn sql(&self, statement: &str) -> String {
        let output = Command::new(self.binaries.join("psql"))
            .args(["-U", "stead", "-d", "postgres", "-At", "-h"])
            .arg(self.directory.path())
            .args(["-c", statement])
            .output()
            .expect("psql runs");
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Ends the server at once, as a crash would.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // SIGQUIT is PostgreSQL's immediate shutdown: its children go with it.
            let pid = rustix::process::Pid::from_child(&server);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
            let _ = server.wait();
        }
    }

    /// Starts it again on the same data.
    pub fn resume(&mut self) {
        let fsync = if self.durable { "fsync=on" } else { "fsync=off" };
        let connections = format!("max_connections={}", self.connections);
        let log = std::fs::File::create(self.directory.path().with_extension("log")).unwrap();
        let server = as_ordinary_user(&self.binaries.join("postgres"))
            .arg("-D")
            .arg(self.directory.path().join("data"))
            .arg("-k")
            .arg(self.directory.path())
            .args(["-c", "listen_addresses=", "-c", fsync, "-c", &connections])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("postgres starts");
        self.server = Some(server);
        for _ in 0..400 {
            let ready = Command::new(self.binaries.join("pg_isready"))
                .args(["-q", "-U", "stead", "-h"])
                .arg(self.directory.path())
                .status()
                .is_ok_and(|status| status.success());
            if ready {
                return;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        let log = std::fs::read_to_string(self.directory.path().with_extension("log")).unwrap_or_default();
        panic!("postgres did not become ready: {log}");
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_file(self.directory.path().with_extension("log"));
    }
}

/// Where `initdb` and `postgres` are: on the path, or in the newest of Debian's versioned directories.
fn find_binaries() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let mut found: Vec<PathBuf> = debian.filter(|path| path.join("initdb").exists() && path.join("postgres").exists()).collect();
    found.sort();
    let on_path = std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    found.pop().or_else(|| on_path.into_iter().find(|path| path.join("initdb").exists() && path.join("postgres").exists()))
}

/// PostgreSQL refuses to run as root; whoever runs it, it ends with the test.
fn as_ordinary_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]);
    }
    command.arg("--").arg(program).env("LC_ALL", "C").current_dir("/");
    command
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
