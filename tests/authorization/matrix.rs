//! Every route with every kind of credential.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::cast::{Actor, admit, key_for, make_project};
use super::expectations::{LET_IN, Needs, Route, documented};
use crate::api::world::{expect, head, text, time_from_now};
use crate::support::{Http, Reply, Server};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    Nobody,
    Viewer,
    Member,
    Owner,
    Stranger,
    Operator,
}

/// What a caller of this rank is answered; none when it is let in.
fn refusal(needs: Needs, rank: Rank) -> Option<(u16, &'static str)> {
    let covers = |least: &[Rank]| (!least.contains(&rank)).then_some((403, "forbidden"));
    match (needs, rank) {
        (Needs::Nothing, _) | (_, Rank::Operator) => None,
        (_, Rank::Nobody) => Some((401, "unauthorized")),
        (Needs::Key, _) => None,
        (Needs::Operator, _) => Some((403, "forbidden")),
        (_, Rank::Stranger) => Some((404, "not_found")),
        (Needs::Viewer, _) => None,
        (Needs::Member, _) => covers(&[Rank::Member, Rank::Owner]),
        (Needs::Owner, _) => covers(&[Rank::Owner]),
    }
}

/// The project `acme` with something of each kind in it.
struct Acme {
    operator: Http,
    environment: String,
    sandbox: String,
    member: Actor,
    turn: Cell<u32>,
}

impl Acme {
    fn make(operator: &Http) -> Self {
        make_project(operator, "acme");
        let environment = expect(&operator.post("/v1/projects/acme/environments", json!({ "name": "kept" })), 201);
        Self {
            environment: text(&environment, "id"),
            sandbox: text(&environment, "sandbox_id"),
            member: admit(operator, "acme", "somebody", "member"),
            operator: operator.clone(),
            turn: Cell::new(0),
        }
    }

    fn next(&self) -> u32 {
        self.turn.set(self.turn.get() + 1);
        self.turn.get()
    }

    fn make_in(&self, what: &str, body: serde_json::Value) -> serde_json::Value {
        expect(&self.operator.post(&format!("/v1/projects/acme/{what}"), body), 201)
    }

    /// The path of a call. What it would delete is made for it, so that the next call finds the rest as it was.
    fn path(&self, route: &Route, let_in: bool) -> String {
        let doomed = let_in && route.method == "DELETE";
        let mut path =
            route.path.replace("{project}", "acme").replace("{version}", "1").replace("{port}", "8080").replace("{name}", "local");
        if path.contains("{environment_id}") {
            let made = doomed.then(|| text(&self.make_in("environments", json!({ "name": format!("doomed-{}", self.next()) })), "id"));
            path = path.replace("{environment_id}", &made.unwrap_or_else(|| self.environment.clone()));
        }
        if path.contains("{sandbox_id}") {
            let made = doomed.then(|| text(&self.make_in("sandboxes", json!({})), "id"));
            path = path.replace("{sandbox_id}", &made.unwrap_or_else(|| self.sandbox.clone()));
        }
        if path.contains("{principal_id}") {
            let made = text(&self.make_in("members", json!({ "name": format!("doomed-{}", self.next()) })), "principal_id");
            path = path.replace("{principal_id}", &made);
        }
        if path.contains("{id}") {
            let made = doomed.then(|| text(&key_for(&self.operator, "acme", &self.member.principal, json!({})), "id"));
            path = path.replace("{id}", &made.unwrap_or_else(|| self.member.key_id.clone()));
        }
        path = path.replace("{process_id}", "prc_0190a0b0c0d07000800000000000beef");
        path = path.replace("{checkpoint_id}", "ckp_0190a0b0c0d07000800000000000beef");
        path = path.replace("{lease_id}", "lse_0190a0b0c0d07000800000000000beef");
        path = path.replace("{ticket_id}", "tkt_0190a0b0c0d07000800000000000beef");
        if path.ends_with("/stdin") {
            path.push_str("?offset=0");
        }
        if path.ends_with("/watch") {
            // Passes the door and begins nothing.
            path.push_str("?recursive=maybe");
        }
        if path.ends_with("/versions/diff") {
            path.push_str("?from=1&to=1");
        }
        path
    }

    fn call(&self, http: &Http, route: &Route, headers: &[(&str, &str)], let_in: bool) -> Reply {
        let path = self.path(route, let_in);
        let body = route.body.replace("{n}", &self.next().to_string()).replace("{member}", &self.member.principal);
        http.send(route.method, &path, headers, (!body.is_empty()).then_some(body.as_bytes()))
    }
}

