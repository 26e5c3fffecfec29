//! What was changed of a system, carried where root runs the server; and refused where it would mean something else.

use serde_json::json;

use super::super::Spot;
use super::forging::{manifest, with_manifest};
use super::{assert_nothing_came, layers, ordinary, send};
use crate::api::world::{ENVIRONMENTS, expect, refused, text};
use crate::crashes::all;
use crate::support::Server;

#[test]
fn changes_of_a_system_are_carried_with_their_owners_and_without_its_identity() {
    let (from, to) = (Server::start(), Server::start());
    let body = json!({"name": "system", "spec": {"sandbox": {"network_access": "disabled", "package_policy": "system"}}});
    let reply = from.http().post(ENVIRONMENTS, body);
    if reply.status == 409 {
        eprintln!("NOT RUN: {}", reply.json());
        return;
    }
    let spot = Spot { http: from.http(), id: text(&expect(&reply, 201), "id") };
    spot.works(
        "echo tool > /usr/local/bin/tool; chmod 755 /usr/local/bin/tool; mkdir -p /var/www; chown 33:34 /var/www; echo mine > /etc/mine
         rm -r /usr/share/doc/base-files; echo 0123456789abcdef0123456789abcdef > /etc/machine-id; mkdir -p /var/lib/systemd
         echo seed > /var/lib/systemd/random-seed; echo work > file",
    );
    spot.checkpoint(json!({"name": "changed"}));
    spot.works("rm /etc/mine; echo later > /var/www/index");
    let archive = spot.export();
    assert!(!archive.windows(32).any(|window| window == b"0123456789abcdef0123456789abcdef"), "a system's identity is its own");
    let come = Spot::import(&to.http(), &archive, "come");
    let look = "cat /usr/local/bin/tool file; stat -c '%a %u:%g %n' /usr/local/bin/tool /var/www /var/www/index
        ls /usr/share/doc/base-files /etc/mine /etc/machine-id /var/lib/systemd/random-seed 2>&1 | grep -c 'No such'";
    assert_eq!(come.works(look), "tool\nwork\n755 0:0 /usr/local/bin/tool\n755 33:34 /var/www\n644 0:0 /var/www/index\n4\n");
    come.restore(&come.checkpoints()[0]);
    assert_eq!(come.works("cat /etc/mine; ls /var/www /etc/machine-id 2>&1 | grep -c 'No such'"), "mine\n1\n");
    // It goes on being one.
    come.works("echo again > /etc/again; chown 5:5 /etc/again; rm /usr/local/bin/tool");
    let back = Spot::import(&from.http(), &come.export(), "back");
    assert_eq!(back.works("stat -c %u:%g /etc/again; cat /etc/mine; ls /usr/local/bin | grep -c tool || true"), "5:5\nmine\n0\n");

    let before = layers(to.path());
    let count = all(&to.http()).len();
    assert!(manifest(&archive)["system"].is_string());
    let elsewhere = with_manifest(&archive, |manifest| manifest["system"] = json!("sha256:another"));
    let details = refused(&send(&to.http(), &elsewhere, "?name=elsewhere", None), 409, "archive_unsupported");
    assert!(details["suggestion"].as_str().unwrap().contains("root.view: image"), "{details}");
    let silent = with_manifest(&archive, |manifest| drop(manifest.as_object_mut().unwrap().remove("system")));
    refused(&send(&to.http(), &silent, "?name=silent", None), 400, "invalid_archive");
    assert_nothing_came(&to, &before, count);
    let Some(ordinary) = ordinary() else { return };
    refused(&send(&ordinary.http(), &archive, "", None), 409, "posture_not_enforced");
    refused(&send(&ordinary.http(), &archive, "?allow_unenforced=true", None), 409, "archive_unsupported");
}
