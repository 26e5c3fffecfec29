use serde_json::json;

use super::{Harbour, harbour_spec, until};
use crate::api::world::{expect, refused, text};
use crate::support::beside;
use crate::support::{Http, Server};
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
fn a_page_of_a_port_gets_nothing_from_the_api() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("pages", 8001);
    let token = harbour.signed(8001, "1h").split('=').next_back().unwrap().to_owned();
    let api = server.address.trim_start_matches("http://");
    let origin = format!("http://{}", harbour.host(8001));
    // Everything that a browser sends along on its own when a page asks for something there.
    let from_page = |method: &str, more: &str| {
        let head = format!(
            "{method} /v1/projects/default/environments?__stead_token={token} HTTP/1.1\r\nHost: {api}\r\nOrigin: {origin}\r\nReferer: {origin}/\r\n\
             Cookie: __stead_port={token}; __Host-stead-port={token}\r\nConnection: close\r\n{more}\r\n"
        );
        Http::new(api, None).raw(head.as_bytes()).unwrap()
    };
    let preflight = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n";
    let bearer = format!("Authorization: Bearer {token}\r\n");
    for (method, more) in [("GET", ""), ("POST", "Content-Length: 0\r\n"), ("GET", bearer.as_str())] {
        assert_eq!(from_page(method, more).status, 401, "{method} {more}");
    }
    // And no page may read what is answered to somebody else.
    let owner = format!("Authorization: {}\r\n", harbour.bearer());
    for reply in [from_page("OPTIONS", preflight), from_page("GET", &owner)] {
        let allows = reply.headers.iter().any(|(name, _)| name.to_ascii_lowercase().starts_with("access-control-"));
        assert!(!allows, "{reply:?}");
    }
}

#[test]
fn a_name_that_is_rebound_to_the_server_reaches_nothing() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("pages", 8001);
    let token = harbour.signed(8001, "1h").split('=').next_back().unwrap().to_owned();
    let (own, digits) = (harbour.host(8001), harbour.home.id.trim_start_matches("env_"));
    let ask = |address: &str, target: &str, hosts: &[&str], more: &str| {
        let hosts: String = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect();
        let head = format!("GET {target} HTTP/1.1\r\n{hosts}{more}Connection: close\r\n\r\n");
        Http::new(address, None).raw(head.as_bytes()).unwrap().status
    };
    let cookie = format!("Cookie: __stead_port={token}\r\n");
    assert_eq!(ask(&harbour.address, "/", &[&own], &cookie), 200);
    let port = harbour.address.rsplit(':').next().unwrap();
    let evil = format!("evil.example:{port}");
    let near =
        [format!("8001-{digits}.evil.example"), format!("8001-{digits}.localhost.evil.example"), format!("evil.8001-{digits}.localhost")];
    for host in near.iter().chain([&evil]) {
        assert_eq!(ask(&harbour.address, "/", &[host], &cookie), 404, "{host}");
        // Nor by saying two names, one of which is right.
        for hosts in [[own.as_str(), host.as_str()], [host.as_str(), own.as_str()]] {
            let told = ask(&harbour.address, "/", &hosts, &cookie);
            assert!(matches!(told, 400 | 404), "{hosts:?}: {told}");
        }
        assert_eq!(ask(&harbour.address, &format!("http://{own}/"), &[host], &cookie), 404, "{host}");
        assert_eq!(ask(&harbour.address, &format!("http://{host}/"), &[&own], &cookie), 404, "{host}");
    }
    // To the API every name is the same: without a key there is nothing.
    assert_eq!(ask(server.address.trim_start_matches("http://"), "/v1/projects", &[&evil], &cookie), 401);
}

#[test]
fn only_the_addresses_that_are_promised_are_reached() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    let listen = "import socket, sys, time\ns = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)\nwhile True: s.accept()[0].sendall(b'HTTP/1.1 204 No Content\\r\\n\\r\\n')";
    for (address, port) in [("127.0.0.1", 8101_u16), ("::1", 8102), ("0.0.0.0", 8103), ("127.0.0.2", 8104)] {
        let argv = json!(["python3", "-c", listen, address, port.to_string()]);
        expect(&harbour.home.http.post(&harbour.home.path("/processes"), json!({ "argv": argv })), 201);
        until("it listens", || harbour.port(port).is_some_and(|found| found["listening"] == true));
        let reply = harbour.get(port, "/");
        if address == "127.0.0.2" {
            assert_eq!((reply.status, reply.code().as_str()), (409, "port_closed"), "{reply:?}");
            assert!(text(&reply.json()["error"], "message").contains(address), "{reply:?}");
        } else {
            assert_eq!(reply.status, 204, "{address}: {reply:?}");
        }
    }
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
