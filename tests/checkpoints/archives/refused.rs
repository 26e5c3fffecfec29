//! Archives that nobody should have made: each is refused with a next step, and nothing of it stays.

use serde_json::{Value, json};

use super::super::Spot;
use super::forging::{names, with_header, with_manifest};
use super::{assert_nothing_came, layers, send};
use crate::api::world::{ENVIRONMENTS, expect, refused};
use crate::support::Server;

fn all(server: &Server) -> usize {
    let listed = expect(&server.http().get(&format!("{ENVIRONMENTS}?limit=200&include_destroyed=true")), 200);
    listed["items"].as_array().unwrap().len()
}

fn archive(server: &Server) -> Vec<u8> {
    let spot = Spot::new(&server.http(), "honest");
    spot.works("mkdir d; echo text > d/file; echo other > other; ln -s /etc/passwd link");
    spot.checkpoint(json!({"name": "one"}));
    spot.works("rm other; echo more > d/more");
    spot.export()
}

#[test]
fn entries_that_lead_elsewhere_or_are_somebody_elses_are_refused() {
    let (from, to) = (Server::start(), Server::start());
    let (good, before, count) = (archive(&from), layers(to.path()), all(&to));
    let file = "layers/0/workspace/d/file";
    assert!(names(&good).iter().any(|name| name == file), "{:?}", names(&good));
    let named = |name: &str| {
        let mut field = name.as_bytes().to_vec();
        field.resize(100, 0);
        with_header(&good, file, 0, &field)
    };
    let outside = tempfile::Builder::new().prefix("stead-").tempdir().unwrap();
    let up = format!("layers/0/workspace/d/../../../../../../../..{}/new", outside.path().display());
    let forged = [
        ("a way up", named(&up)),
        ("a way out of the layer", named("layers/0/workspace/../../../owned")),
        ("an absolute name", named("/etc/owned")),
        ("through a link", named("layers/0/workspace/link/owned")),
        ("another layer", named("layers/7/workspace/d/file")),
        ("a part that nobody knows", named("layers/0/work/file")),
        ("a set-user-id bit", with_header(&good, file, 100, b"0004755")),
        ("an owner", with_header(&good, file, 108, b"0001750")),
        ("an owner beyond all", with_header(&good, file, 116, b"7777777")),
        ("a device", with_header(&good, file, 156, b"4")),
        ("another kind of device", with_header(&good, "layers/1/workspace/other", 329, b"0000010")),
        ("what is not known", with_header(&good, file, 156, b"S")),
    ];
    for (what, archive) in &forged {
        let details = refused(&send(&to.http(), archive, "", None), 400, "invalid_archive");
        assert!(details["path"].is_string() || *what == "what is not known", "{what}: {details}");
    }
    assert_nothing_came(&to, &before, count);
    assert!(std::fs::read_dir(outside.path()).unwrap().next().is_none());
    // What the forging itself does is no harm.
    expect(&send(&to.http(), &with_header(&good, file, 100, b"0000600"), "", None), 201);
}

#[test]
fn what_is_cut_off_or_damaged_is_refused() {
    let (from, to) = (Server::start(), Server::start());
    let (good, before, count) = (archive(&from), layers(to.path()), all(&to));
    for part in 0..24 {
        refused(&send(&to.http(), &good[..good.len() * part / 24], "", None), 400, "invalid_archive");
    }
    for short in [1, 512, 1024, 1025, 2048] {
        refused(&send(&to.http(), &good[..good.len() - short], "", None), 400, "invalid_archive");
    }
    for (number, at) in (3000..good.len() - 3000).step_by(good.len() / 40).enumerate() {
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        let reply = send(&to.http(), &damaged, &format!("?name=damaged-{number}"), None);
        refused(&reply, 400, "invalid_archive");
    }
    for nonsense in [&b"{}"[..], b"", &[0; 4096], b"\x1f\x8b\x08nothing", &[good.as_slice(), b"more"].concat()] {
        refused(&send(&to.http(), nonsense, "", None), 400, "invalid_archive");
    }
    assert_nothing_came(&to, &before, count);
}

