//! Hostile code inside a place: every probe must fail there, as root and as an ordinary user. Those that work on the host are run there too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;
mod probes;

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Child;

use common::{Case, Outcome, command, plan, run};
use probes::{PRELUDE, Probe};
use stead_sandbox::{Bind, Network, Place, Plan};

const CASES: &[(&str, Case)] = &[
    ("every probe fails", every_probe),
    ("two places do not reach each other", two_places),
    ("with the host's network, the rest still fails", host_network),
];

fn main() {
    common::main(CASES);
}

/// What there is on the host to be reached.
struct Host {
    facts: String,
    directory: std::path::PathBuf,
    _listeners: (UnixListener, UnixListener, TcpListener),
    /// Holds what only Python can make without unsafe code, until it is told to remove it.
    holder: Child,
}

impl Host {
    fn new(directory: &Path) -> Self {
        let unique = std::process::id();
        let directory = directory.join("host");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file"), "of the host").unwrap();
        let socket = directory.join("socket");
        let abstract_name = format!("stead-escapes-{unique}");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let listeners = (
            UnixListener::bind(&socket).unwrap(),
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap(),
            tcp.try_clone().unwrap(),
        );
        let facts = format!(
            "HOST_PID = {unique}\nHOST_GROUP = {}\nHOST_SOCKET = {socket:?}\nHOST_ABSTRACT = {abstract_name:?}\nHOST_PORT = {}\nHOST_FILE = {:?}\nHOST_DIRECTORY = {directory:?}\nHOST_SHARED_KEY = {unique}\nHOST_QUEUE = '/stead-{unique}'\nHOST_SHARED_NAME = 'stead-{unique}'\n",
            rustix::process::getpgrp().as_raw_nonzero(),
            tcp.local_addr().unwrap().port(),
            directory.join("file"),
        );
        let hold = format!(
            "{PRELUDE}{facts}
rt = ctypes.CDLL('librt.so.1', use_errno=True)
shared = libc.shmget(HOST_SHARED_KEY, 4096, 0o1666)
queue = rt.mq_open(HOST_QUEUE.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
name = '/dev/shm/' + HOST_SHARED_NAME
open(name, 'w').close()
print('ready' if shared >= 0 and queue >= 0 else 'failed', flush=True)
sys.stdin.read()
libc.shmctl(shared, 0, None)
rt.mq_unlink(HOST_QUEUE.encode())
os.unlink(name)
"
        );
        let mut holder = std::process::Command::new("python3")
            .args(["-c", &hold])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(holder.stdout.take().unwrap()), &mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Self { facts, directory, _listeners: listeners, holder }
    }

    fn script(&self, probe: &Probe) -> String {
        format!("{PRELUDE}{}{}", self.facts, probe.script)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

fn hostile_plan(directory: &Path, host: &Host) -> Plan {
    let workspace = directory.join("workspace");
    let _ = fs::remove_dir_all(&workspace);
    fs::create_dir(&workspace).unwrap();
    std::os::unix::fs::symlink(host.directory.join("file"), workspace.join("outward")).unwrap();
    if rustix::process::geteuid().is_root() {
        let made = std::process::Command::new("mknod").arg(workspace.join("zero")).args(["c", "1", "5"]).status().unwrap();
        assert!(made.success());
    }
    Plan { binds: vec![Bind::read_write(&workspace, "/workspace")], ..plan(directory) }
}

fn every_probe(directory: &Path) -> Outcome {
    let host = Host::new(directory);
    let plan = hostile_plan(directory, &host);
    let mut place = Place::start(&plan).unwrap();
    let (mut failed, mut count) = (Vec::new(), 0);
    for probe in probes::all() {
        if probe.script.contains("/workspace/zero") && !rustix::process::geteuid().is_root() {
            println!("{} {}: NOT RUN: only root can put a device there", probe.id, probe.what);
            continue;
        }
        let script = host.script(probe);
        let (exit, text) = run(&mut place, &command(&["timeout", "-s", "KILL", "20", "python3", "-c", &script]));
        if std::env::var_os("VERBOSE").is_some() {
            println!("{} {}: {:?}", probe.id, probe.what, exit.code.or(exit.signal));
        }
        count += 1;
        if exit.code == Some(0) {
            failed.push(format!("{} {}: worked inside: {text}", probe.id, probe.what));
        }
        // A probe that is wrong in itself would fail everywhere and prove nothing.
        if text.contains("SyntaxError") || text.contains("NameError") || text.contains("TypeError") || text.contains("AttributeError") {
            failed.push(format!("{} {}: is no probe: {text}", probe.id, probe.what));
        }
        if probe.works_outside {
            let outside =
                std::process::Command::new("python3").args(["-c", &script]).env_clear().env("PATH", "/usr/bin:/bin").output().unwrap();
            if !outside.status.success() {
                failed.push(format!(
                    "{} {}: does not work outside either: {}",
                    probe.id,
                    probe.what,
                    String::from_utf8_lossy(&outside.stderr)
                ));
            }
        }
    }
    assert_eq!(run(&mut place, &command(&["true"])).0.code, Some(0), "init still answers");
    drop(place);
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
    println!("{count} probes failed, as they must");
    // Nothing set-user-id, nothing of another owner lies where the host would find it.
    let workspace = directory.join("workspace");
    for entry in fs::read_dir(&workspace).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let mode = std::os::unix::fs::MetadataExt::mode(&metadata);
        assert_eq!(mode & 0o6000, 0, "{:?}", entry.path());
    }
    Ok(())
}

fn two_places(directory: &Path) -> Outcome {
    let mut places = [Place::start(&plan(directory)).unwrap(), Place::start(&plan(directory)).unwrap()];
    let serve = format!(
        "{PRELUDE}
a = socket.socket(socket.AF_UNIX); a.bind('\\0between'); a.listen()
t = socket.create_server(('127.0.0.1', 4567))
libc.shmget(4567, 4096, 0o1666)
open('/tmp/between', 'w').close(); open('/dev/shm/between', 'w').close()
open('/tmp/ready', 'w').close()
time.sleep(600)"
    );
    common::request(&mut places[0], 1, &command(&["python3", "-c", &serve]));
    common::started(&mut places[0]);
    let reach = format!(
        "{PRELUDE}
reached = []
for what, attempt in (
    ('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0between')),
    ('port', lambda: socket.create_connection(('127.0.0.1', 4567), 2)),
    ('files', lambda: open('/tmp/between')),
    ('shared', lambda: open('/dev/shm/between')),
    ('key', lambda: 1 / (libc.shmget(4567, 0, 0) + 1)),
):
    try: attempt(); reached.append(what)
    except (OSError, ZeroDivisionError): pass
print(*reached)"
    );
    // In the same place all of it is reached: the probe works.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let (exit, _) = run(&mut places[0], &command(&["test", "-e", "/tmp/ready"]));
        if exit.code == Some(0) {
            break;
        }
        assert!(std::time::Instant::now() < until);
    }
    assert_eq!(run(&mut places[0], &command(&["python3", "-c", &reach])).1.trim(), "abstract port files shared key");
    assert_eq!(run(&mut places[1], &command(&["python3", "-c", &reach])).1.trim(), "");
    Ok(())
}

fn host_network(directory: &Path) -> Outcome {
    let host = Host::new(directory);
    let plan = Plan { network: Network::Host, ..hostile_plan(directory, &host) };
    let mut place = match Place::start(&plan) {
        Err(stead_sandbox::Error::Unavailable { why, .. }) => return Err(why),
        outcome => outcome.unwrap(),
    };
    let mut failed = Vec::new();
    // Those that a network of its own may have stopped in the other case.
    for probe in
        probes::all().filter(|probe| ["I0", "P03", "P04", "S12", "S13", "S14", "N17", "N20"].iter().any(|id| probe.id.starts_with(id)))
    {
        let (exit, text) = run(&mut place, &command(&["timeout", "-s", "KILL", "20", "python3", "-c", &host.script(probe)]));
        if exit.code == Some(0) {
            failed.push(format!("{} {}: {text}", probe.id, probe.what));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}
