//! The definition in a request: typed, whole or in part, and held to what the provider can do.

use serde_json::{Value, json};

use super::world::{ENVIRONMENTS, at, create, expect, message, refused, text};
use crate::support::Server;

#[test]
fn a_partial_definition_is_laid_over_its_template() {
    let server = Server::start();
    let http = server.http();
    let plain = create(&http, json!({}));
    let coding = create(&http, json!({ "template_id": "coding-default", "spec": { "env": { "CI": "1" } } }));
    assert_eq!(coding["spec"]["checkpoints"], json!({ "before_takeover": true, "after_run": true, "keep": 10 }));
    assert_eq!(coding["spec"]["env"], json!({ "CI": "1" }));
    assert_eq!(coding["spec"]["sandbox"], plain["spec"]["sandbox"]);

    let whole = json!({
        "kind": "local", "name": "Web",
        "sandbox": { "mode": "workspace", "workspace_access": "rw", "network_access": "enabled", "package_policy": "workspace",
                     "protected_paths": [".git/hooks"], "hidden_paths": ["secret"], "allow_ptrace": false },
        "workspace_mount_defaults": { "workspace_path": "/work", "runtime_path": "/run-time" },
        "repos": { "default": "acme/web", "allowed": ["acme/web", "acme/lib"], "github_installation_id": 123, "submodules": true },
        "secret_bindings": [{ "name": "OPENAI_API_KEY", "required": true, "delivery": "env" }],
        "lease": { "policy": "open", "default_ttl": "30s", "max_lifetime": "1h", "lock_delay": "0s", "unreachable": "destroy", "at_release": "clean" },
        "env": { "CI": "1" }, "root": { "view": "host" }, "ports": [{ "port": 3000, "primary": true }], "idle_timeout": "1h30m",
        "checkpoints": { "before_takeover": false, "after_run": false, "every": "30m", "keep": 3 },
        "artifacts": [{ "path": "out/**", "when": "failure" }], "providers": ["local", "sprites"], "setup": { "script": "make deps" },
    });
    let made = create(&http, json!({ "spec": whole, "allow_unenforced": true }));
    assert_eq!(made["spec"], whole);
    assert_eq!(expect(&http.get(&at(&made)), 200)["spec"], whole);
}

#[test]
fn a_wrong_definition_names_its_field() {
    let server = Server::start();
    let http = server.http();
    for (spec, field) in [
        (json!({ "colour": 1 }), "spec.colour"),
        (json!({ "sandbox": { "colour": 1 } }), "spec.sandbox.colour"),
        (json!({ "sandbox": { "network_access": "open" } }), "spec.sandbox.network_access"),
        (json!({ "sandbox": { "resources": { "cpus": -1 } } }), "spec.sandbox.resources.cpus"),
        (json!({ "sandbox": { "resources": { "memory_mb": "many" } } }), "spec.sandbox.resources.memory_mb"),
        (json!({ "sandbox": { "allowed_hosts": ["ok.example.org", "http://x/"] } }), "spec.sandbox.allowed_hosts[1]"),
        (json!({ "workspace_mount_defaults": { "workspace_path": "../x" } }), "spec.workspace_mount_defaults.workspace_path"),
        (json!({ "mounts": [{ "source": "ftp:x", "path": "/data" }] }), "spec.mounts[0].source"),
        (json!({ "mounts": [{ "source": "host:../x", "path": "/data" }] }), "spec.mounts[0].source"),
        (json!({ "mounts": [{ "source": "host:/srv/../etc", "path": "/data" }] }), "spec.mounts[0].source"),
        (json!({ "repos": { "default": "../../etc" } }), "spec.repos.default"),
        (json!({ "secret_bindings": [{ "name": "lower" }] }), "spec.secret_bindings[0].name"),
        (json!({ "secret_bindings": [{ "name": "TOKEN", "value": "v" }] }), "spec.secret_bindings[0].value"),
        (json!({ "secret_bindings": [{ "name": "SPRITES_TOKEN" }] }), "spec.secret_bindings[0].name"),
        (json!({ "lease": { "default_ttl": "soon" } }), "spec.lease.default_ttl"),
        (json!({ "env": { "A=B": "1" } }), "spec.env.A=B"),
        (json!({ "env": { "A": "x\0y" } }), "spec.env.A"),
        (json!({ "root": { "view": "image" } }), "spec.root.image"),
        (json!({ "ports": [{ "port": 0 }] }), "spec.ports[0].port"),
        (json!({ "artifacts": [{ "path": "/etc/passwd" }] }), "spec.artifacts[0].path"),
        (json!({ "providers": ["local", "local"] }), "spec.providers[1]"),
        (json!({ "id": "other" }), "spec.id"),
    ] {
        let reply = http.post(ENVIRONMENTS, json!({ "name": "x", "spec": spec }));
        let details = refused(&reply, 400, "invalid_field");
        assert_eq!(details["field"], field, "{spec}");
        assert!(message(&reply).contains(field), "{}", message(&reply));
    }
}

