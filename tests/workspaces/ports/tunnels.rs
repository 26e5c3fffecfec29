use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Harbour, harbour_spec, until};
use crate::api::world::{refused, text};
use crate::support::Server;
use crate::workspaces::can_run;

/// `stead port forward` as a user runs it.
struct Forward {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Forward {
    fn start(server: &Server, arguments: &[&str]) -> Self {
        let mut command = server.command(&["port", "forward", "--json"]);
        let mut child = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    fn address(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        text(&serde_json::from_str::<Value>(&line).unwrap(), "address")
    }

    /// What it said of connections that failed, when it is over.
    fn end(mut self) -> String {
        self.child.kill().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(address: &str) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

fn noise() -> Vec<u8> {
    let piece: Vec<u8> = (0..1_u64 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    piece.repeat(50)
}

#[test]
fn fifty_megabytes_go_through_each_way_and_each_way_ends_by_itself() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("digests", 8005);
    harbour.listen("pages", 8001);
    // Over the unix socket, and over TCP with a key.
    let key = server.path().join("owner.key");
    let over_tcp = ["--url", &server.address, "--key-file", key.to_str().unwrap()];
    for more in [&[][..], &over_tcp] {
        let mut forward = Forward::start(&server, &[&["web", "0:8005", "0:8001"], more].concat());
        let (digests, pages) = (forward.address(), forward.address());
        let content = noise();
        let mut socket = connect(&digests);
        socket.write_all(&content).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        socket.read_to_end(&mut heard).unwrap();
        let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(String::from_utf8_lossy(&heard[..64]), digest);
        assert!(heard[64..] == content);
        let page = crate::support::Http::new(&pages, None).get("/forwarded").json();
        assert_eq!(page["path"], "/forwarded");
        assert_eq!(forward.end(), "");
    }
}

#[test]
fn a_tunnel_says_why_it_could_not_be_and_survives_the_server() {
    let mut server = Server::start();
    if !can_run(&server) {
        return;
    }
    let directory = server.directory();
    let (id, mut forward, address, mut held) = {
        let harbour = Harbour::new(&server, "web", harbour_spec());
        harbour.listen("silent", 8003);
        let mut forward = Forward::start(&server, &["web", "0:8003", "0:9999"]);
        let (address, closed) = (forward.address(), forward.address());
        assert_eq!(connect(&closed).read(&mut [0]).unwrap_or(0), 0, "nothing listens there");
        let held = connect(&address);
        (&held).write_all(b"hello").unwrap();
        until("it arrives", || harbour.notes().contains("silent heard"));
        // Through the API itself, without an upgrade.
        refused(&harbour.home.http.get(&harbour.home.path("/ports/8003/tunnel")), 400, "bad_request");
        let id = harbour.home.id.clone();
        // The environment stays for the next server.
        std::mem::forget(harbour);
        (id, forward, address, held)
    };
    server.kill();
    assert_eq!(held.read(&mut [0]).unwrap_or(0), 0, "it ends with the server");
    assert_eq!(connect(&address).read(&mut [0]).unwrap_or(0), 0, "nobody is there");
    let server = Server::builder().on(directory).start();
    // What listened goes on, and is reached again by the same command.
    let notes = || {
        let environment = server.http().get(&format!("/v1/projects/default/environments/{id}")).json();
        let workspace = server.path().join("sandboxes").join(text(&environment, "sandbox_id")).join("workspace");
        std::fs::read_to_string(workspace.join("notes")).unwrap_or_default()
    };
    until("the first connection is over inside", || notes().contains("silent hung up"));
    let before = notes().matches("hung up").count();
    let again = connect(&address);
    (&again).write_all(b"hello").unwrap();
    drop(again);
    until("the second arrived and is over", || notes().matches("hung up").count() > before);
    let _ = forward.stdout.get_mut();
    let said = forward.end();
    assert!(said.contains("port_closed") && said.contains("unreachable"), "{said}");
    assert_eq!(server.http().delete(&format!("/v1/projects/default/environments/{id}")).status, 200);
}

#[test]
fn a_port_here_that_is_taken_is_named() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let output = server.command(&["port", "forward", "web", &format!("{port}:80")]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(&port.to_string()) && said.contains("hint:"), "{said}");
    drop(harbour);
}
