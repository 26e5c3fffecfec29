//! Who makes sandboxes, and what a provider that cannot says.

use serde_json::json;

use super::world::{ENVIRONMENTS, at, create, expect, message, refused, text, walk};
use crate::support::Server;

const PROVIDERS: &str = "/v1/projects/default/providers";

#[test]
fn a_provider_that_is_not_configured_names_what_it_needs() {
    let server = Server::start();
    let http = server.http();
    for (provider, needed) in [
        ("sprites", "SPRITES_TOKEN"),
        ("daytona", "DAYTONA_API_KEY"),
        ("docker", "docker_socket"),
        ("cloudflare_containers", "provider_alias"),
    ] {
        for body in [json!({ "provider": provider }), json!({ "spec": { "kind": provider } })] {
            let reply = http.post(ENVIRONMENTS, body);
            let details = refused(&reply, 409, "provider_not_configured");
            assert_eq!(details["provider"], provider);
            assert!(message(&reply).contains(needed) && text(&details, "needs").contains(needed), "{}", message(&reply));
        }
        let check = expect(&http.send("POST", &format!("{PROVIDERS}/{provider}/check"), &[], None), 200);
        assert_eq!((&check["name"], &check["ok"]), (&json!(provider), &json!(false)));
        assert!(text(&check, "message").contains(needed), "{check}");
    }
    let worker = http.post(ENVIRONMENTS, json!({ "provider": "worker" }));
    assert_eq!(refused(&worker, 400, "invalid_field")["field"], "provider");
    assert_eq!(walk(&http, ENVIRONMENTS, 10).len(), 1, "none of it left a record");
}

#[test]
fn providers_are_listed_with_what_each_enforces() {
    let server = Server::start();
    let http = server.http();
    let listed = expect(&http.get(PROVIDERS), 200)["items"].as_array().unwrap().clone();
    let find = |name: &str| listed.iter().find(|provider| provider["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    for name in ["sprites", "daytona", "docker", "worker", "cloudflare_containers"] {
        let provider = find(name);
        assert_eq!((&provider["configured"], provider.get("capabilities")), (&json!(false), None));
        assert!(provider["missing"].is_string(), "{provider}");
    }
    let local = find("local");
    assert_eq!((&local["configured"], local.get("missing")), (&json!(true), None));
    let fields = &local["capabilities"]["fields"];
    assert_eq!(fields["sandbox.network_access"], json!({ "allowlist": "enforced", "disabled": "enforced", "enabled": "enforced" }));
    assert_eq!(fields["sandbox.mode"], json!({ "off": "unsupported", "workspace": "enforced" }));
    for (field, values) in fields.as_object().unwrap() {
        for level in values.as_object().unwrap().values() {
            assert!(["enforced", "best_effort", "unsupported", "unavailable"].contains(&level.as_str().unwrap()), "{field}");
        }
    }
    let check = expect(&http.send("POST", &format!("{PROVIDERS}/local/check"), &[], None), 200);
    assert_eq!(check["ok"], true, "{check}");
    assert!(!text(&check, "message").is_empty());
    assert_eq!(http.send("POST", &format!("{PROVIDERS}/moon/check"), &[], None).status, 404);
    // A check tells the truth.
    let trash = server.path().join("trash");
    std::fs::rename(&trash, server.path().join("away")).unwrap();
    assert_eq!(expect(&http.send("POST", &format!("{PROVIDERS}/local/check"), &[], None), 200)["ok"], false);
}

#[test]
fn the_operator_may_serve_one_provider_by_another() {
    let server = Server::builder().with(&["--provider-alias", "sprites=local,docker=local"]).start();
    let http = server.http();
    for provider in ["sprites", "docker"] {
        let environment = create(&http, json!({ "provider": provider, "name": provider }));
        assert_eq!((&environment["provider"], &environment["spec"]["kind"]), (&json!(provider), &json!(provider)));
        assert_eq!(environment["runtime"]["provider"], "local", "the truth stands beside");
        assert!(environment["runtime"]["host"].is_string());
        assert_eq!(expect(&http.get(&at(&environment)), 200), environment);
        let edited = expect(&http.patch(&at(&environment), json!({ "spec": { "kind": provider, "env": { "A": "1" } } })), 200);
        assert_eq!((&edited["provider"], &edited["runtime"]["provider"]), (&json!(provider), &json!("local")));
        // What is held is what the real one holds.
        let strict = json!({ "provider": provider, "spec": { "secret_bindings": [{ "name": "TOKEN", "required": true, "delivery": "broker", "hosts": ["api.example.org"], "inject": { "body": true } }] } });
        let details = refused(&http.post(ENVIRONMENTS, strict), 409, "posture_not_enforced");
        assert_eq!((&details["field"], &details["provider"]), (&json!("spec.secret_bindings.inject.body"), &json!("local")));
        assert_eq!(expect(&http.delete(&at(&environment)), 200)["provider"], provider);
    }
    // One spelling of the older clients.
    assert_eq!(create(&http, json!({ "provider": "sprite" }))["provider"], "sprites");
    let listed = expect(&http.get(PROVIDERS), 200);
    let sprites = listed["items"].as_array().unwrap().iter().find(|provider| provider["name"] == "sprites").unwrap().clone();
    assert_eq!((&sprites["configured"], &sprites["served_by"]), (&json!(true), &json!("local")));
    refused(&http.post(ENVIRONMENTS, json!({ "provider": "daytona" })), 409, "provider_not_configured");
}

#[test]
fn an_alias_to_what_is_not_there_stops_the_start() {
    for alias in ["sprites=docker", "sprites", "moon=local"] {
        let (status, said) = Server::builder().with(&["--provider-alias", alias]).try_start().err().expect(alias);
        assert_ne!(status, 0);
        assert!(said.contains("sprites") || said.contains("moon"), "{said}");
    }
}