#[test]
fn kind_and_provider_are_one_thing() {
    let server = Server::start();
    let http = server.http();
    for body in [
        json!({ "provider": "local", "spec": { "kind": "docker" } }),
        json!({ "provider": "local", "spec": { "provider": "docker" } }),
        json!({ "spec": { "kind": "local", "provider": "docker" } }),
    ] {
        let reply = http.post(ENVIRONMENTS, body);
        refused(&reply, 400, "provider_mismatch");
        assert!(message(&reply).contains("`local`") && message(&reply).contains("`docker`"), "{}", message(&reply));
    }
    for body in [json!({ "spec": { "kind": "local" } }), json!({ "provider": "local", "spec": { "kind": "local", "provider": "local" } })] {
        let environment = create(&http, body);
        assert_eq!((&environment["provider"], &environment["spec"]["kind"]), (&json!("local"), &json!("local")));
        assert_eq!(environment["spec"].get("provider"), None);
        // An edit cannot move it.
        let reply = http.patch(&at(&environment), json!({ "spec": { "kind": "docker" } }));
        refused(&reply, 400, "provider_mismatch");
        assert!(message(&reply).contains("`local`") && message(&reply).contains("`docker`"), "{}", message(&reply));
    }
}

/// The posture that can be read back, as field, declared value and enforcement.
fn posture(environment: &Value, field: &str) -> (String, String) {
    let fields = environment["runtime"]["posture"].as_array().unwrap();
    let found = fields.iter().find(|entry| entry["field"] == field).unwrap_or_else(|| panic!("no {field} in {environment}"));
    (text(found, "declared"), text(found, "enforcement"))
}

#[test]
fn a_posture_that_would_not_hold_is_refused_by_name() {
    let server = Server::start();
    let http = server.http();
    let brokered =
        json!([{ "name": "TOKEN", "required": true, "delivery": "broker", "hosts": ["api.example.org"], "inject": { "body": true } }]);
    for (spec, field, value) in [
        (json!({ "secret_bindings": brokered }), "secret_bindings.inject.body", "true"),
        (json!({ "mounts": [{ "source": "artifact:art_1", "path": "/data" }] }), "mounts", "artifact:ro"),
    ] {
        let body = |allow: bool| json!({ "spec": spec, "allow_unenforced": allow });
        let reply = http.post(ENVIRONMENTS, body(false));
        let details = refused(&reply, 409, "posture_not_enforced");
        assert_eq!((&details["field"], &details["value"]), (&json!(format!("spec.{field}")), &json!(value)));
        assert!(message(&reply).contains(field), "{}", message(&reply));

        let environment = create(&http, body(true));
        assert_eq!(environment["allow_unenforced"], true);
        assert_eq!(posture(&environment, field), (value.to_owned(), "unsupported".to_owned()));
        assert_eq!(posture(&environment, "sandbox.mode").1, "enforced");
        assert_eq!(expect(&http.get(&at(&environment)), 200)["runtime"]["posture"], environment["runtime"]["posture"]);
    }
    // What the sandbox holds is taken as it is.
    for (sandbox, field, value, level) in [
        (json!({ "network_access": "disabled" }), "sandbox.network_access", "disabled", "enforced"),
        (json!({ "workspace_access": "ro" }), "sandbox.workspace_access", "ro", "enforced"),
        (json!({ "workspace_access": "cow" }), "sandbox.workspace_access", "cow", "enforced"),
        (json!({ "package_policy": "none" }), "sandbox.package_policy", "none", "best_effort"),
        (json!({ "resources": { "disk_mb": 512 } }), "sandbox.resources.disk_mb", "512", "best_effort"),
    ] {
        assert_eq!(posture(&create(&http, json!({ "spec": { "sandbox": sandbox } })), field), (value.to_owned(), level.to_owned()));
    }
    // An edit is held to the same, and leaves everything as it was.
    let environment = create(&http, json!({}));
    let edit = json!({ "spec": { "secret_bindings": brokered } });
    assert_eq!(
        refused(&http.patch(&at(&environment), edit.clone()), 409, "posture_not_enforced")["field"],
        "spec.secret_bindings.inject.body"
    );
    assert_eq!(expect(&http.get(&at(&environment)), 200), environment);
    let mut edit = edit;
    edit["allow_unenforced"] = json!(true);
    let edited = expect(&http.patch(&at(&environment), edit), 200);
    assert_eq!(posture(&edited, "secret_bindings.inject.body"), ("true".to_owned(), "unsupported".to_owned()));
}

