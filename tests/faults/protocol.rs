//! Bytes that are not quite HTTP, and HTTP that is not quite reasonable.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::{assert_helpful, assert_refusal};
use crate::crashes::{Dice, ENVIRONMENTS, create, proving};
use crate::support::Server;

/// Sends these bytes, says that this was all, and gives everything that comes back.
fn exchange(server: &Server, bytes: &[u8]) -> Vec<u8> {
    converse(server, bytes, true)
}

/// The same; who does not say that this was all gets all answers, if the server knows by itself when to hang up.
fn converse(server: &Server, bytes: &[u8], that_is_all: bool) -> Vec<u8> {
    let mut socket = TcpStream::connect(server.address.trim_start_matches("http://")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let _ = socket.write_all(bytes);
    if that_is_all {
        let _ = socket.shutdown(std::net::Shutdown::Write);
    }
    let mut heard = Vec::new();
    let _ = socket.read_to_end(&mut heard);
    heard
}

fn statuses(heard: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(heard);
    text.match_indices("HTTP/1.1 ").filter_map(|(at, found)| text.get(at + found.len()..at + found.len() + 3)?.parse().ok()).collect()
}

fn assert_alive(server: &Server, name: &str) {
    let reply = create(&server.http(), name).unwrap();
    assert_eq!(reply.status, 201, "{}", reply.json());
}

#[test]
fn headers_are_bounded() {
    let server = Server::start();
    let http = server.http();
    let with = |size: usize| http.try_send("GET", ENVIRONMENTS, &[("X-Large", &"x".repeat(size))], None);
    assert_eq!(with(16 << 10).unwrap().status, 200);
    assert_helpful(&with(40 << 10).unwrap(), 431, "headers_too_large");
    // Beyond what the socket takes, the protocol itself answers, or hangs up on who does not stop sending.
    for size in [100 << 10, 8 << 20] {
        if let Ok(reply) = with(size) {
            assert_eq!(reply.status, 431);
        }
    }
    let many: String = (0..5000).map(|number| format!("X-{number}: y\r\n")).collect();
    let heard = exchange(&server, format!("GET {ENVIRONMENTS} HTTP/1.1\r\nHost: x\r\n{many}\r\n").as_bytes());
    assert!(statuses(&heard).iter().all(|status| *status == 431), "{:?}", statuses(&heard));
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(200 << 10));
    assert!(statuses(&exchange(&server, long.as_bytes())).iter().all(|status| matches!(status, 414 | 431)));
    assert_alive(&server, "after-headers");
}

