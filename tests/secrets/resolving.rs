//! Bindings: what a definition may name, and what a process is started with or without.

use serde_json::{Value, json};

use super::set;
use crate::api::world::{ENVIRONMENTS, at, create, expect, refused, text};
use crate::support::Server;

fn bound(bindings: Value) -> Value {
    json!({ "name": "web", "spec": { "secret_bindings": bindings } })
}

#[test]
fn a_required_secret_that_is_missing_is_named_before_anything_starts() {
    let server = Server::start();
    let http = server.http();
    let environment = create(&http, bound(json!([{ "name": "NEEDED" }, { "name": "NICE", "required": false }])));
    let processes = format!("{}/processes", at(&environment));
    let start = || http.post(&processes, json!({ "argv": ["true"] }));
    let details = refused(&start(), 409, "secret_missing");
    assert_eq!(details["name"], "NEEDED");
    assert_eq!(expect(&http.get(&processes), 200)["items"], json!([]), "nothing was started");
    assert_eq!(expect(&http.get(&at(&environment)), 200)["contains_secrets"], false);
    let exec = http.post(&format!("{}/exec", at(&environment)), json!({ "command": ["true"] }));
    assert_eq!(refused(&exec, 409, "secret_missing")["name"], "NEEDED");
}

#[test]
fn what_controls_a_provider_is_bound_by_no_way() {
    let server = Server::start();
    let http = server.http();
    let environment = create(&http, json!({ "name": "plain" }));
    for name in ["SPRITES_TOKEN", "DAYTONA_API_KEY", "GITHUB_APP_PRIVATE_KEY", "GITHUB_APP_CLIENT_SECRET", "STEAD_API_KEY"] {
        if !name.starts_with("STEAD_") {
            expect(&set(&http, name, "power-over-everything"), 201);
        }
        let bindings = json!([{ "name": name, "required": false }]);
        let details = refused(&http.post(ENVIRONMENTS, bound(bindings.clone())), 400, "invalid_field");
        assert_eq!(details["field"], "spec.secret_bindings[0].name");
        refused(&http.patch(&at(&environment), json!({ "spec": { "secret_bindings": bindings } })), 400, "invalid_field");
    }
}

#[test]
fn a_binding_that_makes_no_sense_is_refused_by_field() {
    let http_server = Server::start();
    let http = http_server.http();
    for (binding, field) in [
        (json!({ "name": "lower" }), "spec.secret_bindings[0].name"),
        (json!({ "name": "A", "value": "hidden" }), "spec.secret_bindings[0].value"),
        (json!({ "name": "A", "hosts": ["a.test"] }), "spec.secret_bindings[0].delivery"),
        (json!({ "name": "A", "delivery": "broker" }), "spec.secret_bindings[0].hosts"),
        (
            json!({ "name": "A", "delivery": "broker", "hosts": ["a.test"], "inject": { "scheme": "sigv4" } }),
            "spec.secret_bindings[0].inject.scheme",
        ),
        (
            json!({ "name": "A", "delivery": "broker", "hosts": ["a.test"], "inject": { "header": "host" } }),
            "spec.secret_bindings[0].inject.header",
        ),
        (json!({ "name": "A", "delivery": "smoke" }), "spec.secret_bindings[0].delivery"),
    ] {
        let reply = http.post(ENVIRONMENTS, bound(json!([binding])));
        assert_eq!((reply.status, reply.json()["error"]["details"]["field"].as_str()), (400, Some(field)), "{}", reply.json());
        assert!(!String::from_utf8_lossy(&reply.body).contains("hidden"));
    }
    refused(&http.post(ENVIRONMENTS, bound(json!([{ "name": "A" }, { "name": "A" }]))), 400, "invalid_field");
    // A body that the value is put into may be shown to whoever sent it.
    let body = json!([{ "name": "A", "delivery": "broker", "hosts": ["a.test"], "inject": { "body": true } }]);
    let refusal = refused(&http.post(ENVIRONMENTS, bound(body.clone())), 409, "posture_not_enforced");
    assert!(text(&refusal, "field").starts_with("spec.secret_bindings."), "{refusal}");
    let mut accepted = bound(body);
    accepted["allow_unenforced"] = json!(true);
    let environment = create(&http, accepted);
    let posture = expect(&http.get(&format!("{}/posture", at(&environment))), 200).to_string();
    assert!(posture.contains("secret_bindings.inject.body"), "{posture}");
}
