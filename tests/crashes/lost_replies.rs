//! A caller that never hears the answer repeats its request and gets it.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{ENVIRONMENTS, all, assert_whole, create, eventually, text};
use crate::support::Server;

/// Sends a create and hangs up before anything can come back.
fn send_and_leave(server: &Server, name: &str) {
    let body = serde_json::json!({ "name": name }).to_string();
    let address = server.address.trim_start_matches("http://");
    let head = format!(
        "POST {ENVIRONMENTS} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nIdempotency-Key: {name}\r\nContent-Length: {}\r\n\r\n",
        server.owner_key(),
        body.len()
    );
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
}

#[test]
fn a_request_whose_reply_was_lost_is_repeated_and_made_once() {
    let server = Server::start();
    let http = server.http();
    let names: Vec<String> = (0..60).map(|number| format!("lost-{number}")).collect();
    for name in &names {
        send_and_leave(&server, name);
    }
    let mut ids = Vec::new();
    for name in &names {
        // The first attempt may still be under way: then the server says so, and says to come again.
        let made = eventually("an answer", || {
            let reply = create(&http, name).unwrap();
            match reply.status {
                201 => Some(reply.json()),
                409 if reply.code() == "idempotency_in_progress" => {
                    assert!(reply.header("retry-after").is_some());
                    None
                }
                _ => panic!("{}", reply.json()),
            }
        });
        ids.push(text(&made, "id").to_owned());
        let again = create(&http, name).unwrap();
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
        assert_eq!(again.json()["id"], made["id"]);
    }
    let live = assert_whole(&server, &all(&http));
    assert_eq!(live.len(), names.len() + 1);
    for (name, id) in names.iter().zip(&ids) {
        assert_eq!(live.get(name), Some(id));
    }
}

#[test]
fn the_same_key_many_times_at_once_makes_one() {
    let server = Server::start();
    let threads: Vec<_> = (0..40)
        .map(|_| {
            let http = server.http();
            std::thread::spawn(move || eventually("an answer", || create(&http, "once").ok().filter(|reply| reply.status == 201)).json())
        })
        .collect();
    let replies: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(replies.iter().all(|reply| reply["id"] == replies[0]["id"]));
    assert_eq!(assert_whole(&server, &all(&server.http())).len(), 2);
}

#[test]
fn a_caller_that_leaves_in_the_middle_of_its_request_made_nothing() {
    let server = Server::start();
    let address = server.address.trim_start_matches("http://").to_owned();
    for part in ["POST /v1/proj", "POST /v1/projects/default/environments HTTP/1.1\r\nHost: x\r\n"] {
        let mut socket = TcpStream::connect(&address).unwrap();
        socket.write_all(part.as_bytes()).unwrap();
    }
    let head = format!(
        "POST {ENVIRONMENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nIdempotency-Key: half\r\nContent-Length: 100\r\n\r\n{{\"name\": \"half\"",
        server.owner_key()
    );
    let mut socket = TcpStream::connect(&address).unwrap();
    socket.write_all(head.as_bytes()).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    let mut reply = String::new();
    let _ = socket.read_to_string(&mut reply);
    assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 400"), "{reply}");
    assert_eq!(assert_whole(&server, &all(&server.http())).len(), 1);
    // The key was not used up by it.
    assert_eq!(create(&server.http(), "half").unwrap().status, 201);
}
