//! A request that is long in coming: whoever sent it must still be allowed when it arrives.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Server;

/// Sends the head of a request and all of its body but the last byte.
fn hold_back(server: &Server, key: &str, path: &str, body: &Value) -> (TcpStream, u8) {
    let text = body.to_string();
    let address = server.address.trim_start_matches("http://");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (last, rest) = text.as_bytes().split_last().unwrap();
    socket.write_all(&[head.as_bytes(), rest].concat()).unwrap();
    // Long enough for the door to have let it in: what it decides is checked below, whenever that was.
    std::thread::sleep(Duration::from_millis(200));
    (socket, *last)
}

fn finish((mut socket, last): (TcpStream, u8)) -> u16 {
    socket.write_all(&[last]).unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    reply.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn an_owner_who_was_removed_meanwhile_changes_nothing() {
    let server = Server::start();
    let http = server.http();
    let member = |name: &str| http.post("/v1/projects/default/members", json!({"name": name, "role": "owner"})).json();
    let (mallory, other) = (member("mallory"), member("other"));
    let id = |member: &Value| member["principal_id"].as_str().unwrap().to_owned();
    let key = http.post("/v1/projects/default/api-keys", json!({"name": "k", "principal_id": id(&mallory)})).json();
    let key = key["key"].as_str().unwrap();

    let minted = hold_back(&server, key, "/v1/projects/default/api-keys", &json!({"name": "late", "principal_id": id(&other)}));
    let readmitted = hold_back(&server, key, "/v1/projects/default/members", &json!({"principal_id": id(&mallory), "role": "owner"}));
    let created = hold_back(&server, key, "/v1/projects/default/environments", &json!({"name": "late"}));
    assert_eq!(http.delete(&format!("/v1/projects/default/members/{}", id(&mallory))).status, 204);

    for held in [minted, readmitted, created] {
        assert!(matches!(finish(held), 401 | 403));
    }
    let names = |path: &str| http.get(path).json()["items"].as_array().unwrap().iter().map(|item| item["name"].clone()).collect::<Vec<_>>();
    assert!(!names("/v1/projects/default/api-keys").contains(&json!("late")));
    assert!(!names("/v1/projects/default/members").contains(&json!("mallory")));
    assert!(!names("/v1/projects/default/environments").contains(&json!("late")));
}

#[test]
fn one_may_leave_step_down_or_revoke_ones_own_key() {
    let server = Server::start();
    let http = server.http();
    let member = http.post("/v1/projects/default/members", json!({"name": "leaving", "role": "owner"})).json();
    let id = member["principal_id"].as_str().unwrap();
    let key = |name: &str| {
        let made = http.post("/v1/projects/default/api-keys", json!({"name": name, "principal_id": id})).json();
        (made["key"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned())
    };
    let (first, first_id) = key("first");
    assert_eq!(server.http_as(Some(&first)).delete(&format!("/v1/projects/default/api-keys/{first_id}")).status, 204);
    let (second, _) = key("second");
    assert_eq!(server.http_as(Some(&second)).delete(&format!("/v1/projects/default/members/{id}")).status, 204);
}

#[test]
fn no_owner_of_a_project_shuts_the_operator_out() {
    let server = Server::start();
    let http = server.http();
    let member = http.post("/v1/projects/default/members", json!({"name": "bob", "role": "owner"})).json();
    let made = http.post("/v1/projects/default/api-keys", json!({"name": "bob", "principal_id": member["principal_id"]})).json();
    let bob = server.http_as(made["key"].as_str());
    let keys = bob.get("/v1/projects/default/api-keys").json();
    let owners = keys["items"].as_array().unwrap().iter().find(|key| key["name"] == "owner").unwrap();
    assert_eq!(bob.delete(&format!("/v1/projects/default/api-keys/{}", owners["id"].as_str().unwrap())).status, 404);
    let operator = owners["principal_id"].as_str().unwrap();
    assert_eq!(bob.delete(&format!("/v1/projects/default/members/{operator}")).status, 204);
    assert_eq!(http.get("/v1/system").status, 200);
    assert_eq!(bob.delete("/v1/projects/default?confirm=default").status, 200);
    assert_eq!(http.get("/v1/projects").status, 200, "the operator's key does not live and die with a project");
}
