//! What cannot be understood gets an error that says which part.

use serde_json::{Value, json};

use super::world::{ENVIRONMENTS, expect, on_both_stores, refused, text, walk};
use crate::support::{Http, Reply, Server};

fn post(http: &Http, body: &[u8]) -> Reply {
    http.send("POST", ENVIRONMENTS, &[], Some(body))
}

#[test]
fn missing_malformed_and_invalid_are_three_different_errors() {
    let server = Server::start();
    let http = server.http();
    refused(&http.send("POST", ENVIRONMENTS, &[], None), 400, "missing_body");
    refused(&post(&http, b""), 400, "missing_body");

    for (body, line, column) in [
        (&b"{"[..], 1, 1),
        (b"{\n  \"name\": }", 2, 11),
        (b"{\"name\": \"a\"} x", 1, 15),
        (b"{\"name\": \"a\"\n\"b\": 1}", 2, 1),
        (b"nonsense", 1, 2),
        (b"\xff\xfe", 1, 1),
        (b"{\"name\": \"\xc3\x28\"}", 1, 11),
    ] {
        let details = refused(&post(&http, body), 400, "malformed_json");
        assert_eq!((details["line"].as_u64(), details["column"].as_u64()), (Some(line), Some(column)), "{}", String::from_utf8_lossy(body));
    }
    // Nested far deeper than any definition: an answer, and not the end of the server's stack.
    let deep = format!("{{\"spec\": {}{}}}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    assert_eq!(post(&http, deep.as_bytes()).status, 400);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(post(&http, deep.as_bytes()).status, 400);

    for (body, field) in [
        (json!([]), "body"),
        (json!("text"), "body"),
        (json!({ "colour": "red" }), "colour"),
        (json!({ "name": 7 }), "name"),
        (json!({ "tags": { "team": 1 } }), "tags.team"),
        (json!({ "tags": ["a"] }), "tags"),
        (json!({ "provider": "moon" }), "provider"),
        (json!({ "spec": { "sandbox": { "resources": { "cpus": "two" } } } }), "spec.sandbox.resources.cpus"),
        (json!({ "sandbox_id": "env_1" }), "sandbox_id"),
    ] {
        assert_eq!(refused(&http.post(ENVIRONMENTS, body.clone()), 400, "invalid_field")["field"], field, "{body}");
    }
    assert_eq!(refused(&post(&http, br#"{"name": "a", "name": "b"}"#), 400, "invalid_field")["field"], "name");
    let allowed = refused(&http.post(ENVIRONMENTS, json!({ "lifetime": "forever" })), 400, "invalid_field")["allowed"].clone();
    assert_eq!(allowed, json!(["run", "lease", "explicit"]));
    assert_eq!(walk(&http, ENVIRONMENTS, 10).len(), 1, "none of them made anything");
}

/// One request as it stands, with the owner's key.
fn raw(server: &Server, head: &str, body: &[u8]) -> Reply {
    let host = server.address.trim_start_matches("http://");
    let head = head.replace("{key}", &format!("Host: {host}\r\nConnection: close\r\nAuthorization: Bearer {}", server.owner_key()));
    server.http().raw(&[head.as_bytes(), b"\r\n\r\n", body].concat()).unwrap()
}

#[test]
fn bodies_are_json_and_of_a_bounded_size() {
    let server = Server::start();
    let send = |content_type: &str, body: &[u8]| {
        let head = format!("POST {ENVIRONMENTS} HTTP/1.1\r\n{{key}}\r\n{content_type}Content-Length: {}", body.len());
        raw(&server, &head, body)
    };
    for other in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", ""] {
        refused(&send(&format!("Content-Type: {other}\r\n"), b"{}"), 415, "unsupported_media_type");
    }
    for fine in [
        "",
        "Content-Type: application/json; charset=utf-8\r\n",
        "Content-Type: APPLICATION/JSON\r\n",
        "Content-Type: application/merge-patch+json\r\n",
    ] {
        expect(&send(fine, b"{}"), 201);
    }

    let megabyte = 1 << 20;
    let body = |length: usize| format!("{{\"name\": \"{}\"}}", "x".repeat(length - 12)).into_bytes();
    // The largest body is read, and refused for its name only.
    assert_eq!(refused(&send("", &body(megabyte)), 400, "invalid_field")["field"], "name");
    assert_eq!(refused(&send("", &body(megabyte + 1)), 413, "payload_too_large")["limit_bytes"], megabyte);
    // One that only announces its size is refused before it is sent; one that does not announce it, while it is read.
    let announced = raw(&server, &format!("POST {ENVIRONMENTS} HTTP/1.1\r\n{{key}}\r\nContent-Length: 99999999999"), b"");
    refused(&announced, 413, "payload_too_large");
    for repeated in ["", "Idempotency-Key: once\r\n"] {
        let head = format!("POST {ENVIRONMENTS} HTTP/1.1\r\n{{key}}\r\n{repeated}Transfer-Encoding: chunked");
        let chunk = [b"10000\r\n".to_vec(), vec![b' '; 0x10000], b"\r\n".to_vec()].concat();
        refused(&raw(&server, &head, &[chunk.repeat(17), b"0\r\n\r\n".to_vec()].concat()), 413, "payload_too_large");
    }
    assert_eq!(server.http().get("/healthz").status, 200, "the server is there all the same");
}

#[test]
fn heads_are_of_a_bounded_size_and_nonsense_is_no_request() {
    let server = Server::start();
    let large =
        |bytes: usize| raw(&server, &format!("GET /v1/projects HTTP/1.1\r\n{{key}}\r\nX-Padding: {}", "x".repeat(bytes)), b"").status;
    assert_eq!(large(16 << 10), 200);
    let refusal = raw(&server, &format!("GET /v1/projects HTTP/1.1\r\n{{key}}\r\nX-Padding: {}", "x".repeat(40 << 10)), b"");
    refused(&refusal, 431, "headers_too_large");
    assert_eq!(large(128 << 10), 431);
    let many = (0..2000).map(|n| format!("X-{n}: 1\r\n")).collect::<String>();
    assert_eq!(raw(&server, &format!("GET /v1/projects HTTP/1.1\r\n{many}X-Last: 1"), b"").status, 431);
    assert_eq!(raw(&server, &format!("GET /{} HTTP/1.1\r\nHost: x", "x".repeat(128 << 10)), b"").status / 100, 4);
    assert_eq!(raw(&server, "NONSENSE", b"").status, 400);
    assert_eq!(raw(&server, "GET / HTTP/1.1\r\nHost x", b"").status, 400);
    // Two lengths are how requests are smuggled past a proxy.
    let twice = format!("POST {ENVIRONMENTS} HTTP/1.1\r\n{{key}}\r\nContent-Length: 2\r\nContent-Length: 3");
    assert_eq!(raw(&server, &twice, b"{} ").status, 400);
    assert_eq!(server.http().get("/healthz").status, 200, "the server is there all the same");
}

#[test]
fn queries_are_as_strict_as_bodies() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let get = |query: &str| http.get(&format!("{ENVIRONMENTS}?{query}"));
        for cursor in ["x", "zz", "abc", "00", "0161", "01ff", &"01".repeat(400), "..%2f", "01656e765f'"] {
            let reply = get(&format!("cursor={cursor}"));
            // A cursor of the right form that no list made is refused or leads nowhere; it never fails.
            if cursor == "0161" {
                expect(&reply, 200);
                continue;
            }
            refused(&reply, 400, "invalid_cursor");
        }
        for limit in ["0", "201", "-1", "1.5", "many", "", "99999999999999999999", "%31%30%30%30"] {
            assert_eq!(refused(&get(&format!("limit={limit}")), 400, "invalid_field")["field"], "limit", "{limit}");
        }
        for (query, field) in [
            ("colour=red", "colour"),
            ("Limit=1", "Limit"),
            ("limit=1&limit=2", "limit"),
            ("status=nope", "status"),
            ("provider=moon", "provider"),
            ("lifetime=long", "lifetime"),
            ("environment_mode=x", "environment_mode"),
            ("purpose=fun", "purpose"),
            ("scope=project", "scope"),
            ("bound_to_type=x", "bound_to_type"),
            ("include_destroyed=yes", "include_destroyed"),
            ("destroyed_since=yesterday", "destroyed_since"),
            ("destroyed_since=2026-05-04", "destroyed_since"),
            ("owned_by=a%00b", "owned_by"),
            ("name=a%00b", "name"),
            ("reference=%00", "reference"),
            ("bound_to_id=%ff", "query"),
        ] {
            assert_eq!(refused(&get(query), 400, "invalid_field")["field"], field, "{query}");
        }
        let offered = refused(&get("status=nope"), 400, "invalid_field");
        assert!(super::world::message(&get("status=nope")).contains("`ready`"), "{offered}");
        // What other lists take.
        for (path, field) in [
            ("/v1/projects?status=ready", "status"),
            ("/v1/projects/default/audit?limit=0", "limit"),
            ("/v1/projects/default/members?role=owner", "role"),
            ("/v1/projects/default/api-keys?tag=nocolon", "tag"),
            ("/v1/projects/default/sandboxes?limit=x", "limit"),
            ("/v1/projects/default/providers?x=1", "x"),
            ("/v1/projects/default?x=1", "x"),
        ] {
            assert_eq!(refused(&http.get(path), 400, "invalid_field")["field"], field, "{path}");
        }
        let environment = text(&walk(&http, ENVIRONMENTS, 1)[0], "id");
        for (query, field) in [("", "from"), ("from=1", "to"), ("to=1", "from"), ("from=1&to=1&x=1", "x")] {
            let reply = http.get(&format!("{ENVIRONMENTS}/{environment}/versions/diff?{query}"));
            assert_eq!(refused(&reply, 400, "invalid_field")["field"], field);
        }
        refused(&http.get(&format!("{ENVIRONMENTS}/{environment}/versions?cursor=0161")), 400, "invalid_cursor");
    });
}

