//! Hostile code inside a place: every probe must fail there, as root and as an ordinary user. Those that work on the host are run there too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod bubblewrap;
mod common;
mod probes;
mod table;

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;
use std::process::Child;

use common::{Case, Outcome, command, plan, run};
use probes::{PRELUDE, Probe};
use stead_sandbox::cgroup::{Availability, Group, Limits};
use stead_sandbox::{Bind, Network, Place, Plan};
use table::Verdict;

const CASES: &[(&str, Case)] = &[
    ("every probe fails", every_probe),
    ("who wants more than it may have does not get it", every_bounded_probe),
    ("the same probes under bubblewrap", under_bubblewrap),
    ("two places do not reach each other", two_places),
    ("with the host's network, the rest still fails", host_network),
];

fn main() {
    let Some(directory) = common::begin() else { return };
    common::run_all(CASES, directory.path());
    // Who was started by root has left its results there.
    if std::env::var_os("AFTER_ROOT").is_none() {
        table::settle(directory.path(), bubblewrap::version().filter(|_| table::updating()));
    }
}

/// What there is on the host to be reached.
struct Host {
    facts: String,
    directory: std::path::PathBuf,
    _listeners: (UnixListener, UnixListener, UnixDatagram, TcpListener),
    /// Not closed by whoever is started with it: that is for the sandbox to do.
    _inheritable: std::os::fd::OwnedFd,
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
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("{abstract_name}-datagrams")).unwrap()).unwrap(),
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
signal.signal(signal.SIGURG, lambda *_: open(HOST_DIRECTORY + '/signalled', 'w').close())
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
        let inheritable = rustix::io::dup(fs::File::open(directory.join("file")).unwrap()).unwrap();
        Self { facts, directory, _listeners: listeners, _inheritable: inheritable, holder }
    }

    /// Whether a signal from inside has arrived here.
    fn was_signalled(&self) -> bool {
        self.directory.join("signalled").exists()
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

/// What became of a probe, by how it ended; none if it is wrong in itself, so that it would fail everywhere and prove nothing.
fn verdict(probe: &Probe, host: &Host, code: Option<i32>, text: &str) -> Option<Verdict> {
    let wrong = ["SyntaxError", "NameError", "TypeError", "AttributeError", "IndexError", "KeyError", "struct.error"];
    if wrong.iter().any(|name| text.contains(name)) {
        return None;
    }
    // Who has to be ended from outside has stopped something.
    Some(match code {
        Some(0 | HUNG) => Verdict::Possible,
        _ if host.was_signalled() => Verdict::Possible,
        Some(ONLY_INSIDE) => Verdict::Contained,
        _ if probe.contained => Verdict::Contained,
        _ => Verdict::Refused,
    })
}

/// As a probe says that it worked, on something that is the place's own.
const ONLY_INSIDE: i32 = 3;

/// As `timeout` says it.
const HUNG: i32 = 137;

/// Runs probes in a place and keeps what became of them. Gives what must not be.
fn attempt<'a>(directory: &Path, host: &Host, place: &mut Place, probes: impl Iterator<Item = &'a Probe>) -> Vec<String> {
    let (mut failed, mut count) = (Vec::new(), 0);
    for probe in probes {
        if let Some(why) = cannot_be_tried(probe) {
            println!("{} {}: NOT RUN: {why}", probe.id, probe.what);
            table::keep(directory, table::column(false), probe.id, probe.what, &Verdict::NotRun(why.to_owned()));
            continue;
        }
        let script = host.script(probe);
        let (exit, text) = run(place, &command(&["timeout", "-s", "KILL", "20", "python3", "-S", "-c", &script]));
        count += 1;
        let Some(verdict) = verdict(probe, host, exit.code, &text) else {
            failed.push(format!("{} {}: is no probe: {text}", probe.id, probe.what));
            continue;
        };
        table::keep(directory, table::column(false), probe.id, probe.what, &verdict);
        if std::env::var_os("VERBOSE").is_some() {
            println!("{} {}: {verdict} {:?} {}", probe.id, probe.what, exit.code, text.lines().last().unwrap_or_default());
        }
        if verdict == Verdict::Possible {
            failed.push(format!("{} {}: worked inside: {text}", probe.id, probe.what));
        }
        if probe.works_outside {
            let outside = std::process::Command::new("python3")
                .args(["-S", "-c", &script])
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .output()
                .unwrap();
            if !outside.status.success() {
                let text = String::from_utf8_lossy(&outside.stderr).into_owned();
                failed.push(format!("{} {}: does not work outside either: {text}", probe.id, probe.what));
            }
        }
    }
    assert_eq!(run(place, &command(&["true"])).0.code, Some(0), "init still answers");
    println!("{} of {count} probes failed, as they must", count - failed.len());
    failed
}

