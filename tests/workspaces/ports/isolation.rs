use serde_json::json;

use super::{Harbour, harbour_spec};
use crate::api::world::{expect, refused, text};
use crate::support::Server;
use crate::support::beside;
use crate::workspaces::can_run;

#[test]
fn nobody_reaches_a_port_but_through_the_server() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("pages", 8001);
    let neighbour = Harbour::new(&server, "neighbour", harbour_spec());
    let api = server.address.rsplit(':').next().unwrap().to_owned();
    let ports = harbour.address.rsplit(':').next().unwrap().to_owned();
    for port in ["8001", &api, &ports] {
        let script = format!(
            "python3 -c 'import socket\nfor host in (\"127.0.0.1\", \"::1\", \"localhost\"):\n try: socket.create_connection((host, {port}), 2); print(\"REACHED\", host)\n except OSError: pass'"
        );
        assert_eq!(neighbour.home.works(&script), "", "from a neighbour, port {port}");
        if port != "8001" {
            assert_eq!(harbour.home.works(&script), "", "from inside, port {port}");
        }
    }
    // Nor from the host itself.
    assert!(std::net::TcpStream::connect("127.0.0.1:8001").is_err());
    // A stranger with a good key is told that there is nothing.
    let http = &harbour.home.http;
    expect(&http.post("/v1/projects", json!({"handle": "mine"})), 201);
    let member = expect(&http.post("/v1/projects/mine/members", json!({"name": "stranger", "role": "owner"})), 201);
    let new = json!({"name": "k", "principal_id": text(&member, "principal_id")});
    let key = text(&expect(&http.post("/v1/projects/mine/api-keys", new), 201), "key");
    let bearer = format!("Bearer {key}");
    let reply = harbour.ask(8001, "GET", "/", &[("Authorization", &bearer)], b"");
    assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"));
    let stranger = server.http_as(Some(&key));
    let foreign = format!("/v1/projects/mine/environments/{}", harbour.home.id);
    refused(&stranger.get(&format!("{foreign}/ports")), 404, "not_found");
    refused(&stranger.post(&format!("{foreign}/ports/8001/signed-url"), json!({})), 404, "not_found");
    refused(&stranger.get(&format!("{foreign}/ports/8001/tunnel")), 404, "not_found");
}

#[test]
fn a_program_that_listens_everywhere_and_floods_is_only_in_its_own_way() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("many", 10_000);
    harbour.listen("pages", 8001);
    let listed = harbour.ports();
    let count = listed["items"].as_array().unwrap().len();
    assert!((100..=2100).contains(&count), "{count} are listed");
    assert_eq!(harbour.get(8001, "/").status, 200);
    let other = Harbour::new(&server, "other", harbour_spec());
    other.listen("pages", 8001);
    assert_eq!(other.get(8001, "/").status, 200);
}

#[test]
fn the_ways_out_of_a_place_are_no_ports_of_it() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    {
        let spec = json!({"sandbox": {"network_access": "allowlist", "allowed_hosts": ["example.org:8443"]}});
        let harbour = Harbour::new(&server, "listed", spec);
        harbour.listen("pages", 8001);
        assert_eq!(harbour.get(8001, "/").status, 200);
        let listed: Vec<u64> = harbour.ports()["items"].as_array().unwrap().iter().map(|item| item["port"].as_u64().unwrap()).collect();
        assert_eq!(listed.iter().filter(|port| [80, 443, 3128, 8443].contains(*port)).count(), 0, "{listed:?}");
        for port in [80, 443, 3128, 8443] {
            let reply = harbour.get(port, "/");
            assert_eq!((reply.status, reply.code().as_str()), (409, "port_closed"), "{port}: {reply:?}");
        }
    }
    beside::retire_relay(server.path());
}