#[test]
fn manifests_that_lie_are_refused() {
    let (from, to) = (Server::start(), Server::start());
    let (good, before, count) = (archive(&from), layers(to.path()), all(&to));
    let change = |pointer: &str, value: Value| {
        with_manifest(&good, |manifest| {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            manifest.pointer_mut(parent).unwrap()[name] = value;
        })
    };
    for (pointer, value) in [
        ("/present", json!(9)),
        ("/layers", json!(1)),
        ("/layers", json!(3)),
        ("/layers", json!(1_000_000_000)),
        ("/environment/name", json!("../../etc")),
        ("/environment/spec", json!({"nonsense": true})),
        ("/environment/tags", json!({"mobius:x": "y"})),
        ("/unknown", json!(1)),
    ] {
        refused(&send(&to.http(), &change(pointer, value), "", None), 400, "invalid_archive");
    }
    for parent in [json!(1), json!(5)] {
        let archive = with_manifest(&good, |manifest| manifest["checkpoints"][1]["parent"] = parent);
        refused(&send(&to.http(), &archive, "", None), 400, "invalid_archive");
    }
    // A layer fewer or more than there are.
    let fewer = with_manifest(&good, |manifest| {
        manifest["layers"] = json!(1);
        for row in manifest["checkpoints"].as_array_mut().unwrap() {
            row["layers"] = json!([0]);
        }
    });
    refused(&send(&to.http(), &fewer, "", None), 400, "invalid_archive");
    refused(&send(&to.http(), &change("/format", json!(2)), "", None), 409, "archive_unsupported");
    refused(&send(&to.http(), &change("/system", json!("sha256:other")), "", None), 409, "archive_unsupported");
    refused(&send(&to.http(), &good, "?name=a/b", None), 400, "invalid_field");
    refused(&send(&to.http(), &good, "?allow_mounts=maybe", None), 400, "invalid_field");
    assert_nothing_came(&to, &before, count);
}

#[test]
fn a_definition_is_held_to_what_holds_for_a_new_one() {
    let (from, to) = (Server::start(), Server::start());
    let (good, before, count) = (archive(&from), layers(to.path()), all(&to));
    let defined = |patch: Value| {
        with_manifest(&good, |manifest| {
            for (name, value) in patch.as_object().unwrap() {
                manifest["environment"]["spec"][name] = value.clone();
            }
        })
    };
    let mount = |source: &str, path: &str| json!({"mounts": [{"source": source, "path": path, "access": "rw"}]});
    for source in ["host:/etc", "host:/root/.ssh", "host:/home"] {
        refused(&send(&to.http(), &defined(mount(source, "/mnt")), "", None), 403, "forbidden");
    }
    let data = format!("host:{}", to.path().display());
    refused(&send(&to.http(), &defined(mount(&data, "/mnt")), "", None), 400, "invalid_field");
    refused(&send(&to.http(), &defined(mount("host:/tmp", "/workspace")), "", None), 400, "invalid_archive");
    let off = defined(json!({"sandbox": {"mode": "off"}}));
    refused(&send(&to.http(), &off, "", None), 409, "posture_not_enforced");
    refused(&send(&to.http(), &off, "?allow_unenforced=true", None), 409, "posture_not_enforced");
    let artifact = defined(json!({"mounts": [{"source": "artifact:art_1", "path": "/data"}]}));
    refused(&send(&to.http(), &artifact, "", None), 409, "posture_not_enforced");
    let image = json!({"root": {"view": "image", "image": "/nowhere/image.tar", "digest": format!("sha256:{}", "0".repeat(64))}});
    refused(&send(&to.http(), &defined(image), "", None), 403, "forbidden");
    let small = defined(json!({"sandbox": {"network_access": "disabled", "resources": {"disk_mb": 0}}}));
    let reply = send(&to.http(), &small, "", None);
    assert!([400, 409].contains(&reply.status), "{}", reply.json());
    assert_nothing_came(&to, &before, count);

    // With the operator's leave it is as for any other.
    let allowed = Server::builder().with(&["--allow-host-path", "/etc"]).start();
    let made = expect(&send(&allowed.http(), &defined(mount("host:/etc/ssl", "/mnt")), "", None), 201);
    assert_eq!(made["spec"]["mounts"][0]["path"], "/mnt");
    expect(&send(&allowed.http(), &artifact, "?allow_unenforced=true&name=other", None), 201);
    // An image that is named and not there.
    let missing = json!({"root": {"view": "image", "image": "/etc/image.tar", "digest": format!("sha256:{}", "0".repeat(64))}});
    refused(&send(&allowed.http(), &defined(missing), "?name=third", None), 400, "invalid_field");
}

#[test]
fn files_beyond_what_the_definition_gives_them_are_refused() {
    let (from, to) = (Server::start(), Server::start());
    let spot = Spot::new(&from.http(), "large");
    spot.works("head -c 3000000 /dev/zero | tr '\\0' x > large");
    let good = spot.export();
    let (before, count) = (layers(to.path()), all(&to));
    let bounded =
        |size: u64| with_manifest(&good, |manifest| manifest["environment"]["spec"]["sandbox"]["resources"] = json!({"disk_mb": size}));
    refused(&send(&to.http(), &bounded(1), "", None), 409, "archive_unsupported");
    assert_nothing_came(&to, &before, count);
    expect(&send(&to.http(), &bounded(10), "", None), 201);
}
