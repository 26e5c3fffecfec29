//! What a place says, however it says it and whoever listens: no value is in it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::place::{Place, VALUE, nowhere, set_by_hand};
use crate::api::world::expect;
use crate::leases::until;
use crate::support::Server;

/// Says the value in every encoding that is looked for, each cut in two where it hurts, in writes of their own.
const ENCODINGS: &str = r#"
import base64, binascii, html, json, os, shlex, sys, time, urllib.parse
value = os.environ['TOKEN']
raw = value.encode()
forms = [raw, base64.b64encode(raw), base64.b64encode(b'x' + raw), base64.b64encode(b'xy' + raw), base64.b64encode(raw + b'tail'),
         base64.urlsafe_b64encode(raw), binascii.hexlify(raw), binascii.hexlify(raw).upper(), urllib.parse.quote(value, safe='').encode(),
         urllib.parse.quote_plus(value).encode(), json.dumps(value).encode(), json.dumps(json.dumps(value)).encode(),
         html.escape(value).encode(), shlex.quote(value).encode(), base64.b32encode(raw)]
for form in forms:
    for at in (1, len(form) // 2, len(form) - 1):
        for part in (b'<', form[:at], form[at:], b'>\n'):
            os.write(1, part)
"#;

/// What must be in nothing that was said: a few bytes from the middle of each encoding.
fn traces() -> Vec<&'static str> {
    vec!["L1ZAbHVlKy", "dC9WQGx1ZS", "M3QvVkBsdW", "33742f5640", "33742F5640", "OQXVMQDMOV", "r3t/V@lue", "t%2FV%40lue", "lue+&amp;&lt;"]
}

fn assert_clean(text: &str) {
    for trace in traces() {
        assert!(!text.contains(trace), "{trace}: {text}");
    }
    assert!(text.contains("***TOKEN***"), "{text}");
}

fn ask(server: &Server, path: &str, headers: &str) -> BufReader<TcpStream> {
    let mut socket = TcpStream::connect(server.address.trim_start_matches("http://")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n{headers}\r\n", server.owner_key()).unwrap();
    BufReader::new(socket)
}

#[test]
fn every_encoding_is_taken_out_of_everything_that_is_heard() {
    let server = Server::start();
    set_by_hand(&server, "TOKEN", VALUE);
    let place = Place::new(&server, json!([{ "name": "TOKEN" }]));
    let say = json!({ "argv": ["python3", "-c", format!("import sys; sys.stdin.readline()\n{ENCODINGS}")], "stdin": "open" });
    let process = place.begins(say);
    // Those who follow live: as events, as a plain stream, and over a socket.
    let mut events = ask(&server, &format!("{process}/logs?follow=true"), "Accept: text/event-stream\r\nConnection: close\r\n");
    let mut plain = ask(&server, &format!("{process}/logs?follow=true"), "Connection: close\r\n");
    let upgrade =
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut socket = ask(&server, &format!("{process}/logs?follow=true"), upgrade);
    place.tell(&process, "go\n");
    assert_eq!(place.waits(&process)["exit"]["code"], 0);
    let (mut heard, mut followed, mut framed) = (String::new(), Vec::new(), Vec::new());
    events.read_to_string(&mut heard).unwrap();
    plain.read_to_end(&mut followed).unwrap();
    socket.read_to_end(&mut framed).unwrap();
    let stored = place.logs(&process);
    assert_clean(&stored);
    assert_eq!(stored.matches("***TOKEN***").count(), 45, "each of them, wherever it was cut: {stored}");
    assert!(String::from_utf8_lossy(&followed).contains(&stored[..200]));
    for text in [heard, String::from_utf8_lossy(&framed).into_owned()] {
        assert!(traces().iter().all(|trace| !text.contains(trace)), "{text}");
        assert!(text.contains("TOKEN") || text.contains("output"), "{text}");
    }
    // A terminal says the same, with its own line ends.
    let terminal = json!({ "argv": ["python3", "-c", ENCODINGS], "terminal": { "rows": 24, "cols": 80 } });
    let process = place.begins(terminal);
    place.waits(&process);
    assert_clean(&place.logs(&process));
    nowhere(&server, &[VALUE]);
    expect(&place.http.delete(&place.path("")), 200);
}

#[test]
fn what_is_said_while_no_server_is_there_is_taken_out_too() {
    let mut server = Server::start();
    set_by_hand(&server, "TOKEN", VALUE);
    let place = Place::new(&server, json!([{ "name": "TOKEN" }]));
    let script = "while [ ! -e go ]; do sleep 0.02; done; printf %s \"$TOKEN\" | head -c 9; printf %s \"${TOKEN#?????????}\"; echo; echo $TOKEN >&2; touch said; sleep 60";
    let process = place.begins(json!({ "argv": ["sh", "-c", script] }));
    let sandbox = crate::api::world::text(&expect(&place.http.get(&place.path("")), 200), "sandbox_id");
    let workspace = server.path().join("sandboxes").join(sandbox).join("workspace");
    server.kill();
    std::fs::write(workspace.join("go"), "").unwrap();
    until("it was said", || workspace.join("said").exists());
    let server = Server::builder().on(server.directory()).start();
    let place = Place { http: server.http(), id: place.id };
    until("it is stored", || place.logs(&process).matches("***TOKEN***").count() == 2);
    assert_clean(&place.logs(&process));
    nowhere(&server, &[VALUE]);
    expect(&place.http.delete(&place.path("")), 200);
}

#[test]
fn a_prompt_is_seen_at_once() {
    let server = Server::start();
    // It begins as the prompt ends.
    set_by_hand(&server, "TOKEN", ": hunter2-hunter2");
    let place = Place::new(&server, json!([{ "name": "TOKEN" }]));
    let process = place.begins(json!({ "argv": ["sh", "-c", "printf 'Password: '; read line; echo got"], "stdin": "open" }));
    let mut follower = ask(&server, &format!("{process}/logs?follow=true"), "Accept: text/event-stream\r\n");
    let (mut seen, mut bytes) = (String::new(), 0);
    while bytes < "Password: ".len() {
        let mut line = String::new();
        assert_ne!(follower.read_line(&mut line).unwrap(), 0, "{seen}");
        seen += &line;
        bytes = place.logs(&process).len();
    }
    assert_eq!(place.logs(&process), "Password: ");
    expect(&place.http.delete(&place.path("")), 200);
}
