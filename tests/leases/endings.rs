//! What is done with an environment when a lease of it ends.

use serde_json::{Value, json};

use super::{LEASES, Scene, act, until};
use crate::api::world::{ENVIRONMENTS, expect, refused, text};
use crate::support::Server;

fn checkpoints(scene: &Scene) -> Vec<Value> {
    expect(&scene.owner.get(&scene.path("/checkpoints")), 200)["items"].as_array().unwrap().clone()
}

#[test]
fn a_release_seals_or_empties_or_removes_as_its_holder_asked() {
    let server = Server::start();
    let scene = Scene::new(&server, json!({}));
    let lease = scene.acquire(&scene.ann, json!({ "at_release": "checkpoint" }));
    expect(&scene.shell(&scene.ann, None, "echo one > f"), 200);
    scene.release(&scene.ann, &lease);
    let made = checkpoints(&scene);
    assert_eq!((made.len(), &made[0]["reason"]), (1, &json!("at_release")));

    let lease = scene.acquire(&scene.ben, json!({ "at_release": "clean" }));
    assert_eq!(scene.printed(&scene.ben, None, "cat f; echo two > g"), "one\n");
    scene.release(&scene.ben, &lease);
    assert_eq!(scene.printed(&scene.ann, None, "ls -A | wc -l"), "0\n", "as it was when it was made");
    let restored = scene.ann.post(&scene.path(&format!("/checkpoints/{}/restore", text(&made[0], "id"))), json!({}));
    expect(&restored, 200);
    assert_eq!(scene.printed(&scene.ann, None, "cat f"), "one\n", "a checkpoint outlives that");

    let lease = scene.acquire(&scene.owner, json!({}));
    let released = expect(&act(&scene.owner, &lease, "release", None, json!({ "at_release": "destroy" })), 200);
    assert_eq!(released["status"], "released");
    until("the environment's end", || expect(&scene.owner.get(&scene.path("")), 200)["status"] == "destroyed");
}

#[test]
fn an_environment_whose_lifetime_is_its_lease_goes_with_it_or_is_kept_by_policy() {
    let server = Server::start();
    let owner = server.http();
    for (policy, unclean, status) in [
        ("manual", false, "destroyed"),
        ("destroy_on_success", false, "destroyed"),
        ("destroy_on_success", true, "retained"),
        ("retain_on_failure", true, "retained"),
        ("retain_always", false, "retained"),
    ] {
        let name = format!("{}-{unclean}", policy.replace('_', "-"));
        let body = json!({ "name": name, "lifetime": "lease", "bind": "token", "spec": { "lease": { "lock_delay": "0s" } } });
        let granted = expect(&owner.post(super::ACQUIRE, body), 200);
        let path = format!("{ENVIRONMENTS}/{}", text(&granted["environment"], "id"));
        expect(&owner.patch(&path, json!({ "retention_policy": policy })), 200);
        let lease = &granted["lease"];
        match unclean {
            true => expect(&act(&owner, lease, "break", None, json!({ "reason": "it failed" })), 200),
            false => expect(&act(&owner, lease, "release", Some(&text(lease, "token")), json!({})), 200),
        };
        until(&name, || expect(&owner.get(&path), 200)["status"] == status);
        let left = expect(&owner.get(&path), 200);
        let cleanup = if status == "retained" { "skipped" } else { "succeeded" };
        assert_eq!(left["cleanup_status"], cleanup, "{name}: {left}");
    }
}

#[test]
fn what_an_unclean_end_left_is_sealed_before_the_next_holder_where_the_definition_says_so() {
    let server = Server::start();
    let scene = Scene::new(&server, json!({ "checkpoints": { "before_takeover": true }, "lease": { "lock_delay": "0s" } }));
    let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
    expect(&scene.shell(&scene.ann, Some(&text(&lease, "token")), "echo half > f"), 200);
    expect(&act(&scene.owner, &lease, "break", None, json!({ "reason": "it hangs" })), 200);
    scene.acquire(&scene.ben, json!({}));
    let made = checkpoints(&scene);
    assert_eq!((made.len(), &made[0]["reason"]), (1, &json!("before_takeover")));
    assert_eq!(scene.printed(&scene.ben, None, "cat f"), "half\n", "and it is still there");
}

/// What cannot be done at the end is tried three times. Then nobody is let in before somebody has looked at it and said so.
#[test]
fn what_cannot_be_done_at_the_end_sets_the_environment_aside_until_it_is_tried_again() {
    let server = Server::start();
    let scene = Scene::new(&server, json!({ "lease": { "lock_delay": "0s" } }));
    let sandbox = text(&expect(&scene.owner.get(&scene.path("")), 200), "sandbox_id");
    let lease = scene.acquire(&scene.ann, json!({ "at_release": "checkpoint" }));
    expect(&scene.shell(&scene.ann, None, "echo one > f"), 200);
    expect(&scene.ann.post(&scene.path("/checkpoints"), json!({})), 201);
    expect(&scene.exec(&scene.ann, None, &["true"]), 200);
    expect(&scene.ann.post(&scene.path("/stop"), json!({})), 200);
    // Whether there is anything to seal is told by what lies below, and that is gone.
    let sealed = server.path().join("sandboxes").join(sandbox).join("workspace");
    let away = sealed.with_file_name("away");
    std::fs::rename(&sealed, &away).unwrap();

    let set_aside = |reply: &crate::support::Reply| {
        let details = refused(reply, 409, "environment_quarantined");
        assert!(!text(&details, "reason").is_empty() && text(&details, "suggestion").contains("stead env reconcile web"), "{details}");
    };
    set_aside(&act(&scene.ann, &lease, "release", None, json!({})));
    set_aside(&scene.ask(&scene.ben, json!({})));
    set_aside(&scene.exec(&scene.ben, None, &["true"]));

    std::fs::rename(&away, &sealed).unwrap();
    expect(&scene.owner.send("POST", &scene.path("/reconcile"), &[], None), 200);
    let ticket = scene.ask(&scene.ben, json!({ "wait": "1m" }));
    if ticket.status == 202 {
        let id = text(&ticket.json()["ticket"], "id");
        until("the next holder", || scene.ben.get(&format!("{}/{id}?wait=5s", super::TICKETS)).status == 200);
    } else {
        expect(&ticket, 200);
    }
    assert_eq!(scene.printed(&scene.ben, None, "cat f"), "one\n");
    assert_eq!(scene.lease(&text(&lease, "id"))["status"], "released");
}

#[test]
fn leases_end_with_their_environment() {
    let server = Server::start();
    let scene = Scene::new(&server, json!({}));
    let lease = scene.acquire(&scene.ann, json!({}));
    let ticket = expect(&scene.ask(&scene.ben, json!({ "wait": "5m" })), 202);
    expect(&scene.owner.delete(&scene.path("")), 200);
    let ended = scene.lease(&text(&lease, "id"));
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("revoked"), &json!("the environment was deleted")));
    let shown = scene.ben.get(&format!("{}/{}?wait=5s", super::TICKETS, text(&ticket["ticket"], "id")));
    assert_eq!(expect(&shown, 202)["ticket"]["status"], "withdrawn");
    assert_eq!(expect(&scene.owner.get(LEASES), 200)["items"], json!([]));
}
