//! The routes: what they take, what they answer, and that no value comes back by any way.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{SECRETS, put, set};
use crate::api::world::{at_once, expect, on_both_stores, refused, text, walk};
use crate::authorization::cast::{admit, make_project};
use crate::support::Server;

const VALUE: &str = "correct-horse-battery-staple";

#[test]
fn a_secret_is_set_listed_and_deleted_and_never_told() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let first = expect(&set(&http, "API_KEY", VALUE), 201);
        assert_eq!((first["name"].as_str(), first["version"].as_u64()), (Some("API_KEY"), Some(1)));
        assert_eq!(expect(&set(&http, "API_KEY", VALUE), 200)["version"], 1, "the same value again is no version");
        assert_eq!(expect(&set(&http, "API_KEY", "another-value-of-it"), 200)["version"], 2);
        let one = expect(&http.get(&format!("{SECRETS}/API_KEY")), 200);
        assert_eq!((&one["id"], &one["version"], &one["created_at"]), (&first["id"], &json!(2), &first["created_at"]));
        let history = expect(&http.get(&format!("{SECRETS}/API_KEY/versions")), 200);
        let versions: Vec<_> =
            history["items"].as_array().unwrap().iter().map(|version| (&version["version"], &version["current"])).collect();
        assert_eq!(versions, [(&json!(2), &json!(true)), (&json!(1), &json!(false))]);
        expect(&set(&http, "OTHER", VALUE), 201);
        assert_eq!(walk(&http, SECRETS, 1).iter().map(|item| text(item, "name")).collect::<Vec<_>>(), ["OTHER", "API_KEY"]);
        expect(&http.delete(&format!("{SECRETS}/API_KEY")), 204);
        refused(&http.delete(&format!("{SECRETS}/API_KEY")), 404, "not_found");
        refused(&http.get(&format!("{SECRETS}/API_KEY")), 404, "not_found");
        refused(&http.get(&format!("{SECRETS}/API_KEY/versions")), 404, "not_found");
        let again = expect(&set(&http, "API_KEY", VALUE), 201);
        assert!(again["version"] == 1 && again["id"] != first["id"], "a name is free again");
        // Who did what stands in the record, and nothing of a value does, there or in any reply or log.
        let audit = expect(&http.get("/v1/projects/default/audit?limit=200"), 200);
        let acts: Vec<String> = audit["items"].as_array().unwrap().iter().map(|act| text(act, "action")).collect();
        assert_eq!(acts.iter().filter(|act| *act == "secret.set").count(), 4, "{acts:?}");
        assert_eq!(acts.iter().filter(|act| *act == "secret.delete").count(), 1, "{acts:?}");
        for told in [audit.to_string(), again.to_string(), server.log()] {
            assert!(!told.contains(VALUE) && !told.contains("another-value"), "{told}");
        }
    });
}

