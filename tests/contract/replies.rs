//! Real replies against the published shapes.

use std::time::Duration;

use serde_json::{Value, json};

use super::shapes::{API_KEY, API_KEY_LIST, API_KEY_RESULT, ENVIRONMENT, ENVIRONMENT_LIST, ERROR};
use crate::api::world::{ENVIRONMENTS, at, expect, on_both_stores, text, time_from_now};
use crate::support::Server;

const KEYS: &str = "/v1/projects/default/api-keys";

/// A request in which every field of theirs is used.
fn full() -> Value {
    json!({
        "name": "full", "scope": "owner", "provider": "sprites", "environment_mode": "agent", "purpose": "implementation", "owned_by": "agent_1",
        "bound_to_type": "agent", "bound_to_id": "agent_1", "lifetime": "lease", "template_id": "coding-default", "spec": {}, "tags": { "team": "x" },
        "retention_policy": "retain_on_failure",
    })
}

#[test]
fn environments_fit_the_published_shape() {
    on_both_stores(&["--provider-alias", "sprites=local"], |server| {
        let http = server.http();
        for body in [json!({}), full()] {
            let environment = expect(&http.post(ENVIRONMENTS, body.clone()), 201);
            ENVIRONMENT.check(&environment);
            for (field, value) in body.as_object().unwrap().iter().filter(|(field, _)| *field != "spec") {
                assert_eq!(&environment[field], value, "{field}");
            }
            let path = at(&environment);
            ENVIRONMENT.check(&expect(&http.get(&path), 200));
            let edit = json!({
                "purpose": "review", "retention_policy": "retain_always", "scope": null, "owned_by": null, "bound_to_type": "none", "bound_to_id": null,
                "tags": {},
            });
            let edited = expect(&http.patch(&path, edit), 200);
            ENVIRONMENT.check(&edited);
            for absent in ["scope", "owned_by", "bound_to_id"] {
                assert_eq!(edited.get(absent), None, "{absent}");
            }
            ENVIRONMENT.check(&expect(&http.send("POST", &format!("{path}/reconcile"), &[], None), 200));
            ENVIRONMENT_LIST.check(&expect(&http.get(&format!("{ENVIRONMENTS}?limit=1")), 200));
            let place = server.path().join("sandboxes").join(text(&environment, "sandbox_id"));
            std::fs::remove_dir_all(place).unwrap();
            let orphan = expect(&http.send("POST", &format!("{path}/reconcile"), &[], None), 200);
            ENVIRONMENT.check(&orphan);
            assert_eq!(orphan["status"], "orphaned");
            let last = expect(&http.delete(&path), 200);
            ENVIRONMENT.check(&last);
            assert!(last["destroyed_at"].is_string());
            ENVIRONMENT_LIST.check(&expect(&http.get(&format!("{ENVIRONMENTS}?include_destroyed=true")), 200));
        }
    });
}

#[test]
fn api_keys_fit_the_published_shape() {
    let server = Server::start();
    let http = server.http();
    let me = text(&expect(&http.get("/v1/identity"), 200), "principal_id");
    for more in [json!({}), json!({ "expires_at": time_from_now(Duration::from_secs(3600)), "tags": { "team": "x" } })] {
        let mut body = json!({ "name": "ci", "principal_id": me });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = expect(&http.post(KEYS, body), 201);
        API_KEY_RESULT.check(&made);
        server.http_as(made["key"].as_str()).get("/v1/identity");
        let path = format!("{KEYS}/{}", text(&made, "id"));
        let read = expect(&http.get(&path), 200);
        API_KEY.check(&read);
        for (field, value) in read.as_object().unwrap().iter().filter(|(field, _)| *field != "last_used_at") {
            assert_eq!(value, &made[field], "{field}");
        }
        API_KEY_LIST.check(&expect(&http.get(&format!("{KEYS}?limit=1")), 200));
        API_KEY_LIST.check(&expect(&http.get(&format!("{KEYS}?tag=team:x")), 200));
        let revoked = http.delete(&path);
        assert_eq!((revoked.status, revoked.body.len()), (204, 0));
        assert_eq!(http.get(&path).status, 404);
    }
}

#[test]
fn tags_of_keys_are_filtered_as_published() {
    let server = Server::start();
    let http = server.http();
    let me = text(&expect(&http.get("/v1/identity"), 200), "principal_id");
    for (name, team) in [("one", "x"), ("two", "y"), ("three", "z")] {
        expect(&http.post(KEYS, json!({ "name": name, "principal_id": me, "tags": { "team": team, "kind": "ci" } })), 201);
    }
    for (query, expected) in [
        ("tag=team:x", &["one"][..]),
        ("tag=team:x,y", &["two", "one"]),
        ("tag=team:*", &["three", "two", "one"]),
        ("tag=team:x,y&tag=kind:ci", &["two", "one"]),
        ("tag=team:x&tag=team:y", &[]),
        ("tag=nothing:*", &[]),
    ] {
        let names: Vec<String> =
            crate::api::world::walk(&http, &format!("{KEYS}?{query}"), 50).iter().map(|key| text(key, "name")).collect();
        assert_eq!(names, expected, "{query}");
    }
}

