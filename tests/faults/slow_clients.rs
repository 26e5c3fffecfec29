//! Clients that begin and do not go on are cut off, and nobody else waits for them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::crashes::{ENVIRONMENTS, create, proving};
use crate::support::Server;

/// Sends a beginning, then a byte now and then or nothing, and gives what comes back until the server hangs up.
fn stall(address: &str, beginning: &[u8], drip: Option<&[u8]>) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(beginning).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut heard = Vec::new();
    for _ in 0..400 {
        let mut part = [0; 4096];
        match socket.read(&mut part) {
            Ok(0) => return String::from_utf8_lossy(&heard).into_owned(),
            Ok(count) => heard.extend_from_slice(&part[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                // A server that hung up shows it at the next read.
                if let Some(drip) = drip {
                    let _ = socket.write_all(drip);
                }
            }
            Err(_) => return String::from_utf8_lossy(&heard).into_owned(),
        }
    }
    panic!("still connected after: {:?}", String::from_utf8_lossy(beginning));
}

#[test]
fn who_stalls_is_cut_off_and_nobody_else_waits() {
    let server = Server::start();
    let address = server.address.trim_start_matches("http://").to_owned();
    let authorization = format!("Authorization: Bearer {}\r\n", server.owner_key());
    let post = format!("POST {ENVIRONMENTS} HTTP/1.1\r\nHost: x\r\n");
    // What is sent, what drips after it, and how the answer begins.
    let mut cases: Vec<(&str, String, Option<&[u8]>, &str)> = vec![
        ("nothing at all", String::new(), None, ""),
        ("half of a method", "GE".to_owned(), None, ""),
        ("half of an HTTP/2 preface", "PRI * HTTP/2.0\r\n".to_owned(), None, ""),
        ("half of the headers", format!("{post}{authorization}X-Slow: "), None, ""),
        ("headers that drip", post.clone(), Some(b"X"), ""),
        ("no body, without a key", format!("{post}Content-Length: 50\r\n\r\n"), None, "HTTP/1.1 401"),
        ("half of a body", format!("{post}{authorization}Content-Length: 50\r\n\r\n{{\"name\""), None, "HTTP/1.1 400"),
        (
            "half of a body that may be repeated",
            format!("{post}{authorization}Idempotency-Key: k\r\nContent-Length: 50\r\n\r\n{{"),
            None,
            "HTTP/1.1 400",
        ),
        ("half of a chunk", format!("{post}{authorization}Transfer-Encoding: chunked\r\n\r\n20\r\n{{\"name\""), None, "HTTP/1.1 400"),
        ("nothing after an answer", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), None, "HTTP/1.1 200"),
    ];
    if proving() {
        // Each byte comes in time, and the whole never would.
        let body = format!("{post}{authorization}Content-Length: 1000000\r\n\r\n");
        cases.push(("a body that drips", body, Some(b"x"), "HTTP/1.1 400"));
        cases.push(("a whole HTTP/2 preface and nothing else", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), None, ""));
    }
    let stalled: Vec<_> = cases
        .into_iter()
        .flat_map(|case| std::iter::repeat_n(case, 3))
        .map(|(what, beginning, drip, answer)| {
            let address = address.clone();
            std::thread::spawn(move || {
                let heard = stall(&address, beginning.as_bytes(), drip);
                assert!(heard.starts_with(answer), "{what}: {heard}");
            })
        })
        .collect();
    let over = Arc::new(AtomicBool::new(false));
    let worker = {
        let (http, over) = (server.http(), Arc::clone(&over));
        std::thread::spawn(move || {
            for number in 0.. {
                assert_eq!(create(&http, &format!("busy-{number}")).unwrap().status, 201);
                if over.load(Ordering::SeqCst) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        })
    };
    let outcomes: Vec<_> = stalled.into_iter().map(std::thread::JoinHandle::join).collect();
    over.store(true, Ordering::SeqCst);
    worker.join().unwrap();
    outcomes.into_iter().for_each(|outcome| outcome.unwrap());
}

#[test]
fn two_thousand_that_only_sit_there_do_not_stop_service() {
    let server = Server::start();
    let address = server.address.trim_start_matches("http://").to_owned();
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).saturating_sub(200).min(2000);
    // The server may have no more than we: with few, it leaves some of us waiting, and still answers.
    let count = if allowed < 2000 { allowed / 4 } else { allowed };
    let crowd: Vec<TcpStream> = (0..count)
        .map(|number| {
            let mut socket = TcpStream::connect(&address).unwrap();
            if number % 2 == 0 {
                socket.write_all(b"GET /v1/pro").unwrap();
            }
            socket
        })
        .collect();
    let http = server.http();
    for number in 0..20 {
        assert_eq!(create(&http, &format!("c{number}")).unwrap().status, 201);
        assert_eq!(http.get(ENVIRONMENTS).status, 200);
    }
    let output = server.command(&["env", "list"]).output().unwrap();
    assert!(output.status.success(), "the unix socket has room of its own: {output:?}");
    drop(crowd);
    assert_eq!(http.get("/readyz").status, 200);
}
