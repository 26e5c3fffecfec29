//! What comes back into the place.

use std::io::{Read, Write};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use super::hosts::{Hosts, STANDS, VALUE, bound, own_roots, request, seal};
use crate::support::{connect, is_root, rest};

fn get() -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: api.example\r\nAuthorization: Bearer {STANDS}\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n")
        .into_bytes()
}

fn chunked(pieces: &[&[u8]]) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        all.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        all.extend(*piece);
        all.extend(b"\r\n");
    }
    all
}

/// Every form that a program may print it in, in headers, in the body at every split, and in trailers.
#[tokio::test(flavor = "multi_thread")]
async fn values_become_placeholders_wherever_they_come_back() {
    if !is_root() {
        return;
    }
    use base64::Engine;
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let encoded = base64::engine::general_purpose::STANDARD.encode(VALUE);
    let hexadecimal: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent = VALUE.replace('/', "%2F").replace('+', "%2B");
    let forms = [VALUE.to_owned(), encoded, hexadecimal, percent, VALUE.replace('/', "\\/")];
    let next = Arc::new(Mutex::new(Vec::<Vec<u8>>::new()));
    let replies = next.clone();
    hosts.sealed("api.example", 443, move |stream| {
        if request(stream).is_some()
            && let Some(reply) = replies.lock().unwrap().pop()
        {
            stream.write_all(&reply).unwrap();
        }
    });
    for form in &forms {
        let head = format!(
            "HTTP/1.1 200 {VALUE}\r\nLocation: https://x/?t={form}\r\nSet-Cookie: a={form}; b\r\nX-{VALUE_NAME}: 1\r\nTrailer: x-last\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let body = format!("before {form} after");
        for cut in (0..body.len()).step_by(3) {
            let (first, second) = body.as_bytes().split_at(cut);
            let reply = [head.as_bytes(), &chunked(&[first, second]), format!("0\r\nX-Last: {form}\r\n\r\n").as_bytes()].concat();
            next.lock().unwrap().push(reply);
            let got = hosts.ask("api.example", 443, get()).await;
            assert!(!got.contains(form.as_str()) && !got.contains(VALUE), "cut at {cut}: {got}");
            assert!(got.starts_with("HTTP/1.1 200 OK\r\n"), "{got}");
            assert_eq!(got.matches(STANDS).count(), 4, "{got}");
        }
    }
}

/// As a header's name the value has no upper case and only what names may have; this one has neither.
const VALUE_NAME: &str = "correct-horse-battery";

#[tokio::test(flavor = "multi_thread")]
async fn events_flow_as_they_come() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let (go, told) = channel::<()>();
    let (go, told) = (Arc::new(Mutex::new(go)), Mutex::new(told));
    hosts.sealed("api.example", 443, move |stream| {
        request(stream).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        // The last byte is the first of the value, and nothing follows until this was heard.
        for event in [&b"data: one\n\n"[..], b"data: c"] {
            stream.write_all(&chunked(&[event])).unwrap();
            told.lock().unwrap().recv().unwrap();
        }
        stream.write_all(&[&chunked(&[VALUE.as_bytes()])[..], b"0\r\n\r\n"].concat()).unwrap();
    });
    let reply = hosts
        .world
        .inside
        .run(move || {
            let mut stream = seal(connect("api.example", 443), "api.example", &own_roots());
            stream.write_all(&get()).unwrap();
            let (mut said, mut byte) = (Vec::new(), [0]);
            for end in [&b"data: one\n\n"[..], b"\r\n1\r\nc"] {
                while !said.ends_with(end) {
                    stream.read_exact(&mut byte).unwrap();
                    said.push(byte[0]);
                }
                go.lock().unwrap().send(()).unwrap();
            }
            String::from_utf8(said).unwrap() + &rest(&mut stream)
        })
        .await;
    assert!(!reply.contains(VALUE), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_looked_into_is_not_let_in() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    hosts.sealed("api.example", 443, move |stream| {
        let Some(request) = request(stream) else { return };
        let coding = if request.starts_with("GET /deflate") { "deflate" } else { "gzip" };
        kept.lock().unwrap().push(request);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: 5\r\n\r\nxxxxx");
        stream.write_all(head.as_bytes()).unwrap();
    });
    for path in ["/", "/deflate"] {
        let said =
            String::from_utf8(get()).unwrap().replace("GET /", &format!("GET {path}")).replace("TE: trailers", "Accept-Encoding: gzip, br");
        let reply = hosts.ask("api.example", 443, said).await;
        assert!(reply.starts_with("HTTP/1.1 502") && reply.to_lowercase().contains("stead-egress: encoded_reply"), "{reply}");
    }
    let seen = seen.lock().unwrap();
    assert!(
        seen.iter().all(|request| request.to_lowercase().contains("accept-encoding: identity") && !request.contains("gzip")),
        "{seen:?}"
    );
}

/// Far more than any buffer, with the value at its end.
#[tokio::test(flavor = "multi_thread")]
async fn large_replies_pass_and_lengths_are_told_only_where_they_are_known() {
    if !is_root() {
        return;
    }
    const LARGE: usize = 16 << 20;
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    hosts.sealed("api.example", 443, |stream| {
        request(stream).unwrap();
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", LARGE + VALUE.len()).as_bytes()).unwrap();
        for _ in 0..16 {
            stream.write_all(&vec![b'x'; LARGE / 16]).unwrap();
        }
        stream.write_all(VALUE.as_bytes()).unwrap();
    });
    let reply = hosts.ask("api.example", 443, get()).await;
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.to_lowercase().contains("transfer-encoding: chunked") && !head.to_lowercase().contains("content-length"), "{head}");
    assert!(body.len() > LARGE && body.matches('x').count() >= LARGE);
    assert!(body.contains(STANDS) && !body.contains(VALUE));
}
