//! A server that dies while a command runs: the command does not notice, and whoever follows it misses nothing.

use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use super::desk::Desk;
use super::run::until;
use crate::support::Server;

#[test]
fn every_byte_arrives_once_although_the_server_is_killed() {
    let mut desk = Desk::new();
    let (out, err) = (desk.home().join("out"), desk.home().join("err"));
    let script = "while read -r line; do echo out $line; echo err $line >&2; done; exit 9";
    let mut child = desk
        .command(&["run", "--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        for number in 0..400 {
            writeln!(stdin, "{number}").unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let lines = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default().lines().count();
    for wanted in [50, 150] {
        until("it is under way", || lines(&out) > wanted);
        let directory = desk.server().directory();
        desk.server_mut().kill();
        std::thread::sleep(Duration::from_millis(300));
        *desk.server_mut() = Server::builder().on(directory).start();
    }
    writer.join().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
    let expected = |word: &str| (0..400).map(|number| format!("{word} {number}\n")).collect::<String>();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), expected("out"));
    assert_eq!(std::fs::read_to_string(&err).unwrap(), expected("err"));
}
