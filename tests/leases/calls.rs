//! Acquire, renew, release, break, transfer: what each answers, and to whom.

use serde_json::json;

use super::{ACQUIRE, LEASES, Scene, act};
use crate::api::world::{ENVIRONMENTS, create, expect, on_both_stores, refused, text};

#[test]
fn one_holds_it_and_others_are_told_who_and_what_to_do() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        let reply = scene.ask(&scene.ann, json!({ "lease_ttl": "30m", "note": "the release", "holder_type": "manual", "holder_id": "me" }));
        let granted = expect(&reply, 200);
        let lease = &granted["lease"];
        assert_eq!(granted["environment"]["id"], scene.environment.as_str());
        assert_eq!((&lease["status"], &lease["mode"], &lease["bind"]), (&json!("active"), &json!("exclusive"), &json!("principal")));
        assert_eq!((&lease["holder_type"], &lease["holder_id"], &lease["fence"]), (&json!("manual"), &json!("me"), &json!(1)));
        assert!(lease["expires_in_ms"].as_u64().unwrap() <= 30 * 60 * 1000 && lease["acquired_at"].is_string());
        assert_eq!(lease["renew_after_ms"], 600_000);
        assert_eq!(reply.header("stead-lease"), lease["token"].as_str());
        assert_eq!(reply.header("stead-fence"), Some("1"));
        let details = refused(&scene.ask(&scene.ben, json!({})), 409, "lease_held");
        assert_eq!((&details["holder"], &details["note"], &details["lease_id"]), (&json!("ann"), &json!("the release"), &lease["id"]));
        assert!(details["expires_in_ms"].is_u64());
        refused(&scene.exec(&scene.ben, None, &["true"]), 409, "lease_held");
        refused(&scene.ben.send("PUT", &scene.path("/files?path=x"), &[], Some(b"x")), 409, "lease_held");
        refused(&scene.ben.post(&scene.path("/checkpoints"), json!({})), 409, "lease_held");
        refused(&scene.ben.post(&scene.path("/stop"), json!({})), 409, "lease_held");
        refused(&scene.ben.patch(&scene.path(""), json!({ "spec": { "idle_timeout": "9m" } })), 409, "lease_held");
        // Whoever holds it needs no token, and nobody needs a lease to read.
        let seen = expect(&scene.ben.get(&scene.path("")), 200);
        assert_eq!((&seen["held_by"]["holder"], &seen["held_by"]["note"]), (&json!("ann"), &json!("the release")));
        assert!(seen["lease_expires_at"].is_string());
        let listed = expect(&scene.ben.get(LEASES), 200);
        assert_eq!(listed["items"][0]["id"], lease["id"]);
        assert!(!listed.to_string().contains("stl_"), "a token is told once");
        refused(&act(&scene.ben, lease, "renew", None, json!({})), 403, "forbidden");
        refused(&act(&scene.ben, lease, "release", None, json!({})), 403, "forbidden");
        let renewed = expect(&act(&scene.ann, lease, "renew", None, json!({})), 200);
        assert_eq!((&renewed["directive"], &renewed["fence"]), (&json!("continue"), &json!(1)));
        let released = expect(&act(&scene.ann, lease, "release", None, json!({})), 200);
        assert_eq!((&released["status"], &released["clean"]), (&json!("released"), &json!(true)));
        assert_eq!(expect(&act(&scene.ann, lease, "release", None, json!({})), 200), released, "a repetition is told the same");
        refused(&act(&scene.ann, lease, "renew", None, json!({})), 410, "lease_lost");
        let next = scene.acquire(&scene.ben, json!({}));
        assert_eq!((&next["fence"], &next["previous"]["holder"], &next["previous"]["clean"]), (&json!(2), &json!("ann"), &json!(true)));
        let before = next["previous"].clone();
        let released = scene.release(&scene.ben, &next);
        assert_eq!(released["previous"], before, "nobody comes before itself");
        let history = expect(&scene.owner.get(&scene.path("/leases")), 200);
        assert_eq!(history["items"].as_array().unwrap().len(), 2);
    });
}

