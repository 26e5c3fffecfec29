//! Hostile code where the attack needs a server, a steward or a relay. What a place alone must withstand is tried in `crates/sandbox/tests`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::{Home, can_run};
use crate::api::world::{ENVIRONMENTS, expect, text};
use crate::support::Server;

#[test]
fn the_server_is_out_of_reach_from_inside() {
    // As far open as an allowlist can be: the operator lets this very name be reached, on another port.
    let server = Server::builder().with(&["--egress-allow", "localhost"]).start();
    if !can_run(&server) {
        return;
    }
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let spec = json!({"sandbox": {"network_access": "allowlist", "allowed_hosts": ["localhost:9"]}});
    let home = Home::new(&server, "reaching", spec);
    let script = format!(
        "
import os, socket
reached = []
def attempt(what, work):
    try:
        if work() is not False: reached.append(what)
    except OSError: pass
def connect(family, address):
    s = socket.socket(family); s.settimeout(5); s.connect(address); return s
def asked(s):
    s.sendall(b'GET /healthz HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n')
    return b'200' in s.recv(100)
def tunnel(target):
    s = connect(socket.AF_INET, ('127.0.0.1', 3128))
    s.sendall(b'CONNECT ' + target + b' HTTP/1.1\\r\\nHost: ' + target + b'\\r\\n\\r\\n')
    return b' 200' in s.recv(100)
data = {data:?}
attempt('socket', lambda: connect(socket.AF_UNIX, data + '/stead.sock'))
attempt('relay', lambda: connect(socket.AF_UNIX, data + '/relay/control'))
attempt('files', lambda: os.listdir(data))
for address in ('127.0.0.1', '127.0.0.2', '0.0.0.0', '10.0.0.1'):
    attempt(address, lambda: asked(connect(socket.AF_INET, (address, {port}))))
attempt('::1', lambda: asked(connect(socket.AF_INET6, ('::1', {port}))))
for target in (b'localhost:{port}', b'LOCALHOST.:{port}', b'127.0.0.1:{port}', b'[::1]:{port}', b'[::ffff:127.0.0.1]:{port}', b'2130706433:{port}', b'0x7f.1:{port}'):
    attempt(target, lambda: tunnel(target))
attempt('key', lambda: any(b'stk_' in open('/proc/%s/environ' % p, 'rb').read() for p in os.listdir('/proc') if p.isdigit() and int(p) > 1))
attempt('variables', lambda: any(n.startswith('STEAD_') and ('KEY' in n or 'SERVER' in n) for n in os.environ))
print(reached)
",
        data = server.path().display().to_string(),
    );
    let said = expect(&home.http.post(&home.path("/exec"), json!({"command": ["python3", "-c", script]})), 200);
    assert_eq!((said["stdout"].as_str(), said["stderr"].as_str()), (Some("[]\n"), Some("")), "{said}");
}

/// The most memory that a process has had, in KiB.
fn peak(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn who_does_not_read_costs_no_memory() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "flooding", json!({"sandbox": {"network_access": "disabled"}}));
    home.works("true");
    let before = peak(server.pid());
    let start = json!({"argv": ["sh", "-c", "head -c 200000000 /dev/zero; echo end"], "stdin": "open"});
    let process = text(&expect(&home.http.post(&home.path("/processes"), start), 201), "id");
    // Many who ask for all of it and never read, and one who hangs up in the middle.
    let follow = |rest: &str| {
        let mut socket = TcpStream::connect(server.address.trim_start_matches("http://")).unwrap();
        let path = home.path(&format!("/processes/{process}/logs?follow=true{rest}"));
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", server.owner_key());
        socket.write_all(head.as_bytes()).unwrap();
        socket
    };
    let stalled: Vec<TcpStream> = (0..8).map(|_| follow("")).collect();
    let mut hanging_up = follow("");
    hanging_up.read_exact(&mut [0; 1000]).unwrap();
    drop(hanging_up);
    let over = expect(&home.http.get(&home.path(&format!("/processes/{process}/wait?timeout=60s"))), 200);
    assert_eq!(over["exit"]["code"], 0, "nobody who does not read holds it up: {over}");
    let tail = home.http.get(&home.path(&format!("/processes/{process}/logs?offset=200000000")));
    assert_eq!(tail.body, b"end\n");
    let grown = peak(server.pid()).saturating_sub(before);
    assert!(grown < 96 << 10, "the server has grown by {grown} KiB");
    drop(stalled);
}

#[test]
fn who_does_not_read_its_input_is_given_no_more() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "deaf", json!({"sandbox": {"network_access": "disabled"}}));
    let start = json!({"argv": ["sleep", "1000"], "stdin": "open"});
    let process = text(&expect(&home.http.post(&home.path("/processes"), start), 201), "id");
    // A megabyte that nobody takes: the sender waits, or is sent away.
    let path = home.path(&format!("/processes/{process}/stdin?offset=0"));
    let body = vec![b'x'; 1 << 20];
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
        server.owner_key(),
        body.len()
    );
    let mut socket = TcpStream::connect(server.address.trim_start_matches("http://")).unwrap();
    socket.write_all(head.as_bytes()).unwrap();
    socket.write_all(&body).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let answered = socket.read(&mut [0; 100]);
    assert!(answered.is_err() || !matches!(answered, Ok(0)), "cut off without a word");
    // Everybody else is served, and what has not been taken is not kept.
    assert_eq!(home.works("echo fine"), "fine\n");
    let seen = expect(&home.http.get(&home.path(&format!("/processes/{process}"))), 200);
    assert_eq!(seen["status"], "running", "{seen}");
    drop(socket);
    expect(&home.http.delete(&home.path(&format!("/processes/{process}"))), 200);
}

#[test]
fn a_fork_bomb_harms_nobody_else_and_is_removed() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let http = server.http();
    let spec = json!({"sandbox": {"network_access": "disabled", "resources": {"pids": 100, "memory_mb": 256}}});
    let made = http.post(ENVIRONMENTS, json!({"name": "bomb", "spec": spec}));
    if made.status == 409 && made.code() == "posture_not_enforced" {
        super::not_run(&made);
        return;
    }
    let bomb = format!("{ENVIRONMENTS}/{}", text(&expect(&made, 201), "id"));
    let neighbour = Home::new(&server, "neighbour", json!({"sandbox": {"network_access": "disabled"}}));
    let script = "bomb() { bomb | bomb & }; bomb; sleep 1000";
    expect(&http.post(&format!("{bomb}/processes"), json!({"argv": ["bash", "-c", script]})), 201);
    for _ in 0..5 {
        assert_eq!(neighbour.works("echo fine"), "fine\n");
    }
    // One more may find no room; then it is told so and nothing hangs.
    let more = http.post(&format!("{bomb}/exec"), json!({"command": ["true"]}));
    assert!(
        more.status == 200 || more.status == 409 || more.status == 502 || more.status == 503,
        "{}",
        String::from_utf8_lossy(&more.body)
    );
    assert_eq!(expect(&http.delete(&bomb), 200)["status"], "destroyed");
}
