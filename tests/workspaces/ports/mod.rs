//! Ports of real environments, with real programs behind them, reached as a user reaches them.

mod isolation;
mod passing;
mod signed;
mod smuggling;
mod tunnels;
mod websockets;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Home, can_run};
use crate::api::world::{expect, text};
use crate::support::{Http, Reply, Server};

const PROGRAMS: &str = include_str!("programs.py");

/// An environment whose programs listen.
struct Harbour<'a> {
    home: Home<'a>,
    /// Where ports are served: the address, and the domain with its port.
    address: String,
    domain: String,
}

#[track_caller]
fn until(what: &str, check: impl Fn() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl<'a> Harbour<'a> {
    fn new(server: &'a Server, name: &str, spec: Value) -> Self {
        let home = Home::new(server, name, spec);
        std::fs::write(home.directory("workspace").join("programs.py"), PROGRAMS).unwrap();
        let pattern = text(&expect(&server.http().get("/v1/system"), 200), "ports");
        let domain = pattern.strip_prefix("http://PORT-ENVIRONMENT.").unwrap().to_owned();
        let address = domain.replace("localhost", "127.0.0.1");
        Self { home, address, domain }
    }

    /// Starts a program, and waits until it is seen to listen.
    #[track_caller]
    fn listen(&self, kind: &str, port: u16) {
        let argv = json!(["python3", "programs.py", kind, port.to_string()]);
        expect(&self.home.http.post(&self.home.path("/processes"), json!({ "argv": argv })), 201);
        until(&format!("{kind} listens"), || self.port(port).is_some_and(|found| found["listening"] == true));
    }

    fn ports(&self) -> Value {
        expect(&self.home.http.get(&self.home.path("/ports")), 200)
    }

    fn port(&self, port: u16) -> Option<Value> {
        self.ports()["items"].as_array().unwrap().iter().find(|item| item["port"] == port).cloned()
    }

    fn host(&self, port: u16) -> String {
        format!("{port}-{}.{}", self.home.id.trim_start_matches("env_"), self.domain)
    }

    /// A request to a port, with these headers and no others but the host.
    fn ask(&self, port: u16, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{more}\r\n", self.host(port));
        Http::new(&self.address, None).raw(&[head.as_bytes(), body].concat()).unwrap()
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.home.server.owner_key())
    }

    /// The same with the owner's key.
    fn get(&self, port: u16, target: &str) -> Reply {
        self.ask(port, "GET", target, &[("Authorization", &self.bearer())], b"")
    }

    /// What a program wrote down of what it saw.
    fn notes(&self) -> String {
        std::fs::read_to_string(self.home.directory("workspace").join("notes")).unwrap_or_default()
    }

    /// Path and query of a signed URL.
    fn signed(&self, port: u16, expires_in: &str) -> String {
        let path = self.home.path(&format!("/ports/{port}/signed-url"));
        let url = text(&expect(&self.home.http.post(&path, json!({ "expires_in": expires_in })), 201), "url");
        url.strip_prefix(&format!("http://{}", self.host(port))).unwrap().to_owned()
    }
}

fn harbour_spec() -> Value {
    json!({"sandbox": {"network_access": "disabled"}, "ports": [{"port": 8001, "primary": true}, {"port": 9999}]})
}

#[test]
fn what_listens_is_listed_beside_what_is_declared() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    let asleep = harbour.ports();
    assert_eq!(asleep["awake"], false, "{asleep}");
    assert!(asleep["items"].as_array().unwrap().iter().all(|item| item["declared"] == true && item["listening"] == false));
    // Nobody who asks for a port wakes it.
    let reply = harbour.get(8001, "/");
    assert_eq!((reply.status, reply.code().as_str()), (409, "environment_asleep"), "{reply:?}");
    assert_eq!(expect(&harbour.home.http.get(&harbour.home.path("/activity")), 200)["awake"], false);

    harbour.listen("pages", 8001);
    harbour.listen("silent", 8003);
    let pages = harbour.port(8001).unwrap();
    assert_eq!((&pages["declared"], &pages["primary"], &pages["address"]), (&json!(true), &json!(true), &json!("0.0.0.0")), "{pages}");
    assert_eq!(pages["process"]["name"], "python3", "{pages}");
    assert!(text(&pages["process"], "process_id").starts_with("prc_"));
    assert_eq!(text(&pages, "url"), format!("http://{}", harbour.host(8001)));
    assert_eq!(harbour.port(8003).unwrap()["declared"], false);
    assert_eq!(harbour.port(9999).unwrap()["listening"], false);
    let shown = expect(&harbour.home.http.get(&harbour.home.path("")), 200);
    assert_eq!(shown["runtime"]["urls"]["primary"], pages["url"], "{shown}");

    // The command line says the same.
    let listed = harbour.home.server.command(&["port", "list", "web"]).output().unwrap();
    let shown = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(shown.contains("listening, primary") && shown.contains("python3"), "{shown}");

    let reply = harbour.get(9999, "/");
    assert_eq!((reply.status, reply.code().as_str()), (409, "port_closed"), "{reply:?}");
    expect(&harbour.home.http.post(&harbour.home.path("/stop"), json!({})), 200);
    assert_eq!(harbour.port(8001).unwrap()["listening"], false);
    assert_eq!(harbour.port(8003), None);
}