#[test]
fn what_is_no_value_is_refused_without_being_repeated() {
    let server = Server::start();
    let http = server.http();
    for name in ["lower", "1A", "A-B", "A%20B", "A%00", "%C3%84", &"A".repeat(129)] {
        refused(&set(&http, name, VALUE), 400, "invalid_field");
    }
    let long = "x".repeat(65_537);
    for (body, status) in [
        (json!({}), 400),
        (json!({ "value": VALUE, "value_base64": STANDARD.encode(VALUE) }), 400),
        (json!({ "value": "" }), 400),
        (json!({ "value": long }), 400),
        (json!({ "value_base64": "***not-base64***" }), 400),
        (json!({ "value_base64": STANDARD.encode(&long) }), 400),
        (json!({ "value": 918_273_645 }), 400),
        (json!({ "value": [VALUE] }), 400),
        (json!({ "value": VALUE, "name": VALUE }), 400),
        (json!({ VALUE: 1 }), 400),
        (json!(VALUE), 400),
        (json!([VALUE]), 400),
    ] {
        let reply = put(&http, "KEY", &body);
        assert_eq!(reply.status, status, "{body}");
        let told = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(!told.contains(VALUE) && !told.contains("918273645") && !told.contains("***"), "{told}");
    }
    let cut_off = http.send("PUT", &format!("{SECRETS}/KEY"), &[], Some(format!("{{\"value\": \"{VALUE}").as_bytes()));
    assert_eq!((cut_off.status, cut_off.code().as_str()), (400, "malformed_json"));
    refused(&http.get(&format!("{SECRETS}/KEY")), 404, "not_found");
    assert!(!server.log().contains(VALUE));
    // Bytes that are no text, the longest value, and what there is to know of a value.
    expect(&put(&http, "BYTES", &json!({ "value_base64": STANDARD.encode([0, 255, 10]) })), 201);
    expect(&set(&http, "LONG", &"x".repeat(65_536)), 201);
    let warnings = |reply| expect(&reply, 201)["warnings"].as_array().cloned().unwrap_or_default();
    assert!(warnings(set(&http, "FINE", VALUE)).is_empty());
    assert_eq!(warnings(set(&http, "SHORT", "ab")).len(), 1);
    assert_eq!(warnings(set(&http, "WHITE", &format!(" {VALUE}"))).len(), 1);
    assert_eq!(warnings(set(&http, "SPRITES_TOKEN", VALUE)).len(), 1);
}

#[test]
fn many_who_set_one_name_make_as_many_versions() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let replies = at_once(8, |number| set(&http, "KEY", &format!("value-number-{number}")));
        assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
        let mut versions: Vec<u64> = replies.iter().map(|reply| reply.json()["version"].as_u64().unwrap()).collect();
        versions.sort_unstable();
        assert_eq!(versions, (1..=8).collect::<Vec<_>>());
    });
}

#[test]
fn a_repeated_request_is_answered_like_the_first_and_its_record_holds_no_value() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let send = |value: &str| {
            let body = json!({ "value": value }).to_string();
            http.send("PUT", &format!("{SECRETS}/KEY"), &[("Idempotency-Key", "once")], Some(body.as_bytes()))
        };
        let first = expect(&send(VALUE), 201);
        expect(&set(&http, "KEY", "somebody-else-set-this"), 200);
        let again = send(VALUE);
        assert_eq!((again.status, again.json(), again.header("idempotent-replayed")), (201, first, Some("true")));
        assert_eq!(expect(&http.get(&format!("{SECRETS}/KEY")), 200)["version"], 2, "what came later stays");
        refused(&send("another-value-of-it"), 422, "idempotency_mismatch");
    });
}

#[test]
fn names_of_other_projects_are_nobodys() {
    let server = Server::start();
    let operator = server.http();
    make_project(&operator, "acme");
    make_project(&operator, "mine");
    let acme = "/v1/projects/acme/secrets";
    let body = json!({ "value": VALUE }).to_string();
    expect(&operator.send("PUT", &format!("{acme}/KEY"), &[], Some(body.as_bytes())), 201);
    let me = server.http_as(Some(&admit(&operator, "mine", "me", "owner").key));
    for path in [acme.to_owned(), format!("{acme}/KEY"), format!("{acme}/KEY/versions"), "/v1/projects/mine/secrets/KEY".to_owned()] {
        refused(&me.get(&path), 404, "not_found");
    }
    let viewer = server.http_as(Some(&admit(&operator, "acme", "reader", "viewer").key));
    let member = server.http_as(Some(&admit(&operator, "acme", "writer", "member").key));
    expect(&viewer.get(&format!("{acme}/KEY")), 200);
    assert_eq!(viewer.send("PUT", &format!("{acme}/KEY"), &[], Some(body.as_bytes())).status, 403);
    expect(&member.send("PUT", &format!("{acme}/KEY"), &[], Some(body.as_bytes())), 200);
    assert_eq!(member.delete(&format!("{acme}/KEY")).status, 403);
    assert_eq!(member.send("POST", "/v1/system/rotate-key", &[], None).status, 403);
}
