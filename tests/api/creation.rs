//! What a new environment is.

use serde_json::{Value, json};

use super::world::{ENVIRONMENTS, at, create, expect, on_both_stores, refused, text, walk};
use crate::authorization::cast::make_project;
use crate::support::Server;

/// No field anywhere may be null: what is not there is left out.
#[track_caller]
fn assert_no_null(value: &Value) {
    match value {
        Value::Null => panic!("a null"),
        Value::Array(items) => items.iter().for_each(assert_no_null),
        Value::Object(fields) => fields.values().for_each(assert_no_null),
        _ => {}
    }
}

#[test]
fn an_empty_request_makes_an_environment_of_defaults() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let reply = http.post(ENVIRONMENTS, json!({}));
        let environment = expect(&reply, 201);
        assert_no_null(&environment);
        for (field, value) in [
            ("provider", json!("local")),
            ("status", json!("ready")),
            ("environment_mode", json!("manual")),
            ("lifetime", json!("explicit")),
            ("retention_policy", json!("manual")),
            ("cleanup_status", json!("none")),
            ("spec_version", json!(1)),
            ("contains_secrets", json!(false)),
        ] {
            assert_eq!(environment[field], value, "{field}");
        }
        let me = text(&expect(&http.get("/v1/identity"), 200), "principal_id");
        for field in ["owned_by", "created_by", "updated_by"] {
            assert_eq!(environment[field], *me, "{field}");
        }
        assert!(!text(&environment, "name").is_empty(), "a name is made up");
        for absent in
            ["scope", "purpose", "bound_to_type", "bound_to_id", "template_id", "tags", "last_error", "destroyed_at", "lease_expires_at"]
        {
            assert_eq!(environment.get(absent), None, "{absent}");
        }
        assert_eq!(environment["runtime"]["provider"], "local");
        assert_eq!(environment["runtime"]["provider_status"]["state"], "ready");
        assert_eq!(
            environment["spec"],
            json!({
                "kind": "local",
                "sandbox": { "mode": "workspace", "workspace_access": "rw", "network_access": "enabled", "package_policy": "workspace" },
                "workspace_mount_defaults": { "workspace_path": "/workspace", "runtime_path": "/runtime" },
                "lease": { "policy": "exclusive", "default_ttl": "1m30s", "max_lifetime": "4h", "lock_delay": "5s", "unreachable": "wait", "at_release": "keep" },
                "root": { "view": "host" },
                "idle_timeout": "5m",
            })
        );
        assert!(server.path().join("sandboxes").join(text(&environment, "sandbox_id")).join("workspace").is_dir());

        // Read back it is the same, alone and in a list.
        let read = http.get(&at(&environment));
        assert_eq!(expect(&read, 200), environment);
        assert_eq!(read.header("etag"), reply.header("etag"));
        assert_eq!(walk(&http, ENVIRONMENTS, 1)[0], environment);
    });
}

#[test]
fn what_a_request_says_is_what_the_record_says() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let columns: [(&str, &[&str]); 7] = [
            ("environment_mode", &["manual", "run", "agent", "automation", "loop"]),
            ("lifetime", &["run", "lease", "explicit"]),
            ("purpose", &["implementation", "review", "verification", "preview", "debug", "worker", "custom"]),
            ("bound_to_type", &["none", "run", "worker_session", "service", "agent", "automation", "loop", "manual"]),
            ("retention_policy", &["manual", "destroy_on_success", "retain_on_failure", "retain_always"]),
            ("scope", &["owner"]),
            ("template_id", &["coding-default", "local-default"]),
        ];
        for row in 0..8 {
            let mut body = json!({
                "name": format!("row {row}"), "owned_by": "agent_7", "bound_to_id": "run_1", "tags": { "team": "x", "größe": "" }, "provider": "local",
            });
            for (field, values) in columns {
                body[field] = json!(values[row % values.len()]);
            }
            let environment = create(&http, body.clone());
            // The newer word is taken and the older one is answered.
            for (field, value) in body.as_object_mut().unwrap() {
                let expected = if *value == "loop" { json!("automation") } else { value.clone() };
                assert_eq!(environment[&**field], expected, "{field}");
            }
            assert_eq!(expect(&http.get(&at(&environment)), 200), environment);
        }
        let loops = expect(&http.get(&format!("{ENVIRONMENTS}?environment_mode=loop&bound_to_type=loop")), 200);
        assert_eq!(
            loops["items"],
            expect(&http.get(&format!("{ENVIRONMENTS}?environment_mode=automation&bound_to_type=automation")), 200)["items"]
        );
        for (field, values) in columns {
            let details = refused(&http.post(ENVIRONMENTS, json!({ field: "nonsense" })), 400, "invalid_field");
            assert_eq!(details["field"], field);
            for value in values.iter().filter(|value| **value != "loop") {
                assert!(details["allowed"].as_array().unwrap().contains(&json!(value)), "{field} does not offer {value}: {details}");
            }
        }
    });
}

