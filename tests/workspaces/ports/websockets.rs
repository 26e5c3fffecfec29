use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::{Harbour, harbour_spec, until};
use crate::support::Server;
use crate::workspaces::can_run;

/// The socket after the head of the answer, and the head.
fn open(harbour: &Harbour<'_>, headers: &str) -> (TcpStream, String) {
    let mut socket = TcpStream::connect(&harbour.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!(
        "GET /socket HTTP/1.1\r\nHost: {}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n",
        harbour.host(8004)
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if socket.read(&mut byte).unwrap() == 0 {
            break;
        }
        head.push(byte[0]);
    }
    (socket, String::from_utf8(head).unwrap().to_lowercase())
}

fn say(socket: &mut TcpStream, text: &str) -> String {
    let mask = [1_u8, 2, 3, 4];
    let mut frame = vec![0x81, 0x80 | text.len() as u8];
    frame.extend(mask);
    frame.extend(text.bytes().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
    socket.write_all(&frame).unwrap();
    let mut head = [0; 2];
    socket.read_exact(&mut head).unwrap();
    let mut heard = vec![0; usize::from(head[1])];
    socket.read_exact(&mut heard).unwrap();
    String::from_utf8(heard).unwrap()
}

#[test]
fn a_websocket_goes_through_with_a_key_or_a_signed_url_and_with_no_foreign_page() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("websocket", 8004);
    let key = format!("Authorization: {}\r\n", harbour.bearer());
    let (mut socket, head) = open(&harbour, &key);
    // The answer to the question of the standard's own example.
    assert!(head.starts_with("http/1.1 101") && head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
    for text in ["first", "second", "ünïcode"] {
        assert_eq!(say(&mut socket, text), text);
    }
    drop(socket);
    until("the end goes through", || harbour.notes().contains("socket closed"));
    assert!(!harbour.notes().contains("authorization") && harbour.notes().contains("x-forwarded-host"), "{}", harbour.notes());

    let token = harbour.signed(8004, "1h").split('=').next_back().unwrap().to_owned();
    let cookie = format!("Cookie: __stead_port={token}\r\n");
    let own = format!("{cookie}Origin: http://{}\r\n", harbour.host(8004));
    let (mut socket, _) = open(&harbour, &own);
    assert_eq!(say(&mut socket, "mine"), "mine");
    // A neighbour's page may make the browser send the cookie, and gets nothing for it.
    for foreign in [harbour.host(8001), "evil.example".to_owned(), "null".to_owned()] {
        let (_, head) = open(&harbour, &format!("{cookie}Origin: http://{foreign}\r\n"));
        assert!(head.starts_with("http/1.1 403"), "{foreign}: {head}");
    }
    let (_, head) = open(&harbour, "");
    assert!(head.starts_with("http/1.1 401"), "{head}");
    // Whoever asked for no upgrade is not made to speak something else.
    let reply = harbour.ask(8004, "GET", "/", &[("Authorization", &harbour.bearer()), ("Sec-WebSocket-Key", "x")], b"");
    assert_eq!((reply.status, reply.code().as_str()), (502, "port_failed"));
}