#[test]
fn garbage_before_between_and_after_requests_is_refused() {
    let server = Server::start();
    let good = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let last = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let heard = converse(&server, format!("{good}{good}{last}").as_bytes(), false);
    assert_eq!(statuses(&heard), [200, 200, 200], "pipelined requests are answered in turn");
    let heard = converse(&server, format!("{good}\u{1}\u{2}garbage garbage\r\n\r\n{good}").as_bytes(), false);
    // What comes in one piece with it is refused with it.
    assert!([&[200, 400][..], &[400]].contains(&&statuses(&heard)[..]), "and nothing after garbage is: {:?}", statuses(&heard));

    let key = server.owner_key();
    let post = format!("POST {ENVIRONMENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n");
    // Two ways to say how long a body is, and both must be one: else a second request could hide in the first.
    let smuggled = "{\"name\": \"a\"}POST /v1/projects HTTP/1.1\r\nHost: x\r\n\r\n";
    for lengths in [
        "Content-Length: 13\r\nContent-Length: 14\r\n",
        "Content-Length: 13, 14\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Content-Length: 0x10\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip\r\n",
    ] {
        let heard = exchange(&server, format!("{post}{lengths}\r\n{smuggled}").as_bytes());
        assert!(statuses(&heard).len() <= 1, "{lengths}: {}", String::from_utf8_lossy(&heard));
        assert!(statuses(&heard).iter().all(|status| (400..500).contains(status)), "{lengths}: {}", String::from_utf8_lossy(&heard));
    }
    for chunks in ["zz\r\nabc\r\n", "-1\r\n", "FFFFFFFFFFFFFFFFF\r\n", "5;ext\r\nab", "3\r\nabcdef\r\n0\r\n\r\n"] {
        let heard = exchange(&server, format!("{post}Transfer-Encoding: chunked\r\n\r\n{chunks}").as_bytes());
        assert!(statuses(&heard).iter().all(|status| (400..500).contains(status)), "{chunks}: {}", String::from_utf8_lossy(&heard));
    }
    let both = format!("{post}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{{\"name\": \"both\"}}\r\n0\r\n\r\n");
    assert!(statuses(&exchange(&server, both.as_bytes())).len() <= 1);
    for line in [
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\u{0}b\r\n\r\n",
        "GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET \u{7f} HTTP/1.1\r\nHost: x\r\n\r\n",
        "\r\n\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}",
    ] {
        let heard = exchange(&server, line.as_bytes());
        assert!(statuses(&heard).iter().all(|status| (400..500).contains(status)), "{line:?}: {}", String::from_utf8_lossy(&heard));
    }
    for line in [
        "OPTIONS * HTTP/1.1",
        "CONNECT x:1 HTTP/1.1",
        "TRACE / HTTP/1.1",
        "BREW /v1/projects HTTP/1.1",
        "GET //v1//projects HTTP/1.1",
        "GET /v1/projects/ HTTP/1.1",
    ] {
        let heard = exchange(&server, format!("{line}\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n").as_bytes());
        assert!(statuses(&heard).iter().all(|status| (400..500).contains(status)), "{line:?}: {}", String::from_utf8_lossy(&heard));
    }
    assert_alive(&server, "after-garbage");
}

#[test]
fn random_bytes_never_end_the_server() {
    let server = Server::start();
    let mut dice = Dice(11);
    let good = format!("POST {ENVIRONMENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{{\"name\":\"x\"}}", server.owner_key()).into_bytes();
    for _ in 0..if proving() { 5000 } else { 300 } {
        // A good request with some bytes changed, dropped or doubled.
        let mut bytes = good.clone();
        for _ in 0..=dice.roll(4) {
            let at = dice.roll(bytes.len() as u64) as usize;
            match dice.roll(3) {
                0 => bytes[at] = dice.roll(256) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, dice.roll(256) as u8),
            }
        }
        let heard = exchange(&server, &bytes);
        assert!(
            statuses(&heard).iter().all(|status| *status < 500),
            "{:?}: {}",
            String::from_utf8_lossy(&bytes),
            String::from_utf8_lossy(&heard)
        );
    }
    assert_alive(&server, "after-noise");
}

