//! What each route needs, written here a second time and by hand: the server's own table is what these tests doubt.

use crate::api::world::expect;
use crate::support::Http;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// Any good key.
    Key,
    Viewer,
    Member,
    Owner,
    Operator,
}

#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub needs: Needs,
    /// What somebody is answered who may; [`LET_IN`] where that depends on the machine.
    pub done: u16,
    /// `{n}` is another number each time, `{member}` a member of the project.
    pub body: &'static str,
}

/// Anything but a refusal at the door.
pub const LET_IN: u16 = 0;

const fn route(method: &'static str, path: &'static str, needs: Needs, done: u16, body: &'static str) -> Route {
    Route { method, path, needs, done, body }
}

pub const ROUTES: &[Route] = &[
    route("GET", "/healthz", Needs::Nothing, 200, ""),
    route("GET", "/readyz", Needs::Nothing, 200, ""),
    route("GET", "/metrics", Needs::Nothing, 200, ""),
    route("GET", "/openapi.json", Needs::Nothing, 200, ""),
    route("GET", "/v1/identity", Needs::Key, 200, ""),
    route("GET", "/v1/projects", Needs::Key, 200, ""),
    route("POST", "/v1/projects", Needs::Operator, 201, r#"{"handle": "made-{n}"}"#),
    route("GET", "/v1/projects/{project}", Needs::Viewer, 200, ""),
    route("PATCH", "/v1/projects/{project}", Needs::Owner, 200, r#"{"name": "Acme {n}"}"#),
    // Without `confirm` the door is passed and nothing is lost.
    route("DELETE", "/v1/projects/{project}", Needs::Owner, 400, ""),
    route("GET", "/v1/projects/{project}/members", Needs::Viewer, 200, ""),
    route("POST", "/v1/projects/{project}/members", Needs::Owner, 201, r#"{"name": "guest-{n}"}"#),
    route("PATCH", "/v1/projects/{project}/members/{principal_id}", Needs::Owner, 200, r#"{"role": "viewer"}"#),
    route("DELETE", "/v1/projects/{project}/members/{principal_id}", Needs::Owner, 204, ""),
    route("GET", "/v1/projects/{project}/api-keys", Needs::Owner, 200, ""),
    route("POST", "/v1/projects/{project}/api-keys", Needs::Owner, 201, r#"{"name": "key-{n}", "principal_id": "{member}"}"#),
    route("GET", "/v1/projects/{project}/api-keys/{id}", Needs::Owner, 200, ""),
    route("DELETE", "/v1/projects/{project}/api-keys/{id}", Needs::Owner, 204, ""),
    route("GET", "/v1/projects/{project}/secrets", Needs::Viewer, 200, ""),
    // The name is none of a secret's.
    route("GET", "/v1/projects/{project}/secrets/{name}", Needs::Viewer, 404, ""),
    route("GET", "/v1/projects/{project}/secrets/{name}/versions", Needs::Viewer, 404, ""),
    route("PUT", "/v1/projects/{project}/secrets/{name}", Needs::Member, 400, r#"{"value": "x"}"#),
    route("DELETE", "/v1/projects/{project}/secrets/{name}", Needs::Owner, 404, ""),
    route("GET", "/v1/projects/{project}/environments", Needs::Viewer, 200, ""),
    route("POST", "/v1/projects/{project}/environments", Needs::Member, 201, r#"{"name": "made-{n}"}"#),
    // An archive that is none: the door is passed and nothing is made.
    route("POST", "/v1/projects/{project}/environments/import", Needs::Member, 400, "{}"),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/export", Needs::Member, LET_IN, ""),
    // What is asked for makes no sense: the door is passed and nothing is made.
    route("POST", "/v1/projects/{project}/environments/acquire", Needs::Member, 400, r#"{"wait": "soon"}"#),
    route("GET", "/v1/projects/{project}/environments/leases", Needs::Viewer, 200, ""),
    // The lease is nobody's, and so is the ticket.
    route("GET", "/v1/projects/{project}/environments/leases/{lease_id}", Needs::Viewer, 404, ""),
    route("POST", "/v1/projects/{project}/environments/leases/{lease_id}/renew", Needs::Member, 404, ""),
    route("POST", "/v1/projects/{project}/environments/leases/{lease_id}/release", Needs::Member, 404, ""),
    route("POST", "/v1/projects/{project}/environments/leases/{lease_id}/break", Needs::Owner, 404, r#"{"reason": "because"}"#),
    route("POST", "/v1/projects/{project}/environments/leases/{lease_id}/transfer", Needs::Member, 404, r#"{"to": "ben"}"#),
    route("GET", "/v1/projects/{project}/environments/tickets/{ticket_id}", Needs::Member, 404, ""),
    route("DELETE", "/v1/projects/{project}/environments/tickets/{ticket_id}", Needs::Member, 404, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/leases", Needs::Viewer, 200, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}", Needs::Viewer, 200, ""),
    route("PATCH", "/v1/projects/{project}/environments/{environment_id}", Needs::Member, 200, r#"{"tags": {"turn": "{n}"}}"#),
    route("DELETE", "/v1/projects/{project}/environments/{environment_id}", Needs::Owner, 200, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/reconcile", Needs::Member, 200, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/versions", Needs::Viewer, 200, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/versions/diff", Needs::Viewer, 200, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/versions/{version}", Needs::Viewer, 200, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/versions/{version}/rollback", Needs::Member, 200, ""),
    // Nothing is started: a command that is refused passes the door as well. The process is nobody's.
    route("GET", "/v1/projects/{project}/environments/{environment_id}/activity", Needs::Viewer, 200, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/posture", Needs::Viewer, 200, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/egress", Needs::Viewer, LET_IN, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/changes", Needs::Viewer, LET_IN, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/changes/keep", Needs::Member, LET_IN, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/changes/drop", Needs::Member, LET_IN, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/setup", Needs::Member, LET_IN, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/wake", Needs::Member, LET_IN, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/sleep", Needs::Member, LET_IN, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/stop", Needs::Member, LET_IN, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/exec", Needs::Member, 400, r#"{"command": []}"#),
    // Without a path the door is passed and nothing is touched.
    route("GET", "/v1/projects/{project}/environments/{environment_id}/files", Needs::Member, 400, ""),
    route("PUT", "/v1/projects/{project}/environments/{environment_id}/files", Needs::Member, 400, "{}"),
    route("PATCH", "/v1/projects/{project}/environments/{environment_id}/files", Needs::Member, 400, ""),
    route("DELETE", "/v1/projects/{project}/environments/{environment_id}/files", Needs::Member, 400, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/files/list", Needs::Member, LET_IN, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/files/stat", Needs::Member, 400, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/files/mkdir", Needs::Member, 400, "{}"),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/files/move", Needs::Member, 400, "{}"),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/files/copy", Needs::Member, 400, "{}"),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/files/find", Needs::Member, LET_IN, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/files/grep", Needs::Member, 400, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/files/watch", Needs::Member, 400, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/files/archive", Needs::Member, 400, ""),
    route("PUT", "/v1/projects/{project}/environments/{environment_id}/files/archive", Needs::Member, 400, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/processes", Needs::Viewer, 200, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/processes", Needs::Member, 400, r#"{"argv": []}"#),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}", Needs::Viewer, 404, ""),
    route("DELETE", "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}", Needs::Member, 404, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/logs", Needs::Viewer, 404, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/stdin", Needs::Member, 404, ""),
    route(
        "POST",
        "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/signals",
        Needs::Member,
        404,
        r#"{"signal": "TERM"}"#,
    ),
    route(
        "POST",
        "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/resize",
        Needs::Member,
        404,
        r#"{"rows": 24, "cols": 80}"#,
    ),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/wait", Needs::Viewer, 404, ""),
    // The checkpoint is nobody's.
    route("GET", "/v1/projects/{project}/environments/{environment_id}/checkpoints", Needs::Viewer, 200, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/checkpoints", Needs::Member, LET_IN, ""),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}", Needs::Viewer, 404, ""),
    route("DELETE", "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}", Needs::Member, 404, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}/restore", Needs::Member, 404, ""),
    // It tells what files hold.
    route("GET", "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}/diff", Needs::Member, 404, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/fork", Needs::Member, 400, r#"{"count": 0}"#),
    route("GET", "/v1/projects/{project}/environments/{environment_id}/ports", Needs::Viewer, LET_IN, ""),
    route("POST", "/v1/projects/{project}/environments/{environment_id}/ports/{port}/signed-url", Needs::Member, LET_IN, ""),
    // Without an upgrade the door is passed and nothing is connected.
    route("GET", "/v1/projects/{project}/environments/{environment_id}/ports/{port}/tunnel", Needs::Member, 400, ""),
    route("GET", "/v1/projects/{project}/sandboxes", Needs::Viewer, 200, ""),
    route("POST", "/v1/projects/{project}/sandboxes", Needs::Member, 201, "{}"),
    route("GET", "/v1/projects/{project}/sandboxes/{sandbox_id}", Needs::Viewer, 200, ""),
    route("DELETE", "/v1/projects/{project}/sandboxes/{sandbox_id}", Needs::Owner, 200, ""),
    route("GET", "/v1/projects/{project}/providers", Needs::Viewer, 200, ""),
    route("POST", "/v1/projects/{project}/providers/{name}/check", Needs::Member, 200, ""),
    route("GET", "/v1/projects/{project}/audit", Needs::Viewer, 200, ""),
    // The secret is `local`, which is no name of one: the door is passed and nothing is set.
    route("GET", "/v1/system", Needs::Operator, 200, ""),
    route("GET", "/v1/system/usage", Needs::Operator, 200, ""),
    // A server that is given its key has to be given another one.
    route("POST", "/v1/system/rotate-key", Needs::Operator, LET_IN, ""),
    route("POST", "/v1/system/prune", Needs::Operator, 200, r#"{"dry_run": true}"#),
    // It has no repositories.
    route("POST", "/v1/projects/{project}/environments/{environment_id}/checkouts", Needs::Member, 400, "{}"),
    // No GitHub App: the door is passed.
    route(
        "POST",
        "/v1/projects/{project}/environments/{environment_id}/git/credentials",
        Needs::Member,
        403,
        r#"{"repo_full_name": "acme/web"}"#,
    ),
    route("GET", "/api/github/installations", Needs::Nothing, 501, ""),
    route("GET", "/api/github/installations/{id}/repos", Needs::Nothing, 501, ""),
    route("GET", "/api/auth/github/login", Needs::Nothing, 501, ""),
    route("GET", "/api/auth/github/callback", Needs::Nothing, 400, ""),
    route("POST", "/api/auth/github/logout", Needs::Nothing, 204, ""),
    // A body that is refused: the door is passed, and the server stays for the rest of the test.
    route("POST", "/v1/system/shutdown", Needs::Operator, 400, r#"{"all": "maybe"}"#),
];

/// The routes of the document, each with what is expected of it. One without an expectation, or the other way round, fails the test.
#[track_caller]
pub fn documented(http: &Http) -> Vec<Route> {
    let document = expect(&http.get("/openapi.json"), 200);
    let mut found = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
            let known = ROUTES.iter().find(|route| route.method == method && route.path == path);
            found.push(*known.unwrap_or_else(|| panic!("{method} {path} is documented and has no authorization case")));
        }
    }
    assert_eq!(found.len(), ROUTES.len(), "an expectation stands for no route");
    found
}
