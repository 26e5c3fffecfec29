//! Clients that begin and do not go on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Http, Server};

/// What a client that sends this and then nothing more is answered before it is cut off.
fn stall(http: &str, beginning: &str) -> String {
    let mut socket = TcpStream::connect(http.trim_start_matches("http://")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    socket.write_all(beginning.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("the server ends the connection");
    answer
}

#[test]
fn slow_clients_are_cut_off() {
    let server = Server::start();
    let (address, key) = (server.address.clone(), server.owner_key());
    let body = format!(
        "POST /v1/projects/default/environments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: 100\r\n\r\n{{"
    );
    std::thread::scope(|scope| {
        let head = scope.spawn(|| stall(&address, "GET /v1/projects HTTP/1.1\r\nHost: x\r\nX-Slow: "));
        let body = scope.spawn(|| stall(&address, &body));
        // Meanwhile everybody else is served.
        assert_eq!(Http::new(&address, Some(key.clone())).get("/v1/identity").status, 200);
        let head = head.join().unwrap();
        assert!(head.is_empty() || head.starts_with("HTTP/1.1 4"), "{head}");
        let body = body.join().unwrap();
        assert!(body.starts_with("HTTP/1.1 4") && body.contains("did not arrive in time"), "{body}");
    });
}