/// One HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header as HPACK writes it without compression.
fn field(name: &str, value: &str) -> Vec<u8> {
    assert!(name.len() < 127 && value.len() < 127);
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

const HEADERS: u8 = 1;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;

/// What comes back, frame by frame, until so many streams have ended or the server hangs up.
fn http2(server: &Server, frames: &[Vec<u8>], streams: usize) -> Vec<(u8, u32, Vec<u8>)> {
    let mut socket = TcpStream::connect(server.address.trim_start_matches("http://")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let opening = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat();
    let _ = socket.write_all(&[opening, frames.concat()].concat());
    if streams == 0 {
        let _ = socket.shutdown(std::net::Shutdown::Write);
    }
    let (mut found, mut ended) = (Vec::new(), 0);
    let mut head = [0; 9];
    while (streams == 0 || ended < streams) && socket.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        if socket.read_exact(&mut payload).is_err() {
            break;
        }
        let (kind, flags, stream) = (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
        ended += usize::from(matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0);
        found.push((kind, stream, payload));
    }
    found
}

#[test]
fn http2_without_asking_first_is_spoken_and_its_abuse_survived() {
    let server = Server::start();
    let authorization = format!("Bearer {}", server.owner_key());
    let request = |path: &str| {
        [
            field(":method", "GET"),
            field(":scheme", "http"),
            field(":authority", "x"),
            field(":path", path),
            field("authorization", &authorization),
        ]
        .concat()
    };
    let frames = http2(&server, &[frame(1, 5, 1, &request("/v1/projects")), frame(1, 5, 3, &request("/v1/nothing"))], 2);
    let body = |stream: u32| -> Vec<u8> {
        frames.iter().filter(|(kind, of, _)| *kind == DATA && *of == stream).flat_map(|(_, _, payload)| payload.clone()).collect()
    };
    assert!(
        frames.iter().any(|(kind, stream, payload)| (*kind, *stream) == (HEADERS, 1) && payload.first() == Some(&0x88)),
        "200 on stream 1"
    );
    let listed: serde_json::Value = serde_json::from_slice(&body(1)).unwrap();
    assert_eq!(listed["items"][0]["handle"], "default");
    let refused: serde_json::Value = serde_json::from_slice(&body(3)).unwrap();
    assert_eq!(refused["error"]["code"], "not_found");

    // Opened and given up again and again, headers without an end, frames of nonsense, windows that overflow.
    let resets: Vec<Vec<u8>> =
        (0..2000u32).flat_map(|n| [frame(1, 5, 2 * n + 1, &request("/healthz")), frame(3, 0, 2 * n + 1, &[0, 0, 0, 8])]).collect();
    http2(&server, &resets, 0);
    let endless: Vec<Vec<u8>> = std::iter::once(frame(1, 1, 1, &request("/healthz")))
        .chain((0..2000).map(|_| frame(9, 0, 1, &field("x-more", "of the same").repeat(50))))
        .collect();
    http2(&server, &endless, 0);
    http2(&server, &[frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff])], 0);
    http2(&server, &[frame(200, 255, 12345, b"nonsense"), frame(6, 0, 0, b"short"), frame(4, 0, 0, &[1])], 0);
    http2(&server, &[frame(1, 5, 1, &[0xff; 64])], 0);
    assert_alive(&server, "after-http2");
}

#[test]
fn deep_and_large_json_is_refused_without_harm() {
    let server = Server::start();
    let http = server.http();
    let target = http.post(ENVIRONMENTS, serde_json::json!({ "name": "target" })).json();
    let target = format!("{ENVIRONMENTS}/{}", target["id"].as_str().unwrap());
    let deep = |open: &str, close: &str, depth: usize| format!("{}{}", open.repeat(depth), close.repeat(depth));
    for body in [
        deep("[", "]", 100_000),
        deep("{\"a\":", "}", 100_000),
        "[".repeat(500_000),
        format!("{{\"spec\": {}}}", deep("{\"sandbox\":", "}", 20_000)),
        format!("{{\"spec\": {}}}", deep("[", "]", 300)),
        format!("{{\"name\": {}}}", deep("[", "]", 200)),
        format!("{{\"tags\": {}}}", deep("{\"a\":", "}", 140)),
    ] {
        for (method, path) in [("POST", ENVIRONMENTS), ("PATCH", target.as_str())] {
            let reply = http.try_send(method, path, &[], Some(body.as_bytes())).unwrap();
            assert_refusal(&reply, &format!("{method} {}", &body[..40]));
        }
    }
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(2 << 20));
    assert_helpful(&http.try_send("POST", ENVIRONMENTS, &[], Some(large.as_bytes())).unwrap(), 413, "payload_too_large");
    // Without saying beforehand how large it is.
    let chunk = "x".repeat(64 << 10);
    let chunked = format!(
        "POST {ENVIRONMENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{}0\r\n\r\n",
        server.owner_key(),
        format!("10000\r\n{chunk}\r\n").repeat(40)
    );
    if let Ok(reply) = http.raw(chunked.as_bytes()) {
        assert_helpful(&reply, 413, "payload_too_large");
    }
    assert_alive(&server, "after-depth");
}
