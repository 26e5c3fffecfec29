//! One server at a time, asked to end or found dead.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;

use super::{ENVIRONMENTS, create, eventually};
use crate::support::Server;

#[test]
fn a_second_server_on_one_directory_is_refused_and_told_by_whom() {
    let server = Server::start();
    let Err((status, stderr)) = Server::builder().on(server.directory()).try_start() else { panic!("two servers on one directory") };
    assert_eq!(status, 3);
    assert!(stderr.contains("store_in_use") || stderr.contains("another server uses"), "{stderr}");
    assert!(stderr.contains(&format!("process {}", server.pid())), "{stderr}");
    assert!(stderr.contains("--data-dir"), "it says what to do: {stderr}");
    assert_eq!(create(&server.http(), "unharmed").unwrap().status, 201);
    assert!(server.command(&["status"]).output().unwrap().status.success(), "its socket is still its own");
}

#[test]
fn asked_to_end_it_finishes_what_is_under_way_and_cleans_up() {
    let mut server = Server::start();
    let address = server.address.trim_start_matches("http://").to_owned();
    let body = br#"{"name": "last"}"#;
    let head = format!(
        "POST {ENVIRONMENTS} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        server.owner_key(),
        body.len()
    );
    let mut under_way = TcpStream::connect(&address).unwrap();
    under_way.write_all(head.as_bytes()).unwrap();
    let mut replies = BufReader::new(under_way.try_clone().unwrap());
    let mut line = String::new();
    replies.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 100"), "the server is waiting for the body: {line}");
    replies.read_line(&mut line).unwrap();
    // One that only sits there does not hold it up.
    let mut idle = TcpStream::connect(&address).unwrap();

    let pid = rustix::process::Pid::from_raw(server.pid()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    eventually("no new connection is taken", || TcpStream::connect(&address).is_err().then_some(()));
    assert_eq!(idle.read(&mut [0; 16]).unwrap_or(0), 0, "the idle one is closed");
    under_way.write_all(body).unwrap();
    let mut rest = String::new();
    replies.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("HTTP/1.1 201"), "{rest}");
    // Asked once more, it is already at it.
    assert_eq!(server.terminate(), Some(0));
    assert!(!server.path().join("stead.sock").exists() && !server.path().join("address").exists());

    let next = Server::builder().on(server.directory()).start();
    let listed = next.http().get(&format!("{ENVIRONMENTS}?name=last")).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}

#[test]
fn it_can_be_ended_as_soon_as_it_has_said_where_it_is() {
    for _ in 0..5 {
        let mut server = Server::start();
        assert_eq!(server.terminate(), Some(0));
        assert!(!server.path().join("stead.sock").exists() && !server.path().join("address").exists());
    }
}

#[test]
fn what_a_killed_server_left_is_replaced() {
    let mut server = Server::start();
    let socket = server.path().join("stead.sock");
    server.kill();
    assert!(std::fs::metadata(&socket).unwrap().file_type().is_socket(), "a crash leaves it");
    assert!(UnixStream::connect(&socket).is_err());
    let next = Server::builder().on(server.directory()).start();
    assert_eq!(std::fs::read_to_string(next.path().join("address")).unwrap().trim(), next.address);
    assert!(next.command(&["env", "list"]).output().unwrap().status.success(), "over the new socket");
    assert_eq!(next.http().get("/readyz").status, 200);
}
