use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Harbour, harbour_spec, until};
use crate::support::{Http, Server};
use crate::workspaces::can_run;

fn noise() -> Vec<u8> {
    (0..1_u64 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn header_of<'v>(told: &'v Value, name: &str) -> Option<&'v str> {
    let pairs = told["headers"].as_array().unwrap();
    pairs.iter().find(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case(name)).and_then(|pair| pair[1].as_str())
}

#[test]
fn requests_go_in_without_what_is_ours_and_answers_come_out_confined() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("pages", 8001);
    let bearer = harbour.bearer();
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Stead-Anything", "1"),
        ("X-Forwarded-For", "203.0.113.9"),
        ("Forwarded", "for=203.0.113.9"),
        ("Cookie", "mine=1; __stead_port=x"),
        ("TE", "trailers"),
        ("X-Mine", "kept"),
    ];
    let reply = harbour.ask(8001, "GET", "/v1/projects?a=1&b=%2F", &headers, b"");
    assert_eq!(reply.status, 200);
    let told = reply.json();
    // The API is not here: its paths are the page's own.
    assert_eq!(told["path"], "/v1/projects?a=1&b=%2F");
    for gone in ["authorization", "stead-anything", "forwarded", "te"] {
        assert_eq!(header_of(&told, gone), None, "{told}");
    }
    let host = harbour.host(8001);
    for (name, value) in [
        ("host", host.as_str()),
        ("x-forwarded-host", host.as_str()),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-for", "127.0.0.1"),
        ("cookie", "mine=1"),
        ("x-mine", "kept"),
    ] {
        assert_eq!(header_of(&told, name), Some(value), "{told}");
    }
    let cookies = harbour.get(8001, "/cookies");
    let set: Vec<&str> = cookies.headers.iter().filter(|(name, _)| name == "set-cookie").map(|(_, value)| value.as_str()).collect();
    assert_eq!(set, ["plain=1; Path=/", "wide=1; Path=/"], "{cookies:?}");
    for gone in ["clear-site-data", "stead-next-offset", "x-hop"] {
        assert_eq!(cookies.header(gone), None, "{cookies:?}");
    }
    let mut socket = TcpStream::connect(&harbour.address).unwrap();
    let head = format!("HEAD / HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let mut heard = String::new();
    socket.read_to_string(&mut heard).unwrap();
    assert!(heard.starts_with("HTTP/1.1 200") && heard.contains("content-length: ") && heard.ends_with("\r\n\r\n"), "{heard}");

    // Kept connections are used again: all of these came from one inside.
    let peers: Vec<Value> = (0..5).map(|_| harbour.get(8001, "/again").json()["peer"].clone()).collect();
    assert!(peers.iter().all(|peer| *peer == peers[0]), "{peers:?}");

    // Nothing that was said to prove who asks is written down.
    let token = harbour.signed(8001, "1h").split('=').next_back().unwrap().to_owned();
    assert_eq!(harbour.ask(8001, "GET", &format!("/?__stead_token={token}"), &[], b"").status, 200);
    let log = server.log();
    assert!(log.contains("port=8001") && !log.contains(&token) && !log.contains("stk_"), "{log}");
}

#[test]
fn bodies_stream_both_ways_whole() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("pages", 8001);
    let bearer = harbour.bearer();
    let large = harbour.get(8001, "/large");
    let piece = noise();
    assert_eq!(large.body.len(), 50 << 20);
    assert!(large.body.chunks(1 << 20).all(|chunk| chunk == piece));
    let length = large.body.len().to_string();
    let digest = hex(&Sha256::digest(&large.body));
    let sized = harbour.ask(8001, "POST", "/up", &[("Authorization", &bearer), ("Content-Length", &length)], &large.body);
    assert_eq!(sized.json(), json!({"size": 50 << 20, "digest": digest}));
    let mut chunked = Vec::new();
    for chunk in large.body.chunks(100_000) {
        chunked.extend(format!("{:x}\r\n", chunk.len()).bytes());
        chunked.extend(chunk);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    let reply = harbour.ask(8001, "POST", "/up", &[("Authorization", &bearer), ("Transfer-Encoding", "chunked")], &chunked);
    assert_eq!(reply.json(), json!({"size": 50 << 20, "digest": digest}));
}

#[test]
fn what_never_ends_takes_no_memory_and_ends_with_who_asked() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("pages", 8001);
    harbour.listen("silent", 8003);
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let open = |port: u16, target: &str| {
        let mut socket = TcpStream::connect(&harbour.address).unwrap();
        let head = format!("GET {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\n\r\n", harbour.host(port), harbour.bearer());
        socket.write_all(head.as_bytes()).unwrap();
        socket
    };
    let mut streams: Vec<TcpStream> = (0..4).map(|_| open(8001, "/stream")).collect();
    let mut buffer = vec![0; 1 << 20];
    streams[0].read_exact(&mut buffer).unwrap();
    let before = resident();
    for _ in 0..100 {
        streams[0].read_exact(&mut buffer).unwrap();
    }
    // The others take nothing meanwhile: whoever sends waits for them.
    assert!(resident() < before + (32 << 10), "{before} KiB became {} KiB", resident());
    drop(streams);
    until("the programs are told", || harbour.notes().matches("stream closed").count() == 4);

    let waiting = open(8003, "/");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!harbour.notes().contains("silent hung up"));
    drop(waiting);
    until("whoever hung up is gone inside as well", || harbour.notes().contains("silent hung up"));
}

#[test]
fn what_is_no_http_is_an_error_with_a_next_step() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("garbage", 8002);
    harbour.listen("full", 8006);
    for port in [8002, 8006] {
        let reply = harbour.get(port, "/");
        assert_eq!((reply.status, reply.code().as_str()), (502, "port_failed"), "{reply:?}");
        assert!(reply.json()["error"]["details"]["suggestion"].is_string());
    }
    // People get words and no JSON.
    let page = harbour.ask(8002, "GET", "/", &[("Authorization", &harbour.bearer()), ("Accept", "text/html,*/*")], b"");
    assert_eq!((page.status, page.header("content-type")), (502, Some("text/plain; charset=utf-8")));
}

#[test]
fn an_unknown_host_is_nobody_and_the_api_is_under_no_name_of_a_port() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("pages", 8001);
    let bearer = harbour.bearer();
    let as_host = |address: &str, host: &str, target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n");
        Http::new(address, None).raw(head.as_bytes()).unwrap().status
    };
    let digits = harbour.home.id.trim_start_matches("env_");
    for host in
        ["localhost", "127.0.0.1", "x.localhost", &format!("8001-{}.localhost", "0".repeat(32)), &format!("8001-{digits}.example.org"), ""]
    {
        for target in ["/", "/healthz", "/v1/projects"] {
            assert_eq!(as_host(&harbour.address, host, target), 404, "{host} {target}");
        }
    }
    assert_eq!(as_host(&harbour.address, &format!("8001-{digits}.LOCALHOST:1"), "/"), 200);
    let api = server.address.trim_start_matches("http://");
    assert_eq!(as_host(api, "localhost", "/v1/projects"), 200);
    assert_eq!(as_host(api, &harbour.host(8001), "/v1/projects"), 404);
    assert_eq!(as_host(api, &harbour.host(8001), "/healthz"), 404);
}
