//! Keys: told once, kept as a hash, good until they are not.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::world::{at_once, expect, on_both_stores, on_postgres, refused, text, time_from_now, walk};
use crate::authorization::cast::{admit, key_for};
use crate::support::{Http, Reply, Server};

const KEYS: &str = "/v1/projects/default/api-keys";

fn me(http: &Http) -> String {
    text(&expect(&http.get("/v1/identity"), 200), "principal_id")
}

fn create_as(http: &Http, attempt: &str, body: &Value) -> Reply {
    http.send("POST", KEYS, &[("Idempotency-Key", attempt)], Some(body.to_string().as_bytes()))
}

#[test]
fn a_key_is_told_once_and_recognised_by_its_beginning() {
    let server = Server::start();
    let http = server.http();
    let made = key_for(&http, "default", &me(&http), json!({ "name": "ci", "tags": { "team": "x" } }));
    let key = text(&made, "key");
    assert!(key.starts_with("stk_") && !key.contains('.'), "{key}");
    // 256 bits in an alphabet of 32 letters.
    assert_eq!(key.len(), "stk_".len() + 52);
    assert!(key[4..].bytes().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit()), "{key}");
    assert!(key.starts_with(&text(&made, "key_prefix")) && text(&made, "key_prefix").len() < 16);
    assert_ne!(key, text(&key_for(&http, "default", &me(&http), json!({})), "key"));
    expect(&server.http_as(Some(&key)).get("/v1/identity"), 200);

    let hash = stead_domain::api_key::hash(&key);
    for path in [KEYS.to_owned(), format!("{KEYS}/{}", text(&made, "id")), "/v1/projects/default/audit".to_owned()] {
        let body = String::from_utf8(http.get(&path).body).unwrap();
        assert!(!body.contains(&key) && !body.contains(&hash) && !body.contains("\"key\":"), "{path}: {body}");
    }
    for (body, field) in [
        (json!({ "principal_id": me(&http) }), "name"),
        (json!({ "name": "x" }), "principal_id"),
        (json!({ "name": "x", "principal_id": "prn_x" }), "principal_id"),
        (json!({ "name": "", "principal_id": me(&http) }), "name"),
        (json!({ "name": "x", "principal_id": me(&http), "expires_at": "2020-01-01T00:00:00Z" }), "expires_at"),
        (json!({ "name": "x", "principal_id": me(&http), "expires_at": "tomorrow" }), "expires_at"),
        (json!({ "name": "x", "principal_id": me(&http), "key": "stk_mine" }), "key"),
        (json!({ "name": "x", "principal_id": me(&http), "tags": { "mobius:x": "" } }), "tags.mobius:x"),
    ] {
        assert_eq!(refused(&http.post(KEYS, body.clone()), 400, "invalid_field")["field"], field, "{body}");
    }
}

#[test]
fn a_key_is_told_again_to_the_same_attempt_only() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let body = json!({ "name": "ci", "principal_id": me(&http) });
        let first = create_as(&http, "attempt", &body);
        let again = create_as(&http, "attempt", &body);
        assert_eq!((again.status, again.json()), (201, expect(&first, 201)));
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(walk(&http, KEYS, 50).len(), 2, "one was made");
        refused(&create_as(&http, "attempt", &json!({ "name": "other", "principal_id": me(&http) })), 422, "idempotency_mismatch");
        let many = at_once(8, |_| text(&expect(&create_as(&http, "crowd", &body), 201), "key"));
        assert!(many.iter().all(|key| *key == many[0]), "of many at once all are told the same");
        assert_eq!(walk(&http, KEYS, 50).len(), 3);
        // Somebody else who says the same word is somebody else.
        let other = server.http_as(Some(&admit(&http, "default", "other", "owner").key));
        let theirs = expect(&create_as(&other, "attempt", &body), 201);
        assert_ne!(theirs["key"], first.json()["key"]);
    });
}

/// Every file below a directory, except those that are meant to hold the operator's key.
fn files(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    // What is being made beside us may have another name by now.
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), found),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