#[test]
fn unsandboxed_is_the_operators_to_allow_and_nothing_runs_so_yet() {
    let body = json!({ "spec": { "sandbox": { "mode": "off" } }, "allow_unenforced": true });
    for (options, says) in [(&[][..], "the operator has not allowed"), (&["--allow-unsandboxed"], "runs nothing unsandboxed")] {
        let server = Server::builder().with(options).start();
        let reply = server.http().post(ENVIRONMENTS, body.clone());
        assert_eq!(refused(&reply, 409, "posture_not_enforced")["field"], "spec.sandbox.mode");
        assert!(message(&reply).contains(says), "{}", message(&reply));
    }
}

#[test]
fn host_paths_are_mounted_only_from_where_the_operator_said() {
    let allowed = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::create_dir(allowed.path().join("data")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), allowed.path().join("out")).unwrap();
    let body = |source: &std::path::Path| {
        let mounts = json!([{ "source": format!("host:{}", source.display()), "path": "/data", "access": "ro" }]);
        json!({ "spec": { "mounts": mounts }, "allow_unenforced": true })
    };
    let closed = Server::start();
    for path in [allowed.path(), &*allowed.path().join("data")] {
        let details = refused(&closed.http().post(ENVIRONMENTS, body(path)), 403, "forbidden");
        assert_eq!(details["field"], "spec.mounts[0].source");
    }

    let open = Server::builder().with(&["--allow-host-path", allowed.path().to_str().unwrap()]).start();
    let http = open.http();
    let mounted = create(&http, body(&allowed.path().join("data")));
    assert_eq!(mounted["spec"]["mounts"][0]["access"], "ro");
    // A directory beside it, one whose name only begins alike, and a link out of it.
    let beside = std::path::PathBuf::from(format!("{}-beside", allowed.path().display()));
    for path in [elsewhere.path(), &beside, &allowed.path().join("out"), std::path::Path::new("/")] {
        let reply = http.post(ENVIRONMENTS, body(path));
        assert!(matches!(reply.status, 400 | 403), "{}: {}", path.display(), reply.status);
        assert_eq!(reply.json()["error"]["details"]["field"], "spec.mounts[0].source");
    }
    let edit = json!({ "spec": { "mounts": [{ "source": format!("host:{}", elsewhere.path().display()), "path": "/data" }] } });
    assert_eq!(refused(&http.patch(&at(&mounted), edit), 403, "forbidden")["field"], "spec.mounts[0].source");
}

#[test]
fn the_data_directory_is_never_mounted() {
    let parent = tempfile::tempdir().unwrap();
    let server = Server::builder().with(&["--allow-host-path", "/"]).start();
    let link = parent.path().join("innocent");
    std::os::unix::fs::symlink(server.path(), &link).unwrap();
    let sandboxes = server.path().join("sandboxes");
    for path in
        [server.path(), &sandboxes, &server.path().join("not there yet"), server.path().parent().unwrap(), &link, &link.join("sandboxes")]
    {
        let mounts = json!([{ "source": format!("host:{}", path.display()), "path": "/data" }]);
        let reply = server.http().post(ENVIRONMENTS, json!({ "spec": { "mounts": mounts }, "allow_unenforced": true }));
        assert_eq!(refused(&reply, 400, "invalid_field")["field"], "spec.mounts[0].source", "{}", path.display());
    }
}
