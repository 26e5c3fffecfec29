use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Home, can_run};
use crate::api::world::{expect, refused, text};
use crate::support::{Server, beside};

/// A host outside that says something ten times a second to whoever connects.
struct Outside {
    port: u16,
    over: Arc<AtomicBool>,
}

impl Outside {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (mut stream, ended) = (stream, Arc::clone(&ended));
                std::thread::spawn(move || {
                    while !ended.load(Ordering::Relaxed) && stream.write_all(b"tick\n").is_ok() {
                        std::thread::sleep(Duration::from_millis(100));
                    }
                });
            }
        });
        Self { port, over }
    }

    /// Connects through the proxy that every such environment has, reads so many lines, and ends when the connection does.
    fn listen(&self, lines: &str) -> Value {
        let port = self.port;
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT localhost:{port} HTTP/1.1\\r\\nHost: localhost:{port}\\r\\n\\r\\n' >&3; {lines} <&3"
        );
        json!(["bash", "-c", script])
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// The relay outlives servers, and is ended here by asking it.
struct RelayEnd<'a>(&'a Server);

impl Drop for RelayEnd<'_> {
    fn drop(&mut self) {
        beside::retire_relay(self.0.path());
    }
}

#[track_caller]
fn until(what: &str, check: impl Fn() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Home<'_> {
    fn start(&self, argv: Value) -> String {
        text(&expect(&self.http.post(&self.path("/processes"), json!({"argv": argv})), 201), "id")
    }

    fn printed(&self, process: &str) -> String {
        String::from_utf8_lossy(&self.http.get(&self.path(&format!("/processes/{process}/logs"))).body).into_owned()
    }

    fn is_over(&self, process: &str) -> bool {
        expect(&self.http.get(&self.path(&format!("/processes/{process}"))), 200)["status"] == "exited"
    }

    fn edit(&self, sandbox: Value) {
        expect(&self.http.patch(&self.path(""), json!({"spec": {"sandbox": sandbox}})), 200);
    }
}

#[test]
fn a_changed_policy_holds_at_once_and_what_leaves_is_written_down() {
    let server = Server::builder().with(&["--egress-allow", "localhost"]).start();
    if !can_run(&server) {
        return;
    }
    let _relay = RelayEnd(&server);
    let outside = Outside::start();
    let here = format!("localhost:{}", outside.port);
    let elsewhere = format!("other.example:{}", outside.port);
    let home = Home::new(&server, "web", json!({"sandbox": {"network_access": "allowlist", "allowed_hosts": [here, elsewhere]}}));
    let stays = home.start(json!(["sleep", "600"]));
    let listening = home.start(outside.listen("cat"));
    until("something arrives", || home.printed(&listening).contains("tick"));

    home.edit(json!({"allowed_hosts": [elsewhere]}));
    until("the connection is closed", || home.is_over(&listening));
    let refusal = expect(&home.http.post(&home.path("/exec"), json!({"command": outside.listen("head -n 1")})), 200);
    assert!(text(&refusal, "stdout").contains("403"), "{refusal}");
    let told = || expect(&home.http.get(&home.path("/egress?limit=200")), 200);
    let has = |decision: &str, reason: Option<&str>| {
        let page = told();
        page["items"].as_array().unwrap().iter().any(|entry| {
            entry["decision"] == decision && entry["host"] == "localhost" && reason.is_none_or(|reason| entry["reason"] == reason)
        })
    };
    until("it is written down", || has("allowed", None) && has("closed", Some("policy_changed")) && has("refused", Some("not_listed")));

    // What is listed again is reached again, in the same place: nothing had to end for it.
    home.edit(json!({"allowed_hosts": [here, elsewhere]}));
    let answer = expect(&home.http.post(&home.path("/exec"), json!({"command": outside.listen("grep -m 1 tick")})), 200);
    assert_eq!(answer["stdout"], "tick\n", "{answer}");
    assert!(!home.is_over(&stays));

    // A port that nothing listens for inside needs another place, and so does a place without a network.
    home.edit(json!({"allowed_hosts": [here, elsewhere, "third.example:12345"]}));
    refused(&home.http.post(&home.path("/exec"), json!({"command": ["true"]})), 409, "conflict");
    home.edit(json!({"allowed_hosts": [here, elsewhere]}));
    let listening = home.start(outside.listen("cat"));
    until("something arrives", || home.printed(&listening).contains("tick"));
    home.edit(json!({"network_access": "disabled", "allowed_hosts": null}));
    until("the connection is closed", || home.is_over(&listening));
    refused(&home.http.post(&home.path("/exec"), json!({"command": ["true"]})), 409, "conflict");
    assert!(!home.is_over(&stays));

    // In pieces, and from where one left off.
    let first = expect(&home.http.get(&home.path("/egress?limit=1")), 200);
    assert_eq!((first["items"].as_array().unwrap().len(), &first["has_more"]), (1, &json!(true)));
    let cursor = text(&first, "next_cursor");
    let second = expect(&home.http.get(&home.path(&format!("/egress?limit=200&cursor={cursor}"))), 200);
    assert_eq!(second["items"].as_array().unwrap().len() + 1, told()["items"].as_array().unwrap().len());
    let latest = expect(&home.http.get(&home.path("/egress?tail=1")), 200);
    assert_eq!(latest["items"][0], *second["items"].as_array().unwrap().last().unwrap());
    let shown = server.command(&["env", "egress", "web"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("refused") && shown.contains("localhost"), "{shown}");
}

/// The relay that this server's environments go through.
fn relay_of(server: &Server) -> Option<rustix::process::Pid> {
    let directory = server.path().join("relay").display().to_string();
    let of = |entry: std::fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        let mut words = words.split(|byte| *byte == 0).skip(1);
        (words.next()? == b"relay" && words.next()? == directory.as_bytes()).then_some(pid)
    };
    let pid = std::fs::read_dir("/proc").unwrap().flatten().find_map(of)?;
    rustix::process::Pid::from_raw(pid)
}

#[test]
fn the_next_relay_is_told_the_policy_that_was_adopted() {
    let server = Server::builder().with(&["--egress-allow", "localhost"]).start();
    if !can_run(&server) {
        return;
    }
    let _relay = RelayEnd(&server);
    let outside = Outside::start();
    let here = format!("localhost:{}", outside.port);
    let elsewhere = format!("other.example:{}", outside.port);
    let home = Home::new(&server, "web", json!({"sandbox": {"network_access": "allowlist", "allowed_hosts": [here, elsewhere]}}));
    let stays = home.start(json!(["sleep", "600"]));
    home.edit(json!({"allowed_hosts": [elsewhere]}));
    rustix::process::kill_process(relay_of(&server).unwrap(), rustix::process::Signal::KILL).unwrap();
    until("the next relay has it, and refuses", || {
        let answer = expect(&home.http.post(&home.path("/exec"), json!({"command": outside.listen("head -n 1")})), 200);
        assert!(!text(&answer, "stdout").contains("tick"), "{answer}");
        text(&answer, "stdout").contains("403")
    });
    home.edit(json!({"allowed_hosts": [here, elsewhere]}));
    let answer = expect(&home.http.post(&home.path("/exec"), json!({"command": outside.listen("grep -m 1 tick")})), 200);
    assert_eq!(answer["stdout"], "tick\n", "{answer}");
    assert!(!home.is_over(&stays));
}