#[test]
fn what_makes_no_sense_is_refused_by_its_field() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        for (body, field) in [
            (json!({ "lease_ttl": "0s" }), "lease_ttl"),
            (json!({ "lease_ttl": "25h" }), "lease_ttl"),
            (json!({ "lease_ttl": "soon" }), "lease_ttl"),
            (json!({ "priority": 11 }), "priority"),
            (json!({ "wait": "5m", "on_busy": "fail" }), "on_busy"),
            (json!({ "on_busy": "wait" }), "wait"),
            (json!({ "mode": "shared", "at_release": "clean" }), "at_release"),
            (json!({ "environment_ids": [] }), "environment_ids"),
            (json!({ "note": "x".repeat(2000) }), "note"),
            (json!({ "nonsense": 1 }), "nonsense"),
        ] {
            let details = refused(&scene.ask(&scene.ann, body.clone()), 400, "invalid_field");
            assert_eq!(details["field"], field, "{body}");
        }
        refused(&scene.ask(&scene.ann, json!({ "on_busy": "preempt" })), 403, "forbidden");
        let lease = scene.acquire(&scene.ann, json!({}));
        refused(&act(&scene.owner, &lease, "break", None, json!({ "reason": " " })), 400, "invalid_field");
        refused(&act(&scene.ann, &lease, "break", None, json!({ "reason": "mine" })), 403, "forbidden");
        refused(&act(&scene.ann, &lease, "transfer", None, json!({ "to": "nobody" })), 400, "invalid_field");
    });
}

#[test]
fn without_an_environment_one_is_made_and_a_repetition_finds_it() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let body = json!({ "name": "fresh", "lifetime": "explicit", "lease_ttl": "2h" }).to_string();
        let send = || expect(&http.send("POST", ACQUIRE, &[("Idempotency-Key", "once")], Some(body.as_bytes())), 200);
        let (first, second) = (send(), send());
        assert_eq!(first["environment"]["name"], "fresh");
        for field in ["id", "token", "fence"] {
            assert_eq!(first["lease"][field], second["lease"][field], "{field}");
        }
        expect(&act(&http, &first["lease"], "release", None, json!({})), 200);
        let again = http.send("POST", ACQUIRE, &[("Idempotency-Key", "once")], Some(body.as_bytes()));
        refused(&again, 410, "lease_lost");
    });
}

#[test]
fn several_are_acquired_together_or_not_at_all() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        let other = text(&create(&scene.owner, json!({ "name": "api" })), "id");
        let both = json!({ "environment_ids": [other, scene.environment], "bind": "token" });
        let held = scene.acquire(&scene.ben, json!({}));
        let details = refused(&scene.ann.post(ACQUIRE, both.clone()), 409, "lease_held");
        assert_eq!(details["environment_id"], scene.environment.as_str());
        let free = expect(&scene.owner.get(&format!("{ENVIRONMENTS}/{other}")), 200);
        assert!(free["held_by"].is_null(), "nothing of it was kept");
        scene.release(&scene.ben, &held);
        let granted = expect(&scene.ann.post(ACQUIRE, both), 200);
        let items = granted["items"].as_array().unwrap();
        let order: Vec<&str> = items.iter().filter_map(|item| item["environment"]["id"].as_str()).collect();
        assert_eq!(order, [other.as_str(), scene.environment.as_str()], "as they were asked for");
        assert!(items.iter().all(|item| item["lease"]["token"].is_string()), "{granted}");
        refused(&scene.ask(&scene.ben, json!({})), 409, "lease_held");
        let edited = expect(&scene.ann.send("PATCH", &scene.path(""), &[], Some(br#"{"tags":{"a":"b"}}"#)), 200);
        assert_eq!(edited["held_by"]["holder"], "ann", "an edit does not hide who holds it");
    });
}

#[test]
fn an_owner_ends_a_lease_with_a_reason_that_its_holder_is_told() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({ "lease": { "lock_delay": "0s" } }));
        let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
        let token = text(&lease, "token");
        let broken = expect(&act(&scene.owner, &lease, "break", None, json!({ "reason": "it hangs" })), 200);
        assert_eq!((&broken["status"], &broken["clean"], &broken["reason"]), (&json!("revoked"), &json!(false), &json!("it hangs")));
        refused(&act(&scene.ann, &lease, "renew", Some(&token), json!({})), 410, "lease_lost");
        let reply = scene.exec(&scene.ann, Some(&token), &["true"]);
        refused(&reply, 412, "fence_stale");
        assert!(String::from_utf8_lossy(&reply.body).contains("it hangs"), "the holder is told why");
        let next = scene.acquire(&scene.ben, json!({}));
        assert_eq!((&next["previous"]["ended"], &next["previous"]["clean"]), (&json!("revoked"), &json!(false)));
        let audit = expect(&scene.owner.get("/v1/projects/default/audit?action=lease.end"), 200);
        assert_eq!(audit["items"][0]["details"]["reason"], "it hangs");
    });
}

