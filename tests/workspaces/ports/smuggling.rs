//! Requests whose end can be seen in two ways, and what hides behind them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::{Harbour, harbour_spec, passing::header_of};
use crate::support::Server;
use crate::workspaces::can_run;

const HIDDEN: &str = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

/// Everything that is answered until the server hangs up, although nobody asked it to: a server that keeps the connection fails this.
fn until_hung_up(address: &str, sent: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.write_all(sent.as_bytes()).unwrap();
    let mut heard = Vec::new();
    let outcome = socket.read_to_end(&mut heard);
    let heard = String::from_utf8_lossy(&heard).into_owned();
    match outcome {
        Ok(_) => heard,
        // Bytes that were still on the way when it hung up.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => heard,
        Err(error) => panic!("{error} after {heard}"),
    }
}

#[test]
fn nobody_smuggles_a_request_past_the_door() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("pages", 8001);
    let (host, bearer) = (harbour.host(8001), harbour.bearer());
    let length = HIDDEN.len();
    let both = format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n");
    let other_way_around = format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n");
    let ambiguous = [
        both.as_str(),
        other_way_around.as_str(),
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "X-Folded: one\r\n two\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
    ];
    let head = format!("POST /a HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\n");
    for wrong in ambiguous {
        let heard = until_hung_up(&harbour.address, &format!("{head}{wrong}\r\n{HIDDEN}"));
        assert!(heard.starts_with("HTTP/1.1 400") && heard.matches("HTTP/1.1").count() == 1, "{wrong}: {heard}");
        // The same after a request that is in order, over the same connection.
        let first = format!("{head}Content-Length: 2\r\n\r\nhi{head}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
        let heard = until_hung_up(&harbour.address, &format!("{first}{head}{wrong}\r\n{HIDDEN}"));
        assert!(heard.contains("HTTP/1.1 400") && !heard.contains("smuggled"), "{wrong}: {heard}");
    }
    assert!(!harbour.notes().contains("smuggled"), "{}", harbour.notes());
    // Whoever asks in order is answered over one connection, whatever the bodies hold.
    let sized = format!("{head}Content-Length: {length}\r\n\r\n{HIDDEN}");
    let pieces = format!("{head}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{HIDDEN}\r\n0\r\n\r\n");
    let last = format!("GET /last HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n");
    let heard = until_hung_up(&harbour.address, &format!("{sized}{pieces}{sized}{last}"));
    assert_eq!(heard.matches("HTTP/1.1 200").count(), 4, "{heard}");
    assert!(!harbour.notes().contains("smuggled"), "{}", harbour.notes());
}

#[test]
fn the_api_believes_no_request_that_ends_in_two_ways() {
    let server = Server::start();
    let address = server.address.trim_start_matches("http://");
    let head = format!("POST /v1/projects HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n", server.owner_key());
    let body = r#"{"handle":"smuggled"}"#;
    for both in ["Content-Length: 30\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 30\r\n"] {
        let sent = format!("{head}Content-Type: application/json\r\n{both}\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        let heard = until_hung_up(address, &sent);
        assert!(heard.starts_with("HTTP/1.1 400") && heard.contains("bad_request"), "{heard}");
    }
    assert!(!server.http().get("/v1/projects").json().to_string().contains("smuggled"));
}

#[test]
fn another_version_of_http_is_not_upgraded_to() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("pages", 8001);
    let bearer = harbour.bearer();
    let upgrade =
        [("Authorization", bearer.as_str()), ("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")];
    let plain = harbour.ask(8001, "GET", "/h2c", &upgrade[..], b"");
    assert_eq!(plain.status, 200);
    assert_eq!(header_of(&plain.json(), "upgrade"), None);
}
