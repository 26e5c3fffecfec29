//! Values that are legal JSON and that nobody should send, on both stores.

use serde_json::{Value, json};
use stead_testing::PrivatePostgres;

use super::assert_refusal;
use crate::crashes::{ENVIRONMENTS, create, proving, text};
use crate::support::{Http, Server};

fn on_both(check: impl Fn(&Http, &'static str)) {
    check(&Server::start().http(), "sqlite");
    let postgres = PrivatePostgres::start();
    let url = postgres.url();
    check(&Server::builder().with(&["--database", &url]).start().http(), "postgres");
}

/// Refused, or taken and told back as it was sent; never a fault of the server's.
fn assert_refused_or_kept(http: &Http, method: &str, path: &str, body: &Value) {
    let reply = http.try_send(method, path, &[], Some(body.to_string().as_bytes())).unwrap();
    if reply.status >= 300 {
        assert_refusal(&reply, &body.to_string());
        return;
    }
    let told = reply.json();
    for (name, value) in body.as_object().unwrap().iter().filter(|(name, _)| *name != "spec") {
        assert_eq!(&told[name], value, "{body}");
    }
    if path == ENVIRONMENTS {
        http.delete(&format!("{ENVIRONMENTS}/{}", text(&told, "id")));
    }
}

const STRANGE: &[&str] = &[
    "\u{0}",
    "a\u{0}b",
    "\u{10ffff}",
    "İstanbul",
    "\u{1}\u{2}\u{1f}",
    "\u{7f}\u{85}\u{9f}",
    "\u{1b}[2J\u{1b}]0;owned\u{7}",
    "\u{202e}gpj.exe",
    "\u{feff}bom",
    "\u{fffd}",
    "e\u{301}\u{301}\u{301}",
    "ﷺ",
    "ß",
    "../../etc/passwd",
    "..",
    ".",
    "",
    " ",
    "a'; DROP TABLE environments; --",
    "%00",
    "${HOME}",
    "null",
];

#[test]
fn strange_text_in_any_field_is_refused_or_kept_as_it_is() {
    on_both(|http, store| {
        let kept = create(http, "kept").unwrap().json();
        let target = format!("{ENVIRONMENTS}/{}", text(&kept, "id"));
        // What only a check of ours refuses is the same on both; what a database might is at the front.
        let tried = if store == "sqlite" || proving() { STRANGE } else { &STRANGE[..4] };
        for strange in tried {
            for body in [
                json!({ "name": strange }),
                json!({ "owned_by": strange }),
                json!({ "bound_to_id": strange, "bound_to_type": "run" }),
                json!({ "tags": { "key": strange } }),
                json!({ "tags": { *strange: "value" } }),
                json!({ "spec": { "name": strange } }),
                json!({ "spec": { "id": strange } }),
                json!({ "spec": { "env": { *strange: "x" } } }),
                json!({ "spec": { "env": { "X": strange } } }),
                json!({ "spec": { "setup": { "commands": [strange] } } }),
                json!({ "spec": { "mounts": [{ "source": format!("host:/{strange}"), "path": format!("/{strange}") }] } }),
                json!({ "spec": { "sandbox": { "hidden_paths": [strange] } } }),
                json!({ "spec": { *strange: strange } }),
                json!({ *strange: strange }),
                json!({ "sandbox_id": strange }),
                json!({ "provider": strange }),
                json!({ "template_id": strange }),
                json!({ "scope": strange }),
            ] {
                assert_refused_or_kept(http, "POST", ENVIRONMENTS, &body);
                assert_refused_or_kept(http, "PATCH", &target, &body);
            }
            for (path, body) in [
                ("/v1/projects", json!({ "handle": strange })),
                ("/v1/projects/default/members", json!({ "name": strange })),
                ("/v1/projects/default/members", json!({ "principal_id": strange })),
                ("/v1/projects/default/api-keys", json!({ "name": strange, "principal_id": kept["created_by"], "tags": { "k": strange } })),
                ("/v1/projects/default/sandboxes", json!({ "provider": strange })),
            ] {
                let reply = http.try_send("POST", path, &[], Some(body.to_string().as_bytes())).unwrap();
                assert!(reply.status < 500, "{path} {body}: {}", reply.json());
            }
            let reply = http.patch("/v1/projects/default", json!({ "name": strange }));
            assert!(reply.status < 500, "{}", reply.json());
        }
    });
}

#[test]
fn escaped_bytes_in_paths_queries_and_headers_are_refused() {
    on_both(|http, _| {
        for bytes in ["%00", "%ff", "%c0%ae", "%ed%a0%80", "a%00b", "%", "%zz", "%f4%90%80%80", "%0d%0aX:%20y", "%e2%80%ae"] {
            for path in [
                format!("/v1/projects/{bytes}"),
                format!("/v1/projects/{bytes}/environments"),
                format!("{ENVIRONMENTS}/{bytes}"),
                format!("{ENVIRONMENTS}/{bytes}/versions/{bytes}"),
                format!("/v1/projects/default/providers/{bytes}/check"),
                format!("/v1/{bytes}"),
            ] {
                for method in ["GET", "DELETE", "POST"] {
                    assert_refusal(&http.try_send(method, &path, &[], None).unwrap(), &format!("{method} {path}"));
                }
            }
            for parameter in ["name", "reference", "owned_by", "bound_to_id", "cursor", "limit", "status", "destroyed_since", bytes] {
                let reply = http.get(&format!("{ENVIRONMENTS}?{parameter}={bytes}"));
                assert!(reply.status < 500, "{parameter}={bytes}: {}", reply.json());
            }
            let reply = http.get(&format!("/v1/projects/default/audit?action={bytes}&target_id={bytes}"));
            assert!(reply.status < 500, "{bytes}: {}", reply.json());
        }
        let raw =
            |head: &[u8]| http.raw(&[b"POST /v1/projects HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", head, b"\r\n{}"].concat()).unwrap();
        for head in [
            &b"Authorization: Bearer \xff\xfe\r\nContent-Length: 2\r\n"[..],
            b"Authorization: \xff\r\nContent-Length: 2\r\n",
            b"Authorization: Bearer stk_\xc3\xbc.default\r\nContent-Length: 2\r\n",
            b"Idempotency-Key: \xff\r\nContent-Length: 2\r\n",
            b"Content-Type: \xff\r\nContent-Length: 2\r\n",
        ] {
            assert_refusal(&raw(head), &String::from_utf8_lossy(head));
        }
        for header in
            [("Idempotency-Key", "schlüssel"), ("Idempotency-Key", ""), ("If-Match", "ü"), ("If-Match", "\"99999999999999999999\"")]
        {
            let reply = http.try_send("POST", ENVIRONMENTS, &[header], Some(b"{\"name\": \"..\"}")).unwrap();
            assert_refusal(&reply, header.1);
        }
    });
}

#[test]
fn bodies_that_are_not_quite_json_are_refused() {
    let server = Server::start();
    let http = server.http();
    let refused: &[&[u8]] = &[
        b"{\"name\": \"\xff\"}",
        b"{\"name\": \"\xed\xa0\x80\"}",
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
        br#"{"name": "\ud800"}"#,
        br#"{"name": "\udc00\ud800"}"#,
        br#"{"name": "a", "name": "b"}"#,
        br#"{"spec": {"name": "a", "name": "b"}}"#,
        br#"{"spec": {"sandbox": {"mode": "workspace", "mode": "off"}}}"#,
        br#"{"name": "a",}"#,
        br#"{'name': 'a'}"#,
        br#"{"name": "a"} {"name": "b"}"#,
        b"// comment\n{}",
        b"NaN",
        b"\"text\"",
        b"[]",
        b"[\"a\"]",
        b"1",
        b"true",
        b"null",
        br#"{"spec": {"sandbox": {"resources": {"cpus": 1e400}}}}"#,
        br#"{"spec": {"sandbox": {"resources": {"cpus": -1}}}}"#,
        br#"{"spec": {"sandbox": {"resources": {"cpus": 1e-400}}}}"#,
        br#"{"spec": {"sandbox": {"resources": {"memory_mb": 18446744073709551616}}}}"#,
        br#"{"spec": {"sandbox": {"resources": {"memory_mb": 1.5}}}}"#,
        br#"{"spec": {"sandbox": {"resources": {"memory_mb": "12"}}}}"#,
        br#"{"tags": {"a": null}}"#,
        br#"{"tags": []}"#,
        br#"{"name": null, "colour": 1}"#,
    ];
    for body in refused {
        let shown = String::from_utf8_lossy(body);
        let told = assert_refusal(&http.try_send("POST", ENVIRONMENTS, &[], Some(body)).unwrap(), &shown);
        let code = told["error"]["code"].as_str().unwrap();
        assert!(["malformed_json", "invalid_field", "invalid_definition"].contains(&code), "{shown}: {told}");
    }
    let doubled = http.try_send("POST", ENVIRONMENTS, &[], Some(br#"{"name": "a", "name": "b"}"#)).unwrap().json();
    assert!(doubled["error"]["message"].as_str().unwrap().contains("name"), "{doubled}");
    assert_eq!(create(&http, "after").unwrap().status, 201);
}