#[test]
fn nobody_writes_what_is_the_servers_to_say() {
    let server = Server::start();
    let http = server.http();
    let count = walk(&http, ENVIRONMENTS, 200).len();
    for field in [
        "id",
        "project_id",
        "status",
        "fence",
        "spec_version",
        "runtime",
        "fingerprint",
        "created_by",
        "created_at",
        "updated_at",
        "destroyed_at",
        "cleanup_status",
        "capabilities",
        "contains_secrets",
        "lease_expires_at",
        "run_id",
        "job_id",
        "agent_id",
        "provider_resource_id",
        "revision",
    ] {
        let reply = http.post(ENVIRONMENTS, json!({ "name": "x", field: "1" }));
        assert_eq!(refused(&reply, 400, "invalid_field")["field"], field);
    }
    for field in ["id", "status", "provider", "lifetime", "environment_mode", "template_id", "sandbox_id", "spec_version", "created_by"] {
        let local = &walk(&http, ENVIRONMENTS, 1)[0];
        assert_eq!(refused(&http.patch(&at(local), json!({ field: "local" })), 400, "invalid_field")["field"], field);
    }
    assert_eq!(walk(&http, ENVIRONMENTS, 200).len(), count);
}

#[test]
fn names_are_unique_among_the_living_in_any_case() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let web = create(&http, json!({ "name": "Web Größe" }));
        for same in ["Web Größe", "web größe", "WEB GRÖSSE", "wEB gRÖßE"] {
            let reply = http.post(ENVIRONMENTS, json!({ "name": same }));
            // Upper case of ß is another spelling, and folds to another name.
            if same == "WEB GRÖSSE" {
                expect(&reply, 201);
                continue;
            }
            assert_eq!(refused(&reply, 409, "already_exists")["field"], "name", "{same}");
        }
        // Another project's names are its own.
        make_project(&http, "acme");
        expect(&http.post("/v1/projects/acme/environments", json!({ "name": "web größe" })), 201);
        // Whoever owns it may have a name of its own beside the project's, and only once.
        let owned = |owner: &str| json!({ "name": "web größe", "scope": "owner", "owned_by": owner });
        create(&http, owned("agent_1"));
        create(&http, owned("agent_2"));
        refused(&http.post(ENVIRONMENTS, owned("agent_1")), 409, "already_exists");
        // The name is free with the deletion, also for one that is spelled otherwise.
        expect(&http.delete(&at(&web)), 200);
        let again = create(&http, json!({ "name": "WEB größe" }));
        assert_ne!(again["id"], web["id"]);
        // A rename meets the same rule.
        let other = create(&http, json!({ "name": "other" }));
        refused(&http.patch(&at(&other), json!({ "name": "Web GRÖßE" })), 409, "already_exists");
        assert_eq!(expect(&http.patch(&at(&other), json!({ "name": "OTHER" })), 200)["name"], "OTHER");
        // Nothing of a refused one stays behind.
        let sandboxes = walk(&http, super::world::SANDBOXES, 200).len();
        assert_eq!(sandboxes, walk(&http, &format!("{ENVIRONMENTS}?scope=any"), 200).len());
    });
}

#[test]
fn no_name_leads_out_of_its_place() {
    let server = Server::start();
    let http = server.http();
    let long = "x".repeat(129);
    for name in
        ["", " ", ".", "..", "../agents/alpha", "a/b", "a\\b", "/etc/passwd", "a\0b", "a\nb", "\u{1b}[2J", " a", "a ", "-rf", "a.", &long]
    {
        let details = refused(&http.post(ENVIRONMENTS, json!({ "name": name })), 400, "invalid_field");
        assert_eq!(details["field"], "name", "{name:?}");
    }
    let tags = |tags: Value| refused(&http.post(ENVIRONMENTS, json!({ "tags": tags })), 400, "invalid_field");
    assert_eq!(tags(json!({ "mobius:x": "1" }))["field"], "tags.mobius:x");
    assert_eq!(tags(json!({ "stead:owner": "1" }))["field"], "tags.stead:owner");
    assert_eq!(tags(json!({ "a": "v".repeat(257) }))["field"], "tags.a");
    assert_eq!(tags((0..9).map(|n| (format!("k{n}"), json!(""))).collect())["field"], "tags");
    for (field, value) in [("owned_by", "a\0b"), ("bound_to_id", "a\u{7}"), ("owned_by", &*"x".repeat(257))] {
        assert_eq!(refused(&http.post(ENVIRONMENTS, json!({ field: value })), 400, "invalid_field")["field"], field);
    }
}

#[test]
fn a_hundred_at_once_each_get_their_own() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let made = super::world::at_once(20, |thread| {
            let make = |number| create(&http, json!({ "name": format!("many-{thread}-{number}") }));
            (0..5).map(make).collect::<Vec<_>>()
        });
        let mut ids: Vec<String> = made.iter().flatten().map(|environment| text(environment, "id")).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 100);
        let listed = walk(&http, &format!("{ENVIRONMENTS}?reference=many-"), 200);
        assert_eq!(listed.len(), 100);
        assert!(listed.iter().all(|environment| environment["status"] == "ready"));
        // Of many who want one name, one gets it.
        let statuses = super::world::at_once(12, |_| http.post(ENVIRONMENTS, json!({ "name": "the one" })).status);
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| matches!(status, 201 | 409)), "{statuses:?}");
    });
}
