//! What belongs to another project is answered exactly as what does not exist.

use serde_json::{Value, json};

use super::cast::{admit, key_for, make_project};
use super::expectations::documented;
use crate::api::world::{expect, on_both_stores, text};
use crate::support::{Http, Reply};

/// An id of the right form that is nobody's.
fn nobody(prefix: &str) -> String {
    format!("{prefix}_0190a0b0c0d07000800000000000beef")
}

/// A refusal with everything that may differ between two of them taken out. A longer or shorter name must not shift anything either.
fn anonymous(reply: &Reply, names: &[&str]) -> (u16, Vec<String>, String) {
    let mut body = String::from_utf8(reply.body.clone()).unwrap();
    body = body.replace(reply.header("x-request-id").unwrap(), "REQUEST");
    for name in names {
        body = body.replace(name, "NAME");
    }
    let mut headers: Vec<String> = reply.headers.iter().map(|(name, _)| name.to_lowercase()).collect();
    headers.sort();
    (reply.status, headers, body)
}

fn send(http: &Http, method: &str, path: &str, body: &str) -> Reply {
    http.send(method, path, &[], (!body.is_empty()).then_some(body.as_bytes()))
}

#[test]
fn a_foreign_project_looks_like_one_that_is_not_there() {
    on_both_stores(&[], |server| {
        let operator = server.http();
        let acme = make_project(&operator, "acme");
        make_project(&operator, "mine");
        let me = server.http_as(Some(&admit(&operator, "mine", "me", "owner").key));
        let environment = expect(&operator.post("/v1/projects/acme/environments", json!({ "name": "web" })), 201);

        for route in documented(&operator).iter().filter(|route| route.path.contains("{project}")) {
            let path = |project: &str| {
                let path = route.path.replace("{project}", project).replace("{environment_id}", &text(&environment, "id"));
                path.replace("{sandbox_id}", &text(&environment, "sandbox_id"))
                    .replace("{principal_id}", &nobody("prn"))
                    .replace("{id}", &nobody("key"))
                    .replace("{process_id}", &nobody("prc"))
                    .replace("{checkpoint_id}", &nobody("ckp"))
                    .replace("{lease_id}", &nobody("lse"))
                    .replace("{ticket_id}", &nobody("tkt"))
                    .replace("{name}", "local")
                    .replace("{version}", "1")
                    .replace("{port}", "8080")
            };
            // By handle and by id; even the confirmation of a deletion changes nothing.
            for (foreign, absent) in [("acme", "nope"), (&*text(&acme, "id"), &*nobody("prj"))] {
                let confirm = if route.method == "DELETE" { "?confirm=acme" } else { "" };
                let theirs = send(&me, route.method, &format!("{}{confirm}", path(foreign)), route.body);
                let nobodys = send(&me, route.method, &format!("{}{confirm}", path(absent)), route.body);
                let what = format!("{} {}", route.method, route.path);
                assert_eq!((theirs.status, &*theirs.code()), (404, "not_found"), "{what}");
                assert_eq!(anonymous(&theirs, &[foreign]), anonymous(&nobodys, &[absent]), "{what}");
            }
        }
        assert_eq!(expect(&operator.get("/v1/projects/acme/environments"), 200)["items"][0]["status"], "ready", "nothing happened to it");
        let seen = expect(&me.get("/v1/projects"), 200);
        assert_eq!(seen["items"].as_array().unwrap().len(), 1, "{seen}");
    });
}

#[test]
fn foreign_ids_in_ones_own_project_look_like_ids_that_are_not_there() {
    on_both_stores(&[], |server| {
        let operator = server.http();
        make_project(&operator, "acme");
        make_project(&operator, "mine");
        let me = server.http_as(Some(&admit(&operator, "mine", "me", "owner").key));
        let theirs = admit(&operator, "acme", "them", "member");
        let environment = expect(&operator.post("/v1/projects/acme/environments", json!({ "name": "web" })), 201);
        let foreign = [
            ("{environment_id}", text(&environment, "id"), nobody("env")),
            ("{sandbox_id}", text(&environment, "sandbox_id"), nobody("sbx")),
            ("{principal_id}", theirs.principal.clone(), nobody("prn")),
            ("{id}", theirs.key_id.clone(), nobody("key")),
        ];
        let mut covered = 0;
        for route in documented(&operator).into_iter().filter(|route| route.path.contains("{project}")) {
            let Some((parameter, foreign, absent)) = foreign.iter().find(|(parameter, ..)| route.path.contains(parameter)) else {
                continue;
            };
            let path = |id: &str| {
                let path =
                    route.path.replace("{project}", "mine").replace(parameter, id).replace("{version}", "1").replace("{port}", "8080");
                let path = path
                    .replace("{process_id}", &nobody("prc"))
                    .replace("{checkpoint_id}", &nobody("ckp"))
                    .replace("{lease_id}", &nobody("lse"))
                    .replace("{ticket_id}", &nobody("tkt"))
                    .replace("/stdin", "/stdin?offset=0");
                if path.ends_with("/diff") { format!("{path}?from=1&to=1") } else { path }
            };
            let what = format!("{} {}", route.method, route.path);
            let (found, missing) =
                (send(&me, route.method, &path(foreign), route.body), send(&me, route.method, &path(absent), route.body));
            assert_eq!((found.status, &*found.code()), (404, "not_found"), "{what}");
            assert_eq!(anonymous(&found, &[foreign]), anonymous(&missing, &[absent]), "{what}");
            covered += 1;
        }
        assert!(covered >= 28, "{covered} routes have an id in their path");
        // All of it is as it was.
        assert_eq!(expect(&operator.get(&format!("/v1/projects/acme/environments/{}", foreign[0].1)), 200)["status"], "ready");
        expect(&server.http_as(Some(&theirs.key)).get("/v1/projects/acme"), 200);
    });
}

#[test]
fn foreign_ids_in_a_body_look_like_ids_that_are_not_there() {
    on_both_stores(&[], |server| {
        let operator = server.http();
        make_project(&operator, "acme");
        make_project(&operator, "mine");
        let me = server.http_as(Some(&admit(&operator, "mine", "me", "owner").key));
        let theirs = admit(&operator, "acme", "them", "member");
        let sandbox = text(&expect(&operator.post("/v1/projects/acme/sandboxes", json!({})), 201), "id");
        let compare = |path: &str, body: &dyn Fn(&str) -> Value, foreign: &str, absent: &str, status: u16| {
            let (found, missing) = (me.post(path, body(foreign)), me.post(path, body(absent)));
            assert_eq!(found.status, status, "{path}");
            assert_eq!(anonymous(&found, &[foreign]), anonymous(&missing, &[absent]), "{path}");
        };
        compare("/v1/projects/mine/environments", &|id| json!({ "sandbox_id": id }), &sandbox, &nobody("sbx"), 404);
        compare("/v1/projects/mine/members", &|id| json!({ "principal_id": id }), &theirs.principal, &nobody("prn"), 404);
        let key = |id: &str| json!({ "name": "k", "principal_id": id });
        compare("/v1/projects/mine/api-keys", &key, &theirs.principal, &nobody("prn"), 400);
        // A key made for somebody elsewhere is not seen here either.
        key_for(&operator, "acme", &theirs.principal, json!({}));
        let keys = expect(&me.get("/v1/projects/mine/api-keys"), 200);
        assert_eq!(keys["items"].as_array().unwrap().len(), 1, "{keys}");
    });
}
