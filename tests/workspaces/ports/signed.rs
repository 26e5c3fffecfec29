use serde_json::json;

use super::{Harbour, harbour_spec, until};
use crate::api::world::{expect, refused, text};
use crate::support::{Reply, Server};
use crate::workspaces::can_run;

fn told(reply: &Reply) -> (u16, String) {
    (reply.status, reply.code())
}

#[test]
fn a_signed_url_reaches_one_port_of_one_environment_until_it_expires() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    let other = Harbour::new(&server, "other", harbour_spec());
    for one in [&harbour, &other] {
        one.listen("pages", 8001);
    }
    harbour.listen("pages", 8008);
    let refused_there = (401, "unauthorized".to_owned());
    let target = harbour.signed(8001, "1h");
    assert_eq!(harbour.ask(8001, "GET", &target, &[], b"").json()["path"], "/");
    assert_eq!(harbour.ask(8001, "DELETE", &format!("/x{}&keep=1", &target[1..]), &[], b"").json()["path"], "/x?keep=1");
    assert_eq!(told(&harbour.ask(8008, "GET", &target, &[], b"")), refused_there, "another port");
    assert_eq!(told(&other.ask(8001, "GET", &target, &[], b"")), refused_there, "another environment");
    let at = target.len() - 1;
    for place in ["/?__stead_token=".len(), at - 80, at] {
        let mut changed = target.clone().into_bytes();
        changed[place] = if changed[place] == b'0' { b'1' } else { b'0' };
        assert_eq!(told(&harbour.ask(8001, "GET", std::str::from_utf8(&changed).unwrap(), &[], b"")), refused_there, "changed at {place}");
    }
    for nonsense in ["", "x", "00", &"0".repeat(100_000)[..4000]] {
        assert_eq!(told(&harbour.ask(8001, "GET", &format!("/?__stead_token={nonsense}"), &[], b"")), refused_there);
    }
    // It is no key of the API.
    let token = target.split('=').next_back().unwrap();
    assert_eq!(server.http_as(Some(token)).get("/v1/identity").status, 401);

    let brief = harbour.signed(8001, "1s");
    until("it expires", || told(&harbour.ask(8001, "GET", &brief, &[], b"")) == refused_there);
    assert!(text(&harbour.ask(8001, "GET", &brief, &[], b"").json()["error"], "message").contains("expired"));
    for wrong in ["25h", "0s", "-1s", "soon"] {
        let path = harbour.home.path("/ports/8001/signed-url");
        assert_eq!(harbour.home.http.post(&path, json!({ "expires_in": wrong })).status, 400, "{wrong}");
    }
    refused(&harbour.home.http.post(&harbour.home.path("/ports/0/signed-url"), json!({})), 404, "not_found");
    let audit = expect(&harbour.home.http.get("/v1/projects/default/audit?action=environment.ports.sign_url"), 200);
    let record = &audit["items"][0];
    assert_eq!((&record["target_id"], &record["details"]["port"]), (&json!(harbour.home.id), &json!(8001)), "{record}");
    assert!(!audit.to_string().contains("__stead_token"));

    // With the environment goes every URL of it.
    let host = harbour.host(8001);
    drop(harbour);
    let reply = {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        crate::support::Http::new(&other.address, None).raw(head.as_bytes()).unwrap()
    };
    assert_eq!(told(&reply), (404, "not_found".to_owned()));
}

#[test]
fn a_browser_is_sent_on_with_a_cookie_for_this_host_alone() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("pages", 8001);
    let target = harbour.signed(8001, "1h");
    let browser = [("Accept", "text/html"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Site", "none")];
    let sent_on = harbour.ask(8001, "GET", &format!("//evil.example/a{}&b=1", &target[1..]), &browser, b"");
    assert_eq!((sent_on.status, sent_on.header("location")), (303, Some("/evil.example/a?b=1")), "{sent_on:?}");
    assert_eq!((sent_on.header("cache-control"), sent_on.header("referrer-policy")), (Some("no-store"), Some("no-referrer")));
    let cookie = sent_on.header("set-cookie").unwrap();
    for part in ["__stead_port=", "; Path=/", "; HttpOnly", "; SameSite=Lax", "; Max-Age=3"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.to_lowercase().contains("domain"), "{cookie}");
    let pair = cookie.split(';').next().unwrap().to_owned();
    // A neighbour may have planted one of the same name before it.
    let pair = format!("__stead_port=00; {pair}; mine=1");
    let page = harbour.ask(8001, "GET", "/a", &[("Cookie", &pair)], b"").json();
    assert!(page.to_string().contains("mine=1") && !page.to_string().contains("stead_port"), "{page}");
    // Links lead here from elsewhere, and nothing else does.
    let from = |mode: &str, site: &str, method: &str| {
        harbour.ask(8001, method, "/a", &[("Cookie", &pair), ("Sec-Fetch-Mode", mode), ("Sec-Fetch-Site", site)], b"").status
    };
    assert_eq!((from("navigate", "cross-site", "GET"), from("cors", "same-origin", "DELETE")), (200, 200));
    for (mode, site, method) in [("cors", "same-site", "GET"), ("no-cors", "cross-site", "GET"), ("navigate", "same-site", "DELETE")] {
        assert_eq!(from(mode, site, method), 403, "{mode} {site} {method}");
    }
    assert_eq!(harbour.ask(8001, "DELETE", "/a", &[("Cookie", &pair), ("Origin", "http://evil.example")], b"").status, 403);
}

#[test]
fn a_signed_url_ends_with_the_key_that_made_it() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let harbour = Harbour::new(&server, "web", harbour_spec());
    harbour.listen("pages", 8001);
    let http = &harbour.home.http;
    let member = expect(&http.post("/v1/projects/default/members", json!({"name": "guest", "role": "member"})), 201);
    let principal = text(&member, "principal_id");
    let made = expect(&http.post("/v1/projects/default/api-keys", json!({"name": "k", "principal_id": principal})), 201);
    let guest = server.http_as(Some(&text(&made, "key")));
    let signs = || {
        let url = text(&expect(&guest.post(&harbour.home.path("/ports/8001/signed-url"), json!({})), 201), "url");
        url.split_once('?').unwrap().1.to_owned()
    };
    let first = signs();
    let status = |query: &str| harbour.ask(8001, "GET", &format!("/?{query}"), &[], b"").status;
    assert_eq!(status(&first), 200);
    // A viewer reaches nothing.
    let path = format!("/v1/projects/default/members/{principal}");
    expect(&http.patch(&path, json!({"role": "viewer"})), 200);
    assert_eq!(status(&first), 401);
    let bearer = format!("Bearer {}", text(&made, "key"));
    assert_eq!(harbour.ask(8001, "GET", "/", &[("Authorization", &bearer)], b"").status, 403);
    expect(&http.patch(&path, json!({"role": "member"})), 200);
    assert_eq!(status(&first), 200);
    assert_eq!(http.delete(&format!("/v1/projects/default/api-keys/{}", text(&made, "id"))).status, 204);
    assert_eq!(status(&first), 401);
    assert_eq!(harbour.ask(8001, "GET", "/", &[("Authorization", &bearer)], b"").status, 401);
}
