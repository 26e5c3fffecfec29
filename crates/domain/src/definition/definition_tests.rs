use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::environment::TemplateId;

fn resolve(spec: Value) -> Result<Spec> {
    Spec::from_value(spec, "spec")?.resolve(&template(TemplateId::LocalDefault), ProviderName::Local, Some("web"))
}

#[test]
fn what_is_absent_takes_the_templates_value() {
    let spec = resolve(json!({"sandbox": {"network_access": "disabled"}})).unwrap();
    let sandbox = spec.sandbox.as_ref().unwrap();
    assert_eq!(sandbox.network_access, Some(NetworkAccess::Disabled));
    assert_eq!(sandbox.workspace_access, Some(WorkspaceAccess::ReadWrite));
    assert_eq!(spec.kind, Some(ProviderName::Local));
    assert_eq!(resolve(json!({})).unwrap(), template(TemplateId::LocalDefault));
}

#[test]
fn each_invalid_field_is_named() {
    for (spec, field) in [
        (json!({"sandbox": {"network_access": "sometimes"}}), "spec.sandbox.network_access"),
        (json!({"sandbox": {"colour": 1}}), "spec.sandbox.colour"),
        (json!({"colour": 1}), "spec.colour"),
        (json!({"sandbox": {"resources": {"cpus": 0}}}), "spec.sandbox.resources.cpus"),
        (json!({"sandbox": {"resources": {"memory_mb": -1}}}), "spec.sandbox.resources.memory_mb"),
        (json!({"sandbox": {"allowed_hosts": ["a.example"]}}), "spec.sandbox.allowed_hosts"),
        (json!({"sandbox": {"network_access": "allowlist", "allowed_hosts": ["http://a"]}}), "spec.sandbox.allowed_hosts[0]"),
        (json!({"workspace_mount_defaults": {"workspace_path": "../x"}}), "spec.workspace_mount_defaults.workspace_path"),
        (json!({"workspace_mount_defaults": {"workspace_path": "/runtime"}}), "spec.workspace_mount_defaults.runtime_path"),
        (json!({"mounts": [{"source": "host:relative", "path": "/x"}]}), "spec.mounts[0].source"),
        (json!({"mounts": [{"source": "host:/x/../y", "path": "/x"}]}), "spec.mounts[0].source"),
        (json!({"mounts": [{"source": "art_1", "path": "/x"}]}), "spec.mounts[0].source"),
        (json!({"mounts": [{"path": "/x"}]}), "spec.mounts[0]"),
        (json!({"mounts": [{"source": "host:/a", "path": "/x"}, {"source": "host:/b", "path": "/x"}]}), "spec.mounts[1].path"),
        (
            json!({"workspace_mount_defaults": {"workspace_path": "/w"}, "mounts": [{"source": "artifact:art_1", "path": "/w"}]}),
            "spec.mounts[0].path",
        ),
        (
            json!({"workspace_mount_defaults": {"runtime_path": "/r"}, "mounts": [{"source": "host:/a", "path": "/r"}]}),
            "spec.mounts[0].path",
        ),
        (json!({"repos": {"default": "acme/web"}}), "spec.repos.default"),
        (json!({"repos": {"allowed": ["acme"]}}), "spec.repos.allowed[0]"),
        (json!({"secret_bindings": [{"name": "lower"}]}), "spec.secret_bindings[0].name"),
        (json!({"secret_bindings": [{"name": "SPRITES_TOKEN"}]}), "spec.secret_bindings[0].name"),
        (json!({"secret_bindings": [{"name": "A"}, {"name": "A"}]}), "spec.secret_bindings[1].name"),
        (json!({"secret_bindings": [{"name": "A", "delivery": "broker"}]}), "spec.secret_bindings[0].hosts"),
        (json!({"lease": {"default_ttl": "25h"}}), "spec.lease.default_ttl"),
        (json!({"lease": {"default_ttl": 90}}), "spec.lease.default_ttl"),
        (json!({"env": {"1A": "x"}}), "spec.env.1A"),
        (json!({"root": {"view": "image"}}), "spec.root.image"),
        (json!({"root": {"view": "image", "image": "relative"}}), "spec.root.image"),
        (json!({"root": {"view": "image", "image": "/srv/../etc"}}), "spec.root.image"),
        (json!({"root": {"view": "image", "image": "/a", "digest": "sha256:0"}}), "spec.root.digest"),
        (json!({"ports": [{"port": 0}]}), "spec.ports[0].port"),
        (json!({"ports": [{"port": 70000}]}), "spec.ports[0].port"),
        (json!({"checkpoints": {"keep": 0}}), "spec.checkpoints.keep"),
        (json!({"artifacts": [{"path": "/etc/passwd"}]}), "spec.artifacts[0].path"),
        (json!({"id": "other"}), "spec.id"),
    ] {
        let error = resolve(spec.clone()).unwrap_err();
        assert_eq!(error.details()["field"].as_str(), Some(field), "{spec}: {error}");
    }
}

#[test]
fn kind_and_provider_name_one_thing() {
    let spec = Spec::from_value(json!({"kind": "local", "provider": "docker"}), "spec").unwrap();
    let error = spec.named_provider().unwrap_err();
    assert_eq!(error.code(), Code::ProviderMismatch);
    assert!(error.message().contains("local") && error.message().contains("docker"));
}

