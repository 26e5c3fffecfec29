//! What reaches the host.

use std::io::Write;
use std::sync::Arc;

use stead_egress::broker::{BrokeredText, Scheme};
use stead_egress::journal::Decision;

use super::hosts::{Hosts, STANDS, VALUE, basic, bound, own_roots, request, seal, with_scheme};
use crate::support::{ENVIRONMENT, connect, is_root, rest};

fn get(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: api.example\r\n{headers}Connection: close\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_value_goes_out_and_the_placeholder_comes_back() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = hosts.echo("api.example", 443);
    let reply = hosts.ask("api.example", 443, get("/a?b=c", &format!("X-Case: kept\r\nAuthorization: Bearer {STANDS}\r\n"))).await;
    let sent = seen.lock().unwrap().pop().unwrap();
    assert!(sent.starts_with("GET /a?b=c HTTP/1.1\r\n") && sent.contains(&format!("Authorization: Bearer {VALUE}\r\n")), "{sent}");
    assert!(sent.contains("X-Case: kept"), "{sent}");
    assert!(reply.contains(&format!("Authorization: Bearer {STANDS}\r\n")) && !reply.contains(VALUE), "{reply}");
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.to_lowercase().contains(&format!("content-length: {}", body.len())), "its length is what it became: {head}");
    let journal = hosts.world.journal(|entries| entries.iter().any(|entry| entry.decision == Decision::Closed)).await;
    let told: Vec<_> = journal.iter().filter(|entry| entry.decision == Decision::Brokered).collect();
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0].secrets[..], told[0].connection), (&["TOKEN".to_owned()][..], journal[0].connection));
    let written = std::fs::read(hosts.world.directory.path().join("journal").join(format!("{ENVIRONMENT}.jsonl"))).unwrap();
    assert!(!String::from_utf8_lossy(&written).contains(VALUE));
}