fn holds(path: &Path, needle: &str) -> bool {
    std::fs::read(path).unwrap_or_default().windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[test]
fn no_file_of_the_server_holds_a_key() {
    let mut server = Server::start();
    let http = server.http();
    let body = json!({ "name": "ci", "principal_id": me(&http) });
    let made = expect(&create_as(&http, "attempt", &body), 201);
    let plain = text(&key_for(&http, "default", &me(&http), json!({})), "key");
    let key = text(&made, "key");
    for used in [&key, &plain] {
        let caller = server.http_as(Some(used));
        expect(&caller.get("/v1/identity"), 200);
        expect(&caller.post("/v1/projects/default/environments", json!({})), 201);
        assert_eq!(caller.get(&format!("/v1/projects/default/environments/{used}")).status, 404);
    }
    assert_eq!(server.http_as(Some(&format!("{key}.other"))).get("/v1/identity").status, 401);
    let look = |server: &Server, when: &str| {
        let mut found = Vec::new();
        files(server.path(), &mut found);
        assert!(found.iter().any(|path| path.ends_with("stead.db")), "{found:?}");
        assert!(found.iter().any(|path| holds(path, &text(&made, "key_prefix"))), "the search finds what is there");
        for path in &found {
            for secret in [&key, &plain] {
                assert!(!holds(path, secret), "{} holds a key {when}", path.display());
                assert!(!holds(path, &secret[4..]), "{} holds a key without its prefix {when}", path.display());
            }
            if !path.ends_with("owner.key") {
                assert!(!holds(path, &server.owner_key()), "{} holds the owner's key {when}", path.display());
            }
        }
        let log = server.log();
        assert!(!log.contains(&key[8..]) && !log.contains(&plain[8..]) && !log.contains(&server.owner_key()), "the log holds a key");
    };
    look(&server, "while it runs");
    let directory = server.directory();
    assert_eq!(server.terminate(), Some(0));
    look(&server, "after its end");
    // The sealed reply outlives a restart, for its ten minutes.
    let server = Server::builder().on(directory).start();
    let again = create_as(&server.http(), "attempt", &body);
    assert_eq!(expect(&again, 201), made);
}

#[test]
fn a_database_holds_no_key_either() {
    on_postgres(&[], |server, postgres| {
        let http = server.http();
        let key = text(&expect(&create_as(&http, "attempt", &json!({ "name": "ci", "principal_id": me(&http) })), 201), "key");
        let hash = stead_domain::api_key::hash(&key);
        assert_eq!(
            postgres.sql(&format!("SELECT count(*) FROM api_keys WHERE key_hash = '{hash}'")).trim(),
            "1",
            "its SHA-256 is what is kept"
        );
        for table in ["api_keys", "idempotency", "audit", "settings", "principals"] {
            let rows = postgres.sql(&format!("SELECT count(*) FROM {table} t WHERE t::text LIKE '%{}%'", &key[14..])).trim().to_owned();
            assert_eq!(rows, "0", "{table}");
        }
        let body = json!({ "name": "ci", "principal_id": me(&http) });
        assert_eq!(create_as(&http, "attempt", &body).status, 201);
        let sealed = postgres.sql("SELECT encode(reply, 'escape') FROM idempotency WHERE sealed = 1");
        assert!(!sealed.trim().is_empty() && !sealed.contains("stk_"), "{sealed}");
        // Ten minutes later it is told to nobody, and what was sealed is wiped.
        postgres.sql("UPDATE idempotency SET created_at = created_at - 601 * 1000000");
        refused(&create_as(&http, "attempt", &body), 409, "conflict");
        let wiped = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            postgres.sql("SELECT count(*) FROM idempotency WHERE sealed = 1 AND reply IS NOT NULL").trim() == "0"
        });
        assert!(wiped, "the sealed reply stays");
        expect(&server.http_as(Some(&key)).get("/v1/identity"), 200);
    });
}

#[test]
fn a_key_ends_by_expiry_and_by_revocation() {
    // The matrix of routes tries both on the other store.
    on_postgres(&[], |server, _| {
        let http = server.http();
        let brief = key_for(&http, "default", &me(&http), json!({ "expires_at": time_from_now(Duration::from_millis(2500)) }));
        let revoked = key_for(&http, "default", &me(&http), json!({}));
        let [brief_key, revoked_key] = [&brief, &revoked].map(|key| server.http_as(key["key"].as_str()));
        expect(&brief_key.get("/v1/identity"), 200);
        expect(&revoked_key.get("/v1/identity"), 200);

        let path = format!("{KEYS}/{}", text(&revoked, "id"));
        expect(&http.delete(&path), 204);
        let refusal = revoked_key.get("/v1/identity");
        assert!(refused(&refusal, 401, "unauthorized")["suggestion"].is_string());
        assert_eq!((http.get(&path).status, http.delete(&path).status), (404, 404), "it cannot be revoked twice");
        assert!(walk(&http, KEYS, 50).iter().all(|key| key["id"] != revoked["id"]));

        std::thread::sleep(Duration::from_millis(2600));
        refused(&brief_key.get("/v1/identity"), 401, "unauthorized");
        let kept = expect(&http.get(&format!("{KEYS}/{}", text(&brief, "id"))), 200);
        assert_eq!(kept["expires_at"], brief["expires_at"], "one that has expired is still to be seen");
    });
}

#[test]
fn a_key_of_the_operators_own_does_not_run_the_server() {
    let server = Server::start();
    let http = server.http();
    crate::authorization::cast::make_project(&http, "other");
    let narrow = server.http_as(key_for(&http, "default", &me(&http), json!({}))["key"].as_str());
    assert_eq!(expect(&narrow.get("/v1/identity"), 200)["operator"], false);
    expect(&narrow.get(KEYS), 200);
    for path in ["/v1/system", "/v1/system/usage"] {
        assert_eq!(narrow.get(path).status, 403, "{path}");
    }
    assert_eq!(narrow.get("/v1/projects/other").status, 404, "nor does it reach the operator's other projects");
}

#[test]
fn when_a_key_was_last_used_can_be_seen() {
    let server = Server::start();
    let http = server.http();
    let made = key_for(&http, "default", &me(&http), json!({}));
    let path = format!("{KEYS}/{}", text(&made, "id"));
    assert_eq!(expect(&http.get(&path), 200).get("last_used_at"), None, "never yet");
    expect(&server.http_as(made["key"].as_str()).get("/v1/identity"), 200);
    // It is noted behind the request, so it may take a moment.
    let seen = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        expect(&http.get(&path), 200)["last_used_at"].as_str().map(str::to_owned)
    });
    assert!(seen.expect("the use is noted") >= text(&made, "created_at"));
}