#[test]
fn a_patch_with_null_takes_the_templates_value_again() {
    let base = template(TemplateId::LocalDefault);
    let spec = resolve(json!({"sandbox": {"network_access": "disabled"}, "env": {"A": "1"}})).unwrap();
    let patched = spec.patched(&json!({"sandbox": {"network_access": null}, "env": null}), &base).unwrap();
    assert_eq!(patched, base);
    assert_eq!(spec.patched(&json!({"sandbox": {"network_access": null}, "env": {"A": null}}), &base).unwrap().env, Some(BTreeMap::new()));
    assert!(spec.patched(&json!({"colour": null}), &base).is_err());
    assert_eq!(spec.patched(&json!({"kind": "docker"}), &base).unwrap_err().code(), Code::ProviderMismatch);
}

#[test]
fn another_image_does_not_keep_the_digest_of_the_one_before() {
    let base = template(TemplateId::LocalDefault);
    let digest = format!("sha256:{}", "1".repeat(64));
    let spec = resolve(json!({"root": {"view": "image", "image": "/a", "digest": digest}})).unwrap();
    let patched = |patch| spec.patched(&patch, &base).unwrap().image().map(|(image, digest)| (image.to_owned(), digest.is_some()));
    assert_eq!(patched(json!({"root": {"image": "/b"}})), Some(("/b".to_owned(), false)));
    assert_eq!(patched(json!({"root": {"image": "/a"}})), Some(("/a".to_owned(), true)));
    assert_eq!(patched(json!({"root": {"image": "/b", "digest": digest}})), Some(("/b".to_owned(), true)));
    assert_eq!(patched(json!({"root": {"digest": null}})), Some(("/a".to_owned(), false)));
    assert_eq!(patched(json!({"root": null})), None);
    let fields = spec.posture_fields();
    assert!(fields.contains(&("root.image", "/a".to_owned())) && fields.contains(&("root.digest", digest)));
}

#[test]
fn a_fingerprint_ignores_timestamps_and_order_and_nothing_else() {
    let spec = resolve(json!({})).unwrap();
    let stamped = Spec { created_at: Some(Timestamp::EPOCH), updated_at: Some(Timestamp::EPOCH), ..spec.clone() };
    assert_eq!(spec.fingerprint(), stamped.fingerprint());
    assert_ne!(spec.fingerprint(), resolve(json!({"env": {"A": "1"}})).unwrap().fingerprint());
    assert_eq!(spec.fingerprint().len(), 64);
}

const OPENBOA: &str = r#"{
  "id": "local-default",
  "name": "Default local environment",
  "kind": "local",
  "sandbox": { "mode": "workspace", "workspaceAccess": "rw", "networkAccess": "enabled", "packagePolicy": "workspace" },
  "workspaceMountDefaults": { "workspacePath": "/workspace", "runtimePath": "/runtime" },
  "createdAt": "2026-04-01T00:00:00.000Z",
  "updatedAt": "2026-04-01T00:00:00.000Z"
}
"#;

#[test]
fn openboas_file_is_read_as_it_is() {
    let file = DefinitionFile::parse("local-default", OPENBOA.as_bytes(), "local-default.json").unwrap();
    let whole = file.spec.resolve(&template(TemplateId::LocalDefault), ProviderName::Local, Some("local-default")).unwrap();
    assert_eq!(whole, Spec { name: Some("Default local environment".to_owned()), ..template(TemplateId::LocalDefault) });
}

#[test]
fn what_openboa_let_through_is_refused() {
    let parse = |stem: &str, text: &str| DefinitionFile::parse(stem, text.as_bytes(), "f.json").unwrap_err();
    assert_eq!(parse("a", "{}").details()["field"].as_str(), Some("id"));
    assert_eq!(parse("a", r#"{"id": "other", "kind": "local"}"#).code(), Code::InvalidDefinition);
    assert_eq!(parse("a", r#"{"id": "a", "kind": "cloud"}"#).details()["field"].as_str(), Some("kind"));
    assert_eq!(parse("a", r#"{"id": "a", "sandbox": "junk"}"#).details()["field"].as_str(), Some("sandbox"));
    assert_eq!(parse("../agents/alpha/agent", r#"{"id": "x"}"#).code(), Code::InvalidDefinition);
    let malformed = parse("a", "{\n  \"id\": \"a\",\n}");
    assert_eq!((malformed.code(), malformed.details()["line"].as_u64()), (Code::MalformedDefinition, Some(3)));
    assert_eq!(
        parse("a", &OPENBOA.replace("\"kind\"", "\"extra\": 1, \"kind\"").replace("local-default", "a")).code(),
        Code::InvalidDefinition
    );
}

#[test]
fn what_init_writes_can_be_read() {
    let text = DefinitionFile::local_default(Timestamp::EPOCH);
    assert!(text.ends_with("}\n"));
    let file = DefinitionFile::parse("local-default", text.as_bytes(), "f.json").unwrap();
    assert_eq!(file.spec.name.as_deref(), Some("Default local environment"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/.*:]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop::sample::select(vec![
            "sandbox",
            "mounts",
            "repos",
            "env",
            "lease",
            "kind",
            "path",
            "source",
            "name",
            "resources",
            "cpus",
            "x",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|map| map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_definition_panics_and_what_resolves_stays_the_same(value in any_json()) {
        let _ = DefinitionFile::parse("a", value.to_string().as_bytes(), "f.json");
        if let Ok(spec) = resolve(value) {
            let again = Spec::from_value(spec.to_value(), "spec").unwrap();
            prop_assert_eq!(&again, &spec);
            prop_assert_eq!(again.resolve(&template(TemplateId::LocalDefault), ProviderName::Local, None).unwrap(), spec);
        }
    }
}
