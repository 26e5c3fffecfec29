//! Who waits is served in order, whatever happens to the server, and gives up in its time.

use serde_json::{Value, json};

use super::{ACQUIRE, Scene, TICKETS, act, until};
use crate::api::world::{expect, on_both_stores, refused, text};
use crate::support::Server;

fn ticket(scene: &Scene, who: &crate::support::Http, more: Value) -> String {
    text(&expect(&scene.ask(who, more), 202)["ticket"], "id")
}

#[test]
fn those_who_wait_are_told_their_place_and_served_in_order() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        let held = scene.acquire(&scene.owner, json!({ "bind": "token", "note": "first" }));
        let tickets: Vec<String> = (0..4).map(|_| ticket(&scene, &scene.ann, json!({ "wait": "5m", "bind": "token" }))).collect();
        for (position, id) in tickets.iter().enumerate() {
            let shown = expect(&scene.ann.get(&format!("{TICKETS}/{id}")), 202)["ticket"].clone();
            assert_eq!((&shown["position"], &shown["held_by"]["note"]), (&json!(position), &json!("first")));
            assert_eq!(shown["ahead"].as_array().map_or(0, Vec::len), position.min(3));
            // What comes of it is a token: nobody else sees it.
            refused(&scene.ben.get(&format!("{TICKETS}/{id}")), 404, "not_found");
            refused(&scene.ben.delete(&format!("{TICKETS}/{id}")), 404, "not_found");
        }
        // Whoever comes without waiting does not pass them.
        assert_eq!(expect(&act(&scene.owner, &held, "renew", Some(&text(&held, "token")), json!({})), 200)["directive"], "finish_up");
        let withdrawn = expect(&scene.ann.delete(&format!("{TICKETS}/{}", tickets[1])), 200);
        assert_eq!(withdrawn["status"], "withdrawn");
        scene.release(&scene.owner, &held);
        refused(&scene.exec(&scene.ben, None, &["true"]), 409, "lease_held");
        for id in [&tickets[0], &tickets[2], &tickets[3]] {
            let granted = expect(&scene.ann.get(&format!("{TICKETS}/{id}?wait=30s")), 200);
            scene.release(&scene.ann, &granted["lease"]);
        }
        assert_eq!(expect(&scene.ann.get(&format!("{TICKETS}/{}", tickets[1])), 202)["ticket"]["status"], "withdrawn");
    });
}

#[test]
fn priority_is_worth_a_while_of_waiting_and_no_more() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        let held = scene.acquire(&scene.owner, json!({}));
        let usual = ticket(&scene, &scene.ann, json!({ "wait": "5m" }));
        let urgent = ticket(&scene, &scene.ben, json!({ "wait": "5m", "priority": 2 }));
        let patient = ticket(&scene, &scene.ben, json!({ "wait": "5m", "priority": -2 }));
        let place = |who: &crate::support::Http, id: &str| expect(&who.get(&format!("{TICKETS}/{id}")), 202)["ticket"]["position"].clone();
        assert_eq!((place(&scene.ann, &usual), place(&scene.ben, &urgent), place(&scene.ben, &patient)), (json!(1), json!(0), json!(2)));
        scene.release(&scene.owner, &held);
        expect(&scene.ben.get(&format!("{TICKETS}/{urgent}?wait=30s")), 200);
    });
}

#[test]
fn a_ticket_runs_out() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        scene.acquire(&scene.owner, json!({}));
        let id = ticket(&scene, &scene.ann, json!({ "wait": "1s" }));
        until("the ticket's end", || {
            let shown = expect(&scene.ann.get(&format!("{TICKETS}/{id}?wait=2s")), 202);
            shown["ticket"]["status"] == "timed_out"
        });
    });
}

#[test]
fn a_repeated_acquire_is_told_how_it_stands_by_now() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        let held = scene.acquire(&scene.owner, json!({}));
        let body = scene.asked(json!({ "wait": "5m", "bind": "token" })).to_string();
        let send = || scene.ann.send("POST", ACQUIRE, &[("Idempotency-Key", "once")], Some(body.as_bytes()));
        let first = expect(&send(), 202)["ticket"].clone();
        assert_eq!(expect(&send(), 202)["ticket"]["id"], first["id"], "one place in the queue");
        scene.release(&scene.owner, &held);
        let granted = expect(&scene.ann.get(&format!("{TICKETS}/{}?wait=30s", text(&first, "id"))), 200)["lease"].clone();
        let again = expect(&send(), 200)["lease"].clone();
        assert_eq!((&again["id"], &again["token"]), (&granted["id"], &granted["token"]));
        let other = scene.asked(json!({ "wait": "6m", "bind": "token" })).to_string();
        let mismatch = scene.ann.send("POST", ACQUIRE, &[("Idempotency-Key", "once")], Some(other.as_bytes()));
        refused(&mismatch, 422, "idempotency_mismatch");
    });
}

#[test]
fn a_server_that_is_killed_keeps_holder_order_and_tokens() {
    let mut server = Server::start();
    let scene = Scene::new(&server, json!({}));
    let held = scene.acquire(&scene.ann, json!({ "bind": "token", "lease_ttl": "1h" }));
    let token = text(&held, "token");
    let waiting = [ticket(&scene, &scene.ben, json!({ "wait": "5m" })), ticket(&scene, &scene.owner, json!({ "wait": "5m" }))];
    let keys = (scene.ann.clone(), scene.ben.clone());
    let directory = server.directory();
    server.kill();
    let server = Server::builder().on(directory).start();
    let (ann, ben) = (keys.0.at(&server.address), keys.1.at(&server.address));
    let scene = Scene { owner: server.http(), ann, ben, environment: scene.environment };
    let lease = scene.lease(&text(&held, "id"));
    assert_eq!((&lease["status"], &lease["fence"]), (&json!("active"), &json!(1)));
    expect(&scene.exec(&scene.ann, Some(&token), &["true"]), 200);
    refused(&scene.exec(&scene.ben, None, &["true"]), 409, "lease_held");
    scene.release(&scene.ann, &held);
    let granted = expect(&scene.ben.get(&format!("{TICKETS}/{}?wait=30s", waiting[0])), 200);
    assert_eq!(granted["lease"]["holder"], "ben");
    assert_eq!(expect(&scene.owner.get(&format!("{TICKETS}/{}", waiting[1])), 202)["ticket"]["position"], 0);
}

/// What ends a process makes room for who waits, without anybody asking.
#[test]
fn the_end_of_what_runs_hands_an_implicit_lease_on() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        let process = expect(&scene.ann.post(&scene.path("/processes"), json!({ "argv": ["sleep", "1000"] })), 201);
        let id = ticket(&scene, &scene.ben, json!({ "wait": "5m" }));
        let signal = scene.path(&format!("/processes/{}/signals", text(&process, "id")));
        expect(&scene.ann.post(&signal, json!({ "signal": "KILL" })), 200);
        expect(&scene.ben.get(&format!("{TICKETS}/{id}?wait=50s")), 200);
    });
}
