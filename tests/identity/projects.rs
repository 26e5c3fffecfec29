//! Projects: the boundary that everything stands in.

use std::time::Duration;

use serde_json::json;

use crate::api::world::{at_once, expect, on_both_stores, on_postgres, refused, text, walk};
use crate::authorization::cast::{admit, make_project};
use crate::support::Server;

#[test]
fn a_project_is_made_read_renamed_and_listed() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let made = expect(&http.post("/v1/projects", json!({ "handle": "acme", "name": "Acme & Söhne" })), 201);
        let mut fields: Vec<&String> = made.as_object().unwrap().keys().collect();
        fields.sort();
        assert_eq!(fields, ["created_at", "handle", "id", "name", "updated_at"]);
        assert_eq!((text(&made, "handle"), text(&made, "name")), ("acme".to_owned(), "Acme & Söhne".to_owned()));
        assert_eq!(make_project(&http, "plain")["name"], "plain", "without a name it has its handle's");
        let record = &walk(&http, "/v1/projects/acme/audit", 10)[0];
        assert_eq!((&record["action"], &record["target_id"]), (&json!("project.create"), &made["id"]));
        // By handle and by id.
        assert_eq!(expect(&http.get("/v1/projects/acme"), 200), made);
        assert_eq!(expect(&http.get(&format!("/v1/projects/{}", text(&made, "id"))), 200), made);

        let renamed = expect(&http.patch("/v1/projects/acme", json!({ "handle": "acme-2", "name": "Acme" })), 200);
        assert_eq!((&renamed["id"], &renamed["handle"], &renamed["name"]), (&made["id"], &json!("acme-2"), &json!("Acme")));
        assert!(text(&renamed, "updated_at") > text(&made, "updated_at"));
        assert_eq!(http.get("/v1/projects/acme").status, 404);
        assert_eq!(refused(&http.patch("/v1/projects/acme-2", json!({ "handle": "plain" })), 409, "already_exists")["field"], "handle");
        let handles: Vec<String> = walk(&http, "/v1/projects", 1).iter().map(|project| text(project, "handle")).collect();
        assert_eq!(handles, ["plain", "acme-2", "default"]);
    });
}

#[test]
fn handles_follow_their_pattern_and_stand_once() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let long = "a".repeat(64);
        for handle in ["", "-a", "a-", "a--b", "A", "Default", "a_b", "a.b", "a b", "../a", "a/b", "é", "a\0", &long] {
            let details = refused(&http.post("/v1/projects", json!({ "handle": handle })), 400, "invalid_field");
            assert_eq!((&details["field"], &details["pattern"]), (&json!("handle"), &json!("^[a-z0-9]+(-[a-z0-9]+)*$")), "{handle:?}");
        }
        for handle in ["0", "a-b-c", "x1-2", &long[..63]] {
            make_project(&http, handle);
        }
        assert_eq!(refused(&http.post("/v1/projects", json!({ "handle": "a-b-c" })), 409, "already_exists")["field"], "handle");
        for (body, field) in
            [(json!({}), "handle"), (json!({ "handle": "x", "owner": "me" }), "owner"), (json!({ "handle": "x", "name": "\u{7}" }), "name")]
        {
            assert_eq!(refused(&http.post("/v1/projects", body), 400, "invalid_field")["field"], field);
        }
        let statuses = at_once(8, |_| http.post("/v1/projects", json!({ "handle": "wanted" })).status);
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| matches!(status, 201 | 409)), "{statuses:?}");
    });
}

#[test]
fn deleting_a_project_takes_its_handle_and_destroys_what_is_in_it() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let acme = make_project(&http, "acme");
        let owner = admit(&http, "acme", "owner", "owner");
        let member = admit(&http, "acme", "member", "member");
        let make = |path: &str, body| expect(&http.post(&format!("/v1/projects/acme/{path}"), body), 201);
        let sandboxes: Vec<String> = (0..3)
            .map(|n| text(&make("environments", json!({ "name": format!("web-{n}") })), "sandbox_id"))
            .chain([text(&make("sandboxes", json!({})), "id")])
            .collect();
        make("environments", json!({ "name": "shared", "sandbox_id": sandboxes[3] }));
        let is_there = |id: &String| server.path().join("sandboxes").join(id).exists();
        assert!(sandboxes.iter().all(is_there));

        // A slip of the path destroys nothing.
        let theirs = server.http_as(Some(&owner.key));
        for query in ["", "?confirm=", "?confirm=default", "?confirm=ACME", &format!("?confirm={}", text(&acme, "id"))] {
            let details = refused(&theirs.delete(&format!("/v1/projects/acme{query}")), 400, "confirmation_required");
            assert!(text(&details, "suggestion").contains("confirm=acme"), "{details}");
        }
        assert_eq!(http.delete("/v1/projects/acme?confirm=acme&force=true").status, 400);
        assert_eq!(server.http_as(Some(&member.key)).delete("/v1/projects/acme?confirm=acme").status, 403);
        assert!(sandboxes.iter().all(is_there));

        let last = expect(&theirs.delete("/v1/projects/acme?confirm=acme"), 200);
        assert_eq!((&last["id"], &last["handle"]), (&acme["id"], &json!("acme")));
        assert!(!sandboxes.iter().any(is_there), "the directories are gone");
        for key in [&owner.key, &member.key] {
            assert_eq!(server.http_as(Some(key)).get("/v1/identity").status, 401, "its keys died with it");
        }
        for path in ["/v1/projects/acme", &format!("/v1/projects/{}", text(&acme, "id")), "/v1/projects/acme/environments"] {
            assert_eq!(http.get(path).status, 404, "{path}");
        }
        assert_eq!(http.delete("/v1/projects/acme?confirm=acme").status, 404);
        assert_eq!(walk(&http, "/v1/projects", 10).len(), 1);

        // The handle is free, and what is made under it is another project with nothing in it.
        let next = make_project(&http, "acme");
        assert_ne!(next["id"], acme["id"]);
        assert!(walk(&http, "/v1/projects/acme/environments?include_destroyed=true", 10).is_empty());
        assert!(walk(&http, "/v1/projects/acme/sandboxes", 10).is_empty());
        assert_eq!(server.http_as(Some(&owner.key)).get("/v1/projects/acme").status, 401);
    });
}

#[test]
fn what_is_made_while_its_project_goes_does_not_stay() {
    // Both stores side by side: what is left over is removed by a timer.
    std::thread::scope(|scope| {
        scope.spawn(|| crowd_a_project_that_goes(&Server::start()));
        on_postgres(&[], |server, _| crowd_a_project_that_goes(server));
    });
}

fn crowd_a_project_that_goes(server: &Server) {
    let http = server.http();
    let places = || std::fs::read_dir(server.path().join("sandboxes")).unwrap().flatten().filter(|entry| entry.path().is_dir()).count();
    let before = places();
    for round in 0..3 {
        let handle = format!("doomed-{round}");
        make_project(&http, &handle);
        let statuses = at_once(8, |number| match number {
            0 => http.delete(&format!("/v1/projects/{handle}?confirm={handle}")).status,
            _ if number % 2 == 0 => http.post(&format!("/v1/projects/{handle}/sandboxes"), json!({})).status,
            _ => http.post(&format!("/v1/projects/{handle}/environments"), json!({})).status,
        });
        assert_eq!(statuses[0], 200, "{}", server.log());
        assert!(statuses[1..].iter().all(|status| matches!(status, 201 | 404 | 409)), "{statuses:?}: {}", server.log());
    }
    let gone = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        places() == before
    });
    assert!(gone, "{} directories stay, {before} should", places());
}