#[tokio::test(flavor = "multi_thread")]
async fn basic_and_queries_and_nowhere_else() {
    if !is_root() {
        return;
    }
    let query = BrokeredText { name: "KEY".to_owned(), query: Some("key".to_owned()), ..bound(&["api.example"]) };
    let hosts = Hosts::new(vec![with_scheme(Scheme::Basic, &["api.example"])]).await;
    let seen = hosts.echo("api.example", 443);
    let all = format!("X-Api-Key: {STANDS}\r\nCookie: a={STANDS}\r\nProxy-Authorization: {STANDS}\r\n");
    let authorization = format!("{all}Authorization: {}\r\n", basic(&format!("git:{STANDS}")));
    let posted = format!(
        "POST /{STANDS}?key={STANDS} HTTP/1.1\r\nHost: api.example\r\n{authorization}Content-Length: {}\r\nConnection: close\r\n\r\n{STANDS}",
        STANDS.len()
    );
    let reply = hosts.ask("api.example", 443, posted).await;
    let sent = seen.lock().unwrap().pop().unwrap();
    assert!(sent.contains(&basic(&format!("git:{VALUE}"))), "{sent}");
    assert!(!sent.contains(VALUE), "nowhere but there: {sent}");
    assert!(sent.starts_with(&format!("POST /{STANDS}?key={STANDS} ")) && sent.ends_with(STANDS), "{sent}");
    assert!(!reply.contains(VALUE) && !reply.contains(&basic(&format!("git:{VALUE}"))), "{reply}");
    let mut hosts = hosts;
    hosts.world.client.broker(ENVIRONMENT, super::hosts::text(vec![query])).await.unwrap();
    hosts.ask("api.example", 443, get(&format!("/{STANDS}?key={STANDS}&other={STANDS}"), &authorization)).await;
    let sent = seen.lock().unwrap().pop().unwrap();
    let encoded = VALUE.replace('/', "%2F").replace('+', "%2B");
    assert!(sent.starts_with(&format!("GET /{STANDS}?key={encoded}&other={STANDS} ")) && !sent.contains(VALUE), "{sent}");
    assert!(sent.contains(&basic(&format!("git:{STANDS}"))), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_another_host_is_never_put_in_here() {
    if !is_root() {
        return;
    }
    let other = BrokeredText { name: "OTHER".to_owned(), placeholder: format!("{STANDS}x"), ..bound(&["other.example"]) };
    let own = BrokeredText { value: stead_egress::broker::Value::new(b"something-else".to_vec()), ..bound(&["api.example"]) };
    let hosts = Hosts::new(vec![other, own]).await;
    let seen = hosts.echo("api.example", 443);
    hosts.ask("api.example", 443, get("/", &format!("Authorization: Bearer {STANDS}x\r\n"))).await;
    let sent = seen.lock().unwrap().pop().unwrap();
    assert!(!sent.contains(VALUE), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_only_where_the_binding_says_so() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![BrokeredText { body: true, ..bound(&["api.example"]) }]).await;
    let seen = hosts.echo("api.example", 443);
    let posted = format!(
        "POST / HTTP/1.1\r\nHost: api.example\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{{\"key\": \"{STANDS}\"}}",
        STANDS.len() + 11
    );
    let reply = hosts.ask("api.example", 443, posted).await;
    let sent = seen.lock().unwrap().pop().unwrap();
    assert!(sent.contains(&format!("{{\"key\": \"{VALUE}\"}}")) && sent.contains("chunked"), "{sent}");
    assert!(!reply.contains(VALUE) && reply.contains(STANDS), "{reply}");
}

/// The host answers the first half of the body before the second is sent: nothing is collected on the way.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_stream_and_whoever_expects_to_be_told_to_go_on_is_told() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let (half, arrived) = std::sync::mpsc::channel();
    let half = Arc::new(std::sync::Mutex::new(half));
    hosts.sealed("api.example", 443, move |stream| {
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !text.ends_with(b"first") {
            stream.read_exact(&mut byte).unwrap();
            text.push(byte[0]);
        }
        half.lock().unwrap().send(String::from_utf8(text.clone()).unwrap()).unwrap();
        while !text.ends_with(b"0\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            text.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").unwrap();
    });
    let reply = hosts
        .world
        .inside
        .run(move || {
            let mut stream = seal(connect("api.example", 443), "api.example", &own_roots());
            let head =
                "POST / HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            let mut told = [0; 25];
            std::io::Read::read_exact(&mut stream, &mut told).unwrap();
            assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
            stream.write_all(b"5\r\nfirst\r\n").unwrap();
            let head = arrived.recv().unwrap();
            assert!(!head.to_lowercase().contains("expect:"), "{head}");
            stream.write_all(b"6\r\nsecond\r\n0\r\n\r\n").unwrap();
            rest(&mut stream)
        })
        .await;
    assert!(reply.ends_with("done"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_serves_many_requests_and_each_is_looked_at() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = hosts.echo("api.example", 443);
    let one = format!("GET /1 HTTP/1.1\r\nHost: API.example:443\r\nAuthorization: token {STANDS}\r\n\r\n");
    let reply = hosts.ask("api.example", 443, one.clone() + &one.replace("GET /1", "GET /2") + &get("/3", "")).await;
    assert_eq!(reply.matches("HTTP/1.1 200 OK").count(), 3, "{reply}");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert!(seen[1].starts_with("GET /2 ") && seen[1].contains(VALUE) && !seen[2].contains(VALUE));
    assert!(seen.iter().all(|request| request.contains("Host: api.example\r\n") || request.contains("host: api.example\r\n")), "{seen:?}");
}

/// Python's own server, which knows nothing of any of this.
#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_server() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let directory = hosts.world.directory.path();
    let (certificate, key) = hosts.signer.host("api.example");
    let both = super::hosts::pem("CERTIFICATE", &certificate) + &super::hosts::pem("PRIVATE KEY", &key);
    std::fs::write(directory.join("server.pem"), both).unwrap();
    std::fs::write(directory.join("file.txt"), format!("the value is {VALUE}.\n")).unwrap();
    let script = "import http.server, ssl, sys\n\
        server = http.server.ThreadingHTTPServer((sys.argv[1], 443), http.server.SimpleHTTPRequestHandler)\n\
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
        context.load_cert_chain('server.pem')\n\
        server.socket = context.wrap_socket(server.socket, server_side=True)\n\
        print('ready', flush=True)\n\
        server.serve_forever()\n";
    let mut server = std::process::Command::new("python3")
        .args(["-c", script, &hosts.world.upstream.to_string()])
        .current_dir(directory)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut line).unwrap();
    let reply = hosts.ask("api.example", 443, get("/file.txt", "")).await;
    let head = hosts.ask("api.example", 443, get("/file.txt", "").replace("GET", "HEAD")).await;
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(reply.ends_with(&format!("the value is {STANDS}.\n")), "{reply}");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_are_let_through_and_what_comes_back_is_redacted() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    hosts.sealed("api.example", 443, |stream| {
        let head = request(stream).unwrap();
        assert!(head.contains(VALUE) && !head.to_lowercase().contains("permessage"), "{head}");
        stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Key: ").unwrap();
        stream.write_all(format!("{VALUE}\r\n\r\n").as_bytes()).unwrap();
        let mut frame = [0; 36];
        stream.read_exact(&mut frame).unwrap();
        // What it was sent, then the value, then the first letter of the value alone.
        stream.write_all(&[&frame[..], VALUE.as_bytes(), b"|c"].concat()).unwrap();
        let mut last = [0; 1];
        stream.read_exact(&mut last).unwrap();
        stream.write_all(&last).unwrap();
    });
    let reply = hosts
        .world
        .inside
        .run(|| {
            let mut stream = seal(connect("api.example", 443), "api.example", &own_roots());
            let head = format!(
                "GET / HTTP/1.1\r\nHost: api.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Extensions: permessage-deflate\r\nAuthorization: Bearer {STANDS}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(STANDS.as_bytes()).unwrap();
            let mut said = Vec::new();
            let mut byte = [0];
            // It comes although nothing follows it.
            while !said.ends_with(b"|c") {
                std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
                said.push(byte[0]);
            }
            stream.write_all(b"!").unwrap();
            String::from_utf8(said).unwrap() + &rest(&mut stream)
        })
        .await;
    let (head, said) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 101") && head.contains(STANDS) && !head.contains(VALUE), "{head}");
    assert_eq!(said, format!("{STANDS}{STANDS}|c!"), "a placeholder that goes out stays one");
}
