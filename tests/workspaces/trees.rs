//! Whole trees, searches and events over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Home, can_run};
use crate::api::world::{expect, refused};
use crate::support::Server;

fn spec() -> Value {
    json!({"sandbox": {"network_access": "disabled"}})
}

/// What `tar` makes of a directory.
fn packed(directory: &std::path::Path) -> Vec<u8> {
    let output = Command::new("tar").arg("-C").arg(directory).args(["-cf", "-", "."]).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[test]
fn trees_go_in_and_out_asleep_and_awake() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "trees", spec());
    let source = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(source.path().join("deep")).unwrap();
    std::fs::write(source.path().join("deep/file"), vec![7; 3_000_000]).unwrap();
    std::os::unix::fs::symlink("deep/file", source.path().join("link")).unwrap();
    let written = home.http.send("PUT", &home.path("/files/archive?path=in/tree"), &[("Expect", "")], Some(&packed(source.path())));
    assert_eq!(expect(&written, 200), json!({"entries": 4, "size": 3_000_000}));
    assert_eq!(home.works("cd in/tree; readlink link; stat -c %s deep/file"), "deep/file\n3000000\n");
    expect(&home.http.post(&home.path("/sleep"), json!({})), 200);
    let archive = home.http.get(&home.path("/files/archive?path=in/tree"));
    assert_eq!((archive.status, archive.header("content-type")), (200, Some("application/x-tar")));
    assert_eq!(archive.header("content-disposition"), Some("attachment"));
    let mut listing = Command::new("tar").args(["-tf", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    listing.stdin.take().unwrap().write_all(&archive.body).unwrap();
    let listing = listing.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(listing.stdout).unwrap(), "./\ndeep/\ndeep/file\nlink\n");
    refused(&home.http.get(&home.path("/files/archive?path=nothing")), 404, "file_not_found");
    refused(&home.http.get(&home.path("/files/archive")), 400, "invalid_field");
    let wrong = home.http.send("PUT", &home.path("/files/archive?path=x"), &[("Expect", "")], Some(&[b'x'; 600]));
    refused(&wrong, 400, "invalid_archive");
    let audit = expect(&home.http.get("/v1/projects/default/audit?limit=200"), 200);
    assert!(audit["items"].as_array().unwrap().iter().any(|item| item["action"] == "environment.files.unpack"), "{audit}");
}

#[test]
fn searches_answer_line_by_line_and_say_when_they_are_over() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "searches", spec());
    home.works("mkdir src; seq 1 5000 | sed 's/^/line /' > src/a.txt; echo 'line 7' > src/b.md");
    let reply = home.http.get(&home.path("/files/grep?pattern=line%207$&glob=*.txt&glob=*.md"));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/x-ndjson")));
    let lines: Vec<Value> = reply.body.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2], json!({"type": "end", "matches": 2, "files": 2, "skipped": 0, "truncated": false}));
    assert!(lines.iter().any(|line| line["path"] == "src/a.txt" && line["line_number"] == 7), "{lines:?}");
    let reply = home.http.get(&home.path("/files/grep?pattern=line&limit=4000"));
    assert_eq!(reply.body.iter().filter(|byte| **byte == b'\n').count(), 4001);
    let found = expect(&home.http.get(&home.path("/files/find?pattern=*.md")), 200);
    assert_eq!((&found["items"][0]["path"], &found["truncated"]), (&"src/b.md".into(), &false.into()));
    for wrong in [
        "grep",
        "grep?pattern=(",
        "grep?pattern=x&context=101",
        "grep?pattern=x&limit=0",
        "find?pattern=[",
        "find?limit=10001",
        "find?what=x",
    ] {
        refused(&home.http.get(&home.path(&format!("/files/{wrong}"))), 400, "invalid_field");
    }
    refused(&home.http.get(&home.path("/files/grep?pattern=x&path=nothing")), 404, "file_not_found");
}

fn ask(server: &Server, path: &str, headers: &str) -> BufReader<TcpStream> {
    let address = std::fs::read_to_string(server.path().join("address")).unwrap();
    let mut socket = TcpStream::connect(address.trim().trim_start_matches("http://")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let key = server.owner_key();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n{headers}\r\n").unwrap();
    let mut reader = BufReader::new(socket);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line == "\r\n" {
            return reader;
        }
    }
}

#[test]
fn changes_are_told_as_events_and_over_a_socket() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "watched", spec());
    home.works("mkdir -p w/deep");
    let mut events = ask(&server, &home.path("/files/watch?path=w&recursive=true"), "");
    let upgrade =
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut socket = ask(&server, &home.path("/files/watch?path=w&recursive=true"), upgrade);
    home.works("touch w/deep/x; mv w/deep/x w/deep/y");
    let mut line = String::new();
    while !line.contains("\"moved\"") {
        line.clear();
        assert_ne!(events.read_line(&mut line).unwrap(), 0);
    }
    assert_eq!(line.trim(), r#"data: {"type":"moved","from":{"path":"w/deep/x"},"to":{"path":"w/deep/y"}}"#);
    let mut told = Vec::new();
    while !told.iter().any(|text: &String| text.contains("moved")) {
        // Frames of a server are not masked, and these are short.
        let mut head = [0; 2];
        socket.read_exact(&mut head).unwrap();
        let mut payload = vec![0; usize::from(head[1])];
        socket.read_exact(&mut payload).unwrap();
        told.push(String::from_utf8(payload).unwrap());
    }
    assert_eq!(told[0], r#"{"type":"created","path":"w/deep/x"}"#);
    // Whoever goes takes the process inside along: then it can fall asleep without force.
    drop((events, socket));
    expect(&home.http.post(&home.path("/sleep"), json!({})), 200);
    refused(&home.http.get(&home.path("/files/watch?path=nothing")), 404, "file_not_found");
}
