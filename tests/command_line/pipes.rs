//! Much output to somebody who takes it slowly: as in a pipe the program waits, and nothing is lost.

use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::desk::Desk;
use super::run::until;
use crate::support::Server;

/// What `seq 1 LAST` prints, compared as it is read. Gives how much that was.
struct Sequence {
    next: u64,
    /// What is expected and was not read yet.
    line: Vec<u8>,
    read: u64,
}

impl Sequence {
    fn new() -> Self {
        Self { next: 1, line: Vec::new(), read: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        while self.line.len() < bytes.len() {
            self.line.extend(self.next.to_string().bytes());
            self.line.push(b'\n');
            self.next += 1;
        }
        assert!(self.line[..bytes.len()] == *bytes, "something is missing or doubled near byte {}", self.read);
        self.line.drain(..bytes.len());
        self.read += bytes.len() as u64;
    }

    fn is_at(&self, last: u64) -> bool {
        self.next == last + 1 && self.line.is_empty()
    }
}

fn piped(mut command: Command) -> (Child, ChildStdout) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    (child, stdout)
}

/// How much is stored of what runs in the desk's only environment.
fn stored(desk: &Desk) -> u64 {
    fn size(path: &std::path::Path) -> u64 {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().map_or(0, |it| it.len()) }).sum()
    }
    size(&desk.data().join("logs"))
}

/// Waits until nothing more is stored.
fn until_it_waits(desk: &Desk) {
    let mut seen = 0;
    until("it has printed all that it may", || {
        let before = std::mem::replace(&mut seen, stored(desk));
        std::thread::sleep(Duration::from_millis(200));
        before == seen && seen > 32 << 20
    });
}

#[test]
fn a_slow_reader_gets_every_byte() {
    let desk = Desk::new();
    let (mut child, mut stdout) = piped(desk.command(&["run", "--", "seq", "1", "35000000"]));
    until_it_waits(&desk);
    let mut expected = Sequence::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let length = stdout.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        expected.take(&buffer[..length]);
        assert!(stored(&desk) < 72 << 20);
        if expected.read % (64 << 20) < length as u64 {
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(expected.is_at(35_000_000) && expected.read > 300_000_000, "{}", expected.read);
}

#[test]
fn a_slow_reader_gets_every_byte_although_the_server_is_killed() {
    let mut desk = Desk::new();
    let (mut child, mut stdout) = piped(desk.command(&["run", "--", "sh", "-c", "seq 1 20000000; exit 7"]));
    until_it_waits(&desk);
    let mut expected = Sequence::new();
    let mut buffer = vec![0; 1 << 20];
    let mut kills = vec![100 << 20, 30 << 20, 0];
    loop {
        if kills.last().is_some_and(|at| expected.read >= *at) {
            kills.pop();
            let directory = desk.server().directory();
            desk.server_mut().kill();
            *desk.server_mut() = Server::builder().on(directory).start();
        }
        let length = stdout.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        expected.take(&buffer[..length]);
    }
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert!(expected.is_at(20_000_000) && kills.is_empty(), "{}", expected.read);
}

#[test]
fn a_program_goes_on_when_whoever_stalled_it_is_killed() {
    let desk = Desk::new();
    let (mut child, stdout) = piped(desk.command(&["run", "--", "sh", "-c", "seq 1 20000000; echo $? > code"]));
    until_it_waits(&desk);
    let memory = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().to_owned();
        line.trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    for pid in [child.id(), desk.server().pid().cast_unsigned()] {
        assert!(memory(pid) < 300 << 10, "{pid} keeps {} KiB of what nobody reads", memory(pid));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdout);
    until("the program has ended", || desk.work().join("code").exists());
    until("and has said how", || desk.read("code") == "0\n");
}
