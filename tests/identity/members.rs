//! Members: who belongs, in which role, and what ends with it.

use serde_json::{Value, json};

use crate::api::world::{ENVIRONMENTS, at_once, expect, on_both_stores, refused, text, walk};
use crate::authorization::cast::{admit, key_for, make_project};
use crate::support::Server;

const MEMBERS: &str = "/v1/projects/default/members";

#[test]
fn members_are_admitted_listed_and_given_another_role() {
    let server = Server::start();
    let http = server.http();
    for kind in ["user", "service", "agent", "worker"] {
        let member = expect(&http.post(MEMBERS, json!({ "name": format!("A {kind}"), "kind": kind, "role": "viewer" })), 201);
        assert_eq!((&member["kind"], &member["role"]), (&json!(kind), &json!("viewer")));
    }
    let plain = expect(&http.post(MEMBERS, json!({ "name": "plain" })), 201);
    assert_eq!((&plain["kind"], &plain["role"]), (&json!("user"), &json!("member")));
    let all = walk(&http, MEMBERS, 2);
    assert_eq!(all.len(), 6);
    assert!(all.contains(&plain));

    let path = format!("{MEMBERS}/{}", text(&plain, "principal_id"));
    for role in ["viewer", "owner", "member"] {
        assert_eq!(expect(&http.patch(&path, json!({ "role": role })), 200)["role"], role);
    }
    for (body, field) in [
        (json!({}), "name"),
        (json!({ "name": "" }), "name"),
        (json!({ "name": "../x" }), "name"),
        (json!({ "name": "x", "role": "king" }), "role"),
        (json!({ "name": "x", "kind": "ghost" }), "kind"),
        (json!({ "name": "x", "principal_id": plain["principal_id"] }), "name"),
        (json!({ "principal_id": "x" }), "principal_id"),
        (json!({ "name": "x", "operator": true }), "operator"),
    ] {
        assert_eq!(refused(&http.post(MEMBERS, body.clone()), 400, "invalid_field")["field"], field, "{body}");
    }
    assert_eq!(refused(&http.patch(&path, json!({ "role": "king" })), 400, "invalid_field")["field"], "role");
    assert_eq!(refused(&http.patch(&path, json!({})), 400, "invalid_field")["field"], "role");
    for body in [json!({ "name": "plain" }), json!({ "name": "PLAIN" }), json!({ "principal_id": plain["principal_id"] })] {
        let details = refused(&http.post(MEMBERS, body), 409, "already_exists");
        assert_eq!(details["principal_id"], plain["principal_id"]);
    }
}

#[test]
fn a_role_counts_from_the_next_request_on() {
    let server = Server::start();
    let operator = server.http();
    let somebody = admit(&operator, "default", "somebody", "viewer");
    let path = format!("{MEMBERS}/{}", somebody.principal);
    let http = server.http_as(Some(&somebody.key));
    let tries = |name: &str| (http.post(ENVIRONMENTS, json!({ "name": name })).status, http.get("/v1/projects/default/api-keys").status);
    assert_eq!(tries("a"), (403, 403));
    expect(&operator.patch(&path, json!({ "role": "member" })), 200);
    assert_eq!(tries("b"), (201, 403));
    expect(&operator.patch(&path, json!({ "role": "owner" })), 200);
    assert_eq!(tries("c"), (201, 200));
    expect(&operator.patch(&path, json!({ "role": "viewer" })), 200);
    assert_eq!(tries("d"), (403, 403));
}

#[test]
fn a_member_that_is_taken_out_loses_its_keys_for_good() {
    on_both_stores(&[], |server| {
        let operator = server.http();
        let somebody = admit(&operator, "default", "somebody", "member");
        let second = text(&key_for(&operator, "default", &somebody.principal, json!({})), "key");
        let bystander = admit(&operator, "default", "bystander", "member");
        expect(&operator.delete(&format!("{MEMBERS}/{}", somebody.principal)), 204);
        for key in [&somebody.key, &second] {
            assert_eq!(server.http_as(Some(key)).get("/v1/identity").status, 401);
        }
        expect(&server.http_as(Some(&bystander.key)).get("/v1/identity"), 200);
        assert_eq!(operator.delete(&format!("{MEMBERS}/{}", somebody.principal)).status, 404);
        let keys = walk(&operator, "/v1/projects/default/api-keys", 50);
        assert!(keys.iter().all(|key| key["principal_id"] != *somebody.principal), "{keys:?}");
        // Admitted again it is the same principal, with no key that works.
        let again = expect(&operator.post(MEMBERS, json!({ "name": "somebody" })), 201);
        assert_eq!(again["principal_id"], *somebody.principal);
        assert_eq!(server.http_as(Some(&somebody.key)).get("/v1/identity").status, 401);
    });
}

#[test]
fn a_project_keeps_an_owner() {
    on_both_stores(&[], |server| {
        let operator = server.http();
        make_project(&operator, "acme");
        let members = "/v1/projects/acme/members";
        let me = text(&walk(&operator, members, 10)[0], "principal_id");
        refused(&operator.delete(&format!("{members}/{me}")), 409, "last_owner");
        refused(&operator.patch(&format!("{members}/{me}"), json!({ "role": "member" })), 409, "last_owner");
        expect(&operator.patch(&format!("{members}/{me}"), json!({ "role": "owner" })), 200);

        // Several who all go at once: one of them has to stay.
        for round in 0..3 {
            let owners: Vec<_> = (0..4).map(|n| admit(&operator, "acme", &format!("owner-{round}-{n}"), "owner").principal).collect();
            if round == 0 {
                expect(&operator.delete(&format!("{members}/{me}")), 204);
            } else {
                // Those who stayed from the round before go first.
                let before = walk(&operator, members, 50);
                for member in before.iter().filter(|member| !owners.contains(&text(member, "principal_id"))) {
                    expect(&operator.delete(&format!("{members}/{}", text(member, "principal_id"))), 204);
                }
            }
            let statuses = at_once(4, |n| {
                let path = format!("{members}/{}", owners[n]);
                if n % 2 == 0 { operator.delete(&path).status } else { operator.patch(&path, json!({ "role": "viewer" })).status }
            });
            assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 1, "{statuses:?}");
            let left: Vec<Value> = walk(&operator, members, 50).into_iter().filter(|member| member["role"] == "owner").collect();
            assert_eq!(left.len(), 1, "{left:?}");
        }
    });
}

#[test]
fn no_key_is_made_for_a_member_that_is_just_going() {
    on_both_stores(&[], |server| {
        let operator = server.http();
        for round in 0..12 {
            let somebody = admit(&operator, "default", &format!("somebody-{round}"), "owner").principal;
            let body = json!({ "name": "late", "principal_id": somebody });
            let made = at_once(6, |number| match number {
                0 => operator.delete(&format!("{MEMBERS}/{somebody}")),
                _ => operator.post("/v1/projects/default/api-keys", body.clone()),
            });
            assert_eq!(made[0].status, 204);
            for reply in made[1..].iter().filter(|reply| reply.status == 201) {
                let key = text(&reply.json(), "key");
                assert_eq!(server.http_as(Some(&key)).get("/v1/identity").status, 401, "a key outlives its member");
            }
        }
    });
}