fn cannot_be_tried(probe: &Probe) -> Option<&'static str> {
    let device = probe.script.contains("/workspace/zero") && !rustix::process::geteuid().is_root();
    device.then_some("only root can put a device there")
}

fn every_probe(directory: &Path) -> Outcome {
    let host = Host::new(directory);
    let plan = hostile_plan(directory, &host);
    let mut place = Place::start(&plan).unwrap();
    let failed = attempt(directory, &host, &mut place, probes::all());
    drop(place);
    assert!(failed.is_empty(), "{}:\n{}", failed.len(), failed.join("\n"));
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

fn every_bounded_probe(directory: &Path) -> Outcome {
    let available = Availability::probe();
    let limits = Limits { pids: Some(64), memory_bytes: Some(64 << 20), ..Limits::default() };
    let made = available.prepare().and_then(|()| Group::create(&available, &format!("test-escapes-{}", std::process::id()), limits));
    let group = match made {
        Ok(group) => group,
        Err(error) => {
            let why = Verdict::NotRun("no group of processes can be bounded by this caller".to_owned());
            for probe in probes::bounded() {
                table::keep(directory, table::column(false), probe.id, probe.what, &why);
            }
            return Err(error.to_string());
        }
    };
    let host = Host::new(directory);
    let plan = Plan { group: Some(group.clone()), ..hostile_plan(directory, &host) };
    let mut place = Place::start(&plan).unwrap();
    let failed = attempt(directory, &host, &mut place, probes::bounded());
    place.end();
    group.kill().and_then(|()| group.remove()).unwrap();
    assert!(failed.is_empty(), "{}:\n{}", failed.len(), failed.join("\n"));
    Ok(())
}

/// What it lets through is its own affair: nothing fails here.
fn under_bubblewrap(directory: &Path) -> Outcome {
    if !table::updating() {
        return Err("only when the page is written, with STEAD_UPDATE_DOCS=1".to_owned());
    }
    let host = Host::new(directory);
    hostile_plan(directory, &host);
    let workspace = directory.join("workspace");
    let usable = match bubblewrap::version() {
        None => Err("there is no bubblewrap here".to_owned()),
        Some(_) => match bubblewrap::run(&workspace, "print('fine')") {
            (Some(0), _) => Ok(()),
            (_, text) => Err(format!("bubblewrap does not start: {}", text.trim().replace(['|', '\n'], " "))),
        },
    };
    for probe in probes::all().chain(probes::bounded()) {
        let verdict = match (&usable, cannot_be_tried(probe)) {
            (Err(why), _) => Verdict::NotRun(why.clone()),
            (_, Some(why)) => Verdict::NotRun(why.to_owned()),
            _ => {
                let (code, text) = bubblewrap::run(&workspace, &host.script(probe));
                let verdict = verdict(probe, &host, code, &text).unwrap();
                if std::env::var_os("VERBOSE").is_some() {
                    println!("bubblewrap: {} {}: {verdict} {code:?} {}", probe.id, probe.what, text.lines().last().unwrap_or_default());
                }
                verdict
            }
        };
        table::keep(directory, table::column(true), probe.id, probe.what, &verdict);
    }
    usable
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
        let (exit, text) = run(&mut place, &command(&["timeout", "-s", "KILL", "20", "python3", "-S", "-c", &host.script(probe)]));
        if verdict(probe, &host, exit.code, &text) == Some(Verdict::Possible) {
            failed.push(format!("{} {}: {text}", probe.id, probe.what));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}