#[test]
fn every_documented_route_lets_in_whom_it_must_and_nobody_else() {
    let server = Server::start();
    let operator = server.http();
    let acme = Acme::make(&operator);
    let routes = documented(&operator);

    let viewer = admit(&operator, "acme", "viewer", "viewer");
    let owner = admit(&operator, "acme", "owner", "owner");
    make_project(&operator, "elsewhere");
    let stranger = admit(&operator, "elsewhere", "stranger", "owner");
    let soon = json!({ "expires_at": time_from_now(Duration::from_millis(2500)) });
    let expired = text(&key_for(&operator, "acme", &owner.principal, soon), "key");
    assert_eq!(server.http_as(Some(&expired)).get("/v1/projects/acme").status, 200, "the key is good until it expires");
    let revoked = admit(&operator, "acme", "revoked", "owner");
    expect(&operator.delete(&format!("/v1/projects/acme/api-keys/{}", revoked.key_id)), 204);
    std::thread::sleep(Duration::from_millis(2600));

    let unknown = format!("stk_{}", "a".repeat(52));
    let keys = [
        ("no credential", Rank::Nobody, None),
        ("an unknown key", Rank::Nobody, Some(unknown.as_str())),
        ("an expired key", Rank::Nobody, Some(&expired)),
        ("a revoked key", Rank::Nobody, Some(&revoked.key)),
        ("a viewer's key", Rank::Viewer, Some(&viewer.key)),
        ("a member's key", Rank::Member, Some(&acme.member.key)),
        ("an owner's key", Rank::Owner, Some(&owner.key)),
        ("a foreign owner's key", Rank::Stranger, Some(&stranger.key)),
        ("the operator's key", Rank::Operator, Some(&server.owner_key())),
    ];
    // Each is refused before anything is looked up.
    let malformed = ["Basic b3duZXI6cGFzc3dvcmQ=", "Bearer", "Bearer ", "stk_", "Token x", "\u{e9}"];

    for route in &routes {
        let check = |who: &str, rank: Rank, http: &Http, headers: &[(&str, &str)]| {
            let refusal = refusal(route.needs, rank);
            let reply = acme.call(http, route, headers, refusal.is_none());
            let what = format!("{} {} with {who}: {}", route.method, route.path, String::from_utf8_lossy(&reply.body));
            match refusal {
                None if route.done == LET_IN => assert!(!matches!(reply.status, 401 | 403 | 404), "{what}"),
                None => assert_eq!(reply.status, route.done, "{what}"),
                Some((status, code)) => assert_eq!((reply.status, &*reply.code()), (status, code), "{what}"),
            }
        };
        for (who, rank, key) in keys {
            check(who, rank, &server.http_as(key), &[]);
        }
        for header in malformed {
            check("a malformed header", Rank::Nobody, &server.http_as(None), &[("Authorization", header)]);
        }
        if route.method == "GET" {
            let path = acme.path(route, false);
            let refused = refusal(route.needs, Rank::Nobody).map_or(route.done, |(status, _)| status);
            assert_eq!(head(&server, &path, None).status, refused, "HEAD {path} asks for what GET asks for");
        }
    }
}

#[test]
fn each_request_of_a_connection_stands_for_itself() {
    let server = Server::start();
    let operator = server.http();
    let viewer = admit(&operator, "default", "viewer", "viewer").key;
    let owner = server.owner_key();
    let host = server.address.trim_start_matches("http://");
    let mut wire = String::new();
    let callers = [Some(&owner), None, Some(&viewer), Some(&owner), None];
    for (number, key) in callers.iter().enumerate() {
        let credential = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        let last = if number + 1 == callers.len() { "Connection: close\r\n" } else { "" };
        wire.push_str(&format!("GET /v1/projects/default/api-keys HTTP/1.1\r\nHost: {host}\r\n{credential}{last}\r\n"));
    }
    let mut socket = TcpStream::connect(host).unwrap();
    socket.write_all(wire.as_bytes()).unwrap();
    let mut answers = String::new();
    socket.read_to_string(&mut answers).unwrap();
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["200", "401", "403", "200", "401"]);
}

#[test]
fn roles_hold_on_what_they_forbid() {
    let server = Server::start();
    let operator = server.http();
    make_project(&operator, "acme");
    let [viewer, member, owner] = ["viewer", "member", "owner"].map(|role| server.http_as(Some(&admit(&operator, "acme", role, role).key)));

    // A refusal leaves no trace: what was forbidden has not happened.
    assert_eq!(viewer.post("/v1/projects/acme/environments", json!({ "name": "web" })).status, 403);
    assert!(expect(&viewer.get("/v1/projects/acme/environments"), 200)["items"].as_array().unwrap().is_empty());
    let environment = expect(&member.post("/v1/projects/acme/environments", json!({ "name": "web" })), 201);
    let path = format!("/v1/projects/acme/environments/{}", text(&environment, "id"));
    assert_eq!(viewer.patch(&path, json!({ "name": "other" })).status, 403);
    expect(&member.patch(&path, json!({ "purpose": "review" })), 200);
    for refused in [viewer.delete(&path), member.delete(&path)] {
        let details = expect(&refused, 403)["error"]["details"].clone();
        assert_eq!(details["needed"], "owner");
        assert!(details["suggestion"].is_string(), "{details}");
    }
    assert_eq!(expect(&viewer.get(&path), 200)["status"], "ready");
    assert_eq!(expect(&owner.delete(&path), 200)["status"], "destroyed");

    // An owner of a project does not run the server.
    for (method, path) in [("GET", "/v1/system"), ("POST", "/v1/system/shutdown"), ("POST", "/v1/system/prune")] {
        assert_eq!(owner.send(method, path, &[], None).status, 403, "{method} {path}");
    }
    assert_eq!(owner.post("/v1/projects", json!({ "handle": "mine" })).status, 403);
    assert_eq!(operator.get("/healthz").status, 200, "nobody shut it down");
}