#[test]
fn a_lease_is_handed_on_while_what_runs_goes_on() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
        let token = text(&lease, "token");
        let body = json!({ "argv": ["sleep", "1000"] }).to_string();
        let process = expect(&scene.ann.send("POST", &scene.path("/processes"), &[("Stead-Lease", &token)], Some(body.as_bytes())), 201);
        refused(&act(&scene.ann, &lease, "transfer", Some(&token), json!({ "to": "nobody" })), 400, "invalid_field");
        // With the token alone, which ends with it.
        let alone = server.http_as(Some(&token));
        let transfer = format!("{LEASES}/{}/transfer", text(&lease, "id"));
        let (key, to) = ([("Idempotency-Key", "hand-on")], br#"{"to":"ben","note":"yours now"}"#);
        let handed = expect(&alone.send("POST", &transfer, &key, Some(to)), 200);
        let again = expect(&alone.send("POST", &transfer, &key, Some(to)), 200);
        assert_eq!(again["lease"]["token"], handed["lease"]["token"], "a reply that was lost is told again");
        refused(&alone.send("POST", &transfer, &[], Some(to)), 410, "lease_lost");
        assert_eq!((&handed["lease"]["holder"], &handed["lease"]["fence"]), (&json!("ben"), &json!(2)));
        let reply = scene.exec(&scene.ann, Some(&token), &["true"]);
        refused(&reply, 412, "fence_stale");
        assert!(String::from_utf8_lossy(&reply.body).contains("handed on to ben"), "its holder is told where it went");
        let audit = expect(&scene.owner.get("/v1/projects/default/audit?action=lease.transfer"), 200);
        assert_eq!(audit["items"][0]["target_id"], handed["lease"]["id"]);
        let theirs = text(&handed["lease"], "token");
        expect(&scene.exec(&scene.ben, Some(&theirs), &["true"]), 200);
        let running = expect(&scene.ben.get(&scene.path(&format!("/processes/{}", text(&process, "id")))), 200);
        assert_eq!(running["status"], "running", "nobody stopped it");
        let released = expect(&act(&scene.ben, &handed["lease"], "release", Some(&theirs), json!({})), 200);
        assert_eq!(released["status"], "released");
        let ended = expect(&scene.ben.get(&scene.path(&format!("/processes/{}", text(&process, "id")))), 200);
        assert_eq!(ended["exit"]["cause"], "fenced", "a release stops what runs");
    });
}

#[test]
fn readers_keep_writers_out_and_change_nothing() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        let reader = scene.acquire(&scene.ann, json!({ "mode": "shared", "bind": "token" }));
        let another = scene.acquire(&scene.ben, json!({ "mode": "shared", "bind": "token" }));
        refused(&scene.exec(&scene.ann, Some(&text(&reader, "token")), &["true"]), 409, "lease_read_only");
        refused(&scene.exec(&scene.owner, None, &["true"]), 409, "lease_held");
        let ticket = expect(&scene.ask(&scene.owner, json!({ "wait": "1m" })), 202);
        assert_eq!(ticket["ticket"]["status"], "waiting");
        refused(&scene.ask(&scene.ben, json!({ "mode": "shared" })), 409, "lease_held");
        scene.release(&scene.ann, &reader);
        scene.release(&scene.ben, &another);
        let granted = expect(&scene.owner.get(&format!("{}/{}?wait=30s", super::TICKETS, text(&ticket["ticket"], "id"))), 200);
        assert_eq!(granted["lease"]["mode"], "exclusive");
    });
}

#[test]
fn an_open_environment_keeps_nobody_out() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({ "lease": { "policy": "open" } }));
        let details = refused(&scene.ask(&scene.ann, json!({ "at_release": "clean" })), 400, "invalid_field");
        assert_eq!(details["field"], "at_release", "nobody's end is the last");
        scene.acquire(&scene.ann, json!({}));
        scene.acquire(&scene.ben, json!({}));
        expect(&scene.exec(&scene.ann, None, &["true"]), 200);
        expect(&scene.exec(&scene.ben, None, &["true"]), 200);
    });
}

#[test]
fn calls_without_a_lease_take_one_that_yields_when_nothing_runs() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        assert_eq!(scene.printed(&scene.ann, None, "echo ann > f; cat f"), "ann\n");
        let held = expect(&scene.owner.get(LEASES), 200)["items"][0].clone();
        assert_eq!((&held["implicit"], &held["holder"], &held["fence"]), (&json!(true), &json!("ann"), &json!(1)));
        // The same caller joins it, and its fence stays.
        scene.printed(&scene.ann, None, "true");
        assert_eq!(expect(&scene.owner.get(LEASES), 200)["items"][0]["fence"], 1);
        // Nothing runs: it makes room at once.
        assert_eq!(scene.printed(&scene.ben, None, "cat f"), "ann\n");
        let body = json!({ "argv": ["sleep", "1000"] });
        let process = expect(&scene.ben.post(&scene.path("/processes"), body), 201);
        let details = refused(&scene.exec(&scene.ann, None, &["true"]), 409, "lease_held");
        assert_eq!((&details["holder"], &details["implicit"], &details["fence"]), (&json!("ben"), &json!(true), &json!(2)));
        // Another terminal of the same caller is not locked out, and an explicit lease takes over what runs.
        assert_eq!(scene.printed(&scene.ben, None, "echo hi"), "hi\n");
        let lease = scene.acquire(&scene.ben, json!({}));
        assert_eq!(lease["fence"], 3);
        let path = scene.path(&format!("/processes/{}", text(&process, "id")));
        assert_eq!(expect(&scene.ben.get(&path), 200)["status"], "running");
        refused(&scene.ask(&scene.ben, json!({ "bind": "token" })), 409, "lease_held");
    });
}

