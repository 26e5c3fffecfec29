//! Asking the provider how a place is, and what becomes of the record.

use serde_json::json;

use super::world::{ENVIRONMENTS, at, create, expect, on_both_stores, on_postgres, refused, text, walk};
use crate::support::{Http, Server};

fn reconcile(http: &Http, environment: &serde_json::Value) -> serde_json::Value {
    expect(&http.send("POST", &format!("{}/reconcile", at(environment)), &[], None), 200)
}

fn place(server: &Server, environment: &serde_json::Value) -> std::path::PathBuf {
    server.path().join("sandboxes").join(text(environment, "sandbox_id"))
}

fn observed_at(environment: &serde_json::Value) -> String {
    text(&environment["runtime"]["provider_status"], "observed_at")
}

#[test]
fn reconcile_finds_a_place_that_is_gone_and_takes_it_back() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let environment = create(&http, json!({ "name": "web" }));
        let looked = reconcile(&http, &environment);
        assert!(observed_at(&looked) > observed_at(&environment), "it was looked at again");
        assert_eq!(looked["status"], "ready");
        assert!(looked["last_reconciled_at"].is_string());
        assert_eq!(looked["updated_at"], environment["updated_at"], "nothing changed");

        let away = server.path().join("away");
        std::fs::rename(place(server, &environment), &away).unwrap();
        let orphan = reconcile(&http, &environment);
        assert_eq!((&orphan["status"], &orphan["runtime"]["provider_status"]["state"]), (&json!("orphaned"), &json!("missing")));
        assert!(text(&orphan, "last_error").contains("gone"), "{orphan}");
        assert!(orphan["runtime"]["provider_status"]["message"].is_string());
        assert_eq!(expect(&http.get(&at(&environment)), 200), orphan);
        // It is still a record like any other.
        expect(&http.patch(&at(&environment), json!({ "purpose": "debug" })), 200);
        refused(&http.post(ENVIRONMENTS, json!({ "name": "web" })), 409, "already_exists");
        assert_eq!(reconcile(&http, &environment)["status"], "orphaned", "it does not come back by being looked at");

        std::fs::rename(&away, place(server, &environment)).unwrap();
        let back = reconcile(&http, &environment);
        assert_eq!((&back["status"], back.get("last_error")), (&json!("ready"), None));
        let path = format!("/v1/projects/default/audit?target_id={}", text(&environment, "id"));
        let actions: Vec<String> = walk(&http, &path, 50).iter().map(|record| text(record, "action")).collect();
        for action in ["environment.orphan", "environment.adopt"] {
            assert_eq!(actions.iter().filter(|known| *known == action).count(), 1, "{actions:?}");
        }
    });
}

#[test]
fn what_a_dead_environment_was_is_all_that_reconcile_tells() {
    let server = Server::start();
    let http = server.http();
    let environment = create(&http, json!({}));
    let gone = expect(&http.delete(&at(&environment)), 200);
    assert_eq!(reconcile(&http, &environment), gone);
    assert!(!place(&server, &environment).exists());
}

#[test]
fn reconcile_tries_again_what_had_failed() {
    // The state is brought about behind the server's back: no request can leave it.
    on_postgres(&[], |server, postgres| {
        let http = server.http();
        let environment = create(&http, json!({ "name": "web" }));
        let (id, sandbox) = (text(&environment, "id"), text(&environment, "sandbox_id"));
        std::fs::remove_dir_all(place(server, &environment)).unwrap();
        std::fs::write(place(server, &environment), "in the way").unwrap();
        postgres.sql(&format!(
            "BEGIN; UPDATE sandboxes SET status = 'provisioning' WHERE id = '{sandbox}'; UPDATE environments SET status = 'provisioning' WHERE id = '{id}'; COMMIT"
        ));
        let failed = reconcile(&http, &environment);
        assert_eq!(failed["status"], "failed", "{failed}");
        assert!(!text(&failed, "last_error").is_empty());

        std::fs::remove_file(place(server, &environment)).unwrap();
        let ready = reconcile(&http, &environment);
        assert_eq!((&ready["status"], ready.get("last_error")), (&json!("ready"), None));
        assert!(place(server, &environment).join("workspace").is_dir());
    });
}

#[test]
fn a_provider_that_fails_leaves_nothing_half_made() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let (sandboxes, away) = (server.path().join("sandboxes"), server.path().join("away"));
        std::fs::rename(&sandboxes, &away).unwrap();
        std::fs::write(&sandboxes, "in the way").unwrap();
        let body = json!({ "name": "web" }).to_string();
        let attempt = || http.send("POST", ENVIRONMENTS, &[("Idempotency-Key", "attempt")], Some(body.as_bytes()));
        let failed = attempt();
        let details = refused(&failed, 502, "provider_failed");
        let half = json!({ "id": details["environment_id"] });
        assert_ne!(expect(&http.get(&at(&half)), 200)["status"], "ready");
        assert!(!walk(&http, ENVIRONMENTS, 10).iter().any(|environment| environment["status"] == "provisioning"));

        std::fs::remove_file(&sandboxes).unwrap();
        std::fs::rename(&away, &sandboxes).unwrap();
        // The name is free and the key was not used up: the same request may be tried again.
        let made = expect(&attempt(), 201);
        assert_ne!(made["id"], half["id"]);
        let gone = reconcile(&http, &half);
        assert_eq!(gone["status"], "destroyed");
        assert!(!text(&gone, "last_error").is_empty(), "the tombstone says why");
    });
}