#[test]
fn ids_that_name_nothing_are_not_found() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let real = text(&walk(&http, ENVIRONMENTS, 1)[0], "id");
        let digits = real.trim_start_matches("env_");
        let nobody = "env_0190a0b0c0d07000800000000000beef";
        let (upper, other, short) = (real.to_uppercase(), format!("sbx_{digits}"), &real[..20]);
        let long = "x".repeat(5000);
        let ids = [
            nobody,
            &upper,
            &other,
            short,
            digits,
            "nope",
            "..",
            "..%2f..%2fetc%2fpasswd",
            "%00",
            "%ff",
            "%F0%9F%92%A9",
            "local-default",
            "*",
            &long,
        ];
        for id in ids {
            for (method, path) in [
                ("GET", format!("{ENVIRONMENTS}/{id}")),
                ("DELETE", format!("{ENVIRONMENTS}/{id}")),
                ("POST", format!("{ENVIRONMENTS}/{id}/reconcile")),
                ("GET", format!("{ENVIRONMENTS}/{id}/versions")),
                ("GET", format!("{ENVIRONMENTS}/{id}/versions/1")),
                ("POST", format!("{ENVIRONMENTS}/{id}/versions/1/rollback")),
                ("GET", format!("/v1/projects/default/sandboxes/{id}")),
                ("GET", format!("/v1/projects/default/api-keys/{id}")),
                ("DELETE", format!("/v1/projects/default/members/{id}")),
                ("GET", format!("/v1/projects/{id}")),
                ("POST", format!("/v1/projects/default/providers/{id}/check")),
            ] {
                let reply = http.send(method, &path, &[], None);
                // `..` is a path to nowhere before it is an id, and text that is not UTF-8 is no path at all.
                assert!(reply.status == 404 || (id == "%ff" && reply.status == 400), "{method} {path}: {}", reply.status);
                let body: Value = reply.json();
                assert!(body["error"]["code"].is_string() && body["error"]["message"].is_string(), "{method} {path}: {body}");
                assert!(reply.body.len() < 2000, "{method} {path}: an id is not echoed without a bound");
            }
            let reply = http.patch(&format!("{ENVIRONMENTS}/{id}"), json!({}));
            assert!(reply.status == 404 || (id == "%ff" && reply.status == 400), "{id}");
        }
        for version in ["0", "2", "-1", "1.0", "x", "99999999999999999999", "01x"] {
            assert_eq!(http.get(&format!("{ENVIRONMENTS}/{real}/versions/{version}")).status, 404, "{version}");
            assert_eq!(
                http.send("POST", &format!("{ENVIRONMENTS}/{real}/versions/{version}/rollback"), &[], None).status,
                404,
                "{version}"
            );
        }
        assert_eq!(http.get(&format!("{ENVIRONMENTS}/{real}/versions/diff?from=1&to=9")).status, 404);
    });
}