/// What only an owner may do is not had by way of a lease, and nobody else's definition is put back under a holder.
#[test]
fn a_lease_gives_nobody_more_than_its_own_role() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        refused(&scene.ask(&scene.ann, json!({ "at_release": "destroy" })), 403, "forbidden");
        let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
        let token = text(&lease, "token");
        refused(&act(&scene.ann, &lease, "release", Some(&token), json!({ "at_release": "destroy" })), 403, "forbidden");
        refused(&act(&scene.ann, &lease, "release", None, json!({ "at_release": "clean" })), 403, "forbidden");
        refused(&scene.ben.post(&scene.path("/versions/1/rollback"), json!({})), 409, "lease_held");
        scene.release(&scene.ann, &lease);
        // An ended lease changes nothing, whatever the call.
        for (method, path) in [("POST", "/versions/1/rollback"), ("POST", "/reconcile"), ("PATCH", ""), ("POST", "/wake")] {
            refused(&scene.ann.send(method, &scene.path(path), &[("Stead-Lease", &token)], Some(b"{}")), 412, "fence_stale");
        }
        // As a credential it is for its environment alone.
        let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
        let holder = server.http_as(Some(&text(&lease, "token")));
        refused(&holder.post(ENVIRONMENTS, json!({ "name": "another" })), 403, "forbidden");
        refused(&holder.post(ACQUIRE, json!({})), 403, "forbidden");
    });
}

#[test]
fn who_leaves_the_project_holds_nothing_in_it() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({ "lease": { "lock_delay": "0s" } }));
        let lease = scene.acquire(&scene.ann, json!({ "lease_ttl": "1h" }));
        let removed = scene.owner.delete(&format!("/v1/projects/default/members/{}", text(&lease, "principal_id")));
        assert_eq!(removed.status, 204);
        assert_eq!(scene.lease(&text(&lease, "id"))["status"], "revoked");
        // Whoever may only look from now on holds nothing either.
        let lease = scene.acquire(&scene.ben, json!({}));
        let member = format!("/v1/projects/default/members/{}", text(&lease, "principal_id"));
        scene.release(&scene.ben, &lease);
        let owners = scene.acquire(&scene.owner, json!({}));
        expect(&scene.ask(&scene.ben, json!({ "wait": "1h" })), 202);
        expect(&scene.owner.patch(&member, json!({ "role": "viewer" })), 200);
        scene.release(&scene.owner, &owners);
        let free = expect(&scene.owner.get(&scene.path("")), 200);
        assert!(free["held_by"].is_null(), "nor does it get what it waited for: {free}");
        expect(&scene.owner.patch(&member, json!({ "role": "member" })), 200);
        let lease = scene.acquire(&scene.ben, json!({}));
        expect(&scene.owner.patch(&member, json!({ "role": "viewer" })), 200);
        assert_eq!(scene.lease(&text(&lease, "id"))["status"], "revoked");
    });
}

/// A sandbox that two environments share has one lease, whichever of them is asked.
#[test]
fn two_environments_on_one_sandbox_share_its_lease() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        let sandbox = text(&expect(&scene.owner.get(&scene.path("")), 200), "sandbox_id");
        let open = json!({ "name": "twin", "sandbox_id": sandbox, "spec": { "lease": { "policy": "open" } } });
        let twin = text(&create(&scene.owner, open), "id");
        let lease = scene.acquire(&scene.ann, json!({}));
        let theirs = Scene { owner: scene.owner.clone(), ann: scene.ann.clone(), ben: scene.ben.clone(), environment: twin.clone() };
        refused(&theirs.ask(&scene.ben, json!({})), 409, "lease_held");
        refused(&theirs.exec(&scene.ben, None, &["true"]), 409, "lease_held");
        expect(&theirs.exec(&scene.ann, None, &["true"]), 200);
        let both = json!({ "environment_ids": [scene.environment, twin] });
        refused(&scene.ann.post(ACQUIRE, both), 400, "invalid_field");
        scene.release(&scene.ann, &lease);
        let next = expect(&theirs.ask(&scene.ben, json!({})), 200);
        assert_eq!(next["lease"]["fence"], 2);
    });
}