#[test]
fn errors_fit_the_published_shape() {
    let server = Server::builder().with(&["--rate-limit", "1000"]).start();
    let http = server.http();
    let web = expect(&http.post(ENVIRONMENTS, json!({ "name": "web" })), 201);
    expect(&http.send("POST", ENVIRONMENTS, &[("Idempotency-Key", "k")], Some(b"{}")), 201);
    let viewer = server.http_as(Some(&crate::authorization::cast::admit(&http, "default", "viewer", "viewer").key));
    for (status, code, reply) in [
        (400, "missing_body", http.send("POST", ENVIRONMENTS, &[], None)),
        (400, "malformed_json", http.send("POST", ENVIRONMENTS, &[], Some(b"{"))),
        (400, "invalid_field", http.post(ENVIRONMENTS, json!({ "colour": 1 }))),
        (400, "invalid_cursor", http.get(&format!("{ENVIRONMENTS}?cursor=x"))),
        (401, "unauthorized", server.http_as(None).get(ENVIRONMENTS)),
        (403, "forbidden", viewer.delete(&at(&web))),
        (404, "not_found", http.get(&format!("{ENVIRONMENTS}/env_x"))),
        (404, "not_found", http.get("/nothing")),
        (405, "method_not_allowed", http.send("PUT", ENVIRONMENTS, &[], None)),
        (409, "already_exists", http.post(ENVIRONMENTS, json!({ "name": "web" }))),
        (409, "provider_not_configured", http.post(ENVIRONMENTS, json!({ "provider": "sprites" }))),
        (412, "precondition_failed", http.send("PATCH", &at(&web), &[("If-Match", "\"9\"")], Some(b"{}"))),
        (422, "idempotency_mismatch", http.send("POST", ENVIRONMENTS, &[("Idempotency-Key", "k")], Some(b"{\"name\":\"x\"}"))),
    ] {
        let body = expect(&reply, status);
        ERROR.check(&body);
        assert_eq!(body["error"]["code"], code);
        let details = &body["error"]["details"];
        assert!(details["recoverable"].is_boolean() && details["request_id"].is_string(), "{body}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
}

#[test]
fn the_document_tells_the_published_statuses_and_values() {
    let server = Server::start();
    let document = expect(&server.http().get("/openapi.json"), 200);
    let one = "/v1/projects/{project}/environments/{environment_id}";
    for (method, path, operation, statuses) in [
        ("get", "/v1/projects/{project}/environments", "listEnvironments", &["200", "401", "403"][..]),
        ("post", "/v1/projects/{project}/environments", "createEnvironment", &["201", "400", "401", "403", "409"]),
        ("get", one, "getEnvironment", &["200", "401", "403", "404"]),
        ("patch", one, "updateEnvironment", &["200", "400", "401", "403", "404"]),
        ("delete", one, "destroyEnvironment", &["200", "401", "403", "404"]),
        ("post", &format!("{one}/reconcile"), "reconcileEnvironment", &["200", "401", "403", "404"]),
        ("post", "/v1/projects/{project}/api-keys", "createAPIKey", &["201", "400", "401", "403", "404"]),
        ("get", "/v1/projects/{project}/api-keys", "listAPIKeys", &["200", "401", "403", "404"]),
        ("get", "/v1/projects/{project}/api-keys/{id}", "getAPIKey", &["200", "401", "403", "404"]),
        ("delete", "/v1/projects/{project}/api-keys/{id}", "revokeAPIKey", &["204", "401", "403", "404"]),
    ] {
        let documented = &document["paths"][path][method];
        assert_eq!(documented["operationId"], operation);
        for status in statuses {
            assert!(documented["responses"][status].is_object(), "{operation} does not tell {status}");
        }
    }
    let list: Vec<String> = document["paths"]["/v1/projects/{project}/environments"]["get"]["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|parameter| text(parameter, "name"))
        .collect();
    for parameter in [
        "cursor",
        "limit",
        "provider",
        "status",
        "lifetime",
        "environment_mode",
        "purpose",
        "scope",
        "owned_by",
        "bound_to_type",
        "bound_to_id",
        "include_destroyed",
        "destroyed_since",
    ] {
        assert!(list.iter().any(|known| known == parameter), "{parameter}");
    }
    for (schema, words) in [
        ("EnvironmentStatus", &["provisioning", "ready", "running", "retained", "destroying", "destroyed", "failed", "orphaned"][..]),
        ("EnvironmentMode", &["manual", "run", "agent", "automation"]),
        ("Lifetime", &["run", "lease", "explicit"]),
        ("RetentionPolicy", &["manual", "destroy_on_success", "retain_on_failure", "retain_always"]),
    ] {
        let known = document["components"]["schemas"][schema]["enum"].as_array().unwrap_or_else(|| panic!("no values of {schema}"));
        for word in words {
            assert!(known.contains(&json!(word)), "{schema} does not tell {word}");
        }
        assert_eq!(known.len(), words.len(), "{schema}");
    }
}
