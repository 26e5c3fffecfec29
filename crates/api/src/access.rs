//! Which role each route needs: the one place. A route that is not here is refused, and a test fails.

use http::Method;
use stead_app::Access;
use stead_domain::principal::Role;

const OPEN: Access = Access::Open;
const ANYBODY: Access = Access::Authenticated;
const OPERATOR: Access = Access::Operator;
const VIEWER: Access = Access::Project(Role::Viewer);
const MEMBER: Access = Access::Project(Role::Member);
const OWNER: Access = Access::Project(Role::Owner);

pub const ACCESS: &[(Method, &str, Access)] = &[
    (Method::GET, "/healthz", OPEN),
    (Method::GET, "/readyz", OPEN),
    (Method::GET, "/metrics", OPEN),
    (Method::GET, "/openapi.json", OPEN),
    (Method::GET, "/v1/identity", ANYBODY),
    (Method::GET, "/v1/projects", ANYBODY),
    (Method::POST, "/v1/projects", OPERATOR),
    (Method::GET, "/v1/projects/{project}", VIEWER),
    (Method::PATCH, "/v1/projects/{project}", OWNER),
    (Method::DELETE, "/v1/projects/{project}", OWNER),
    (Method::GET, "/v1/projects/{project}/members", VIEWER),
    (Method::POST, "/v1/projects/{project}/members", OWNER),
    (Method::PATCH, "/v1/projects/{project}/members/{principal_id}", OWNER),
    (Method::DELETE, "/v1/projects/{project}/members/{principal_id}", OWNER),
    (Method::GET, "/v1/projects/{project}/api-keys", OWNER),
    (Method::POST, "/v1/projects/{project}/api-keys", OWNER),
    (Method::GET, "/v1/projects/{project}/api-keys/{id}", OWNER),
    (Method::DELETE, "/v1/projects/{project}/api-keys/{id}", OWNER),
    // Names alone: no route tells a value.
    (Method::GET, "/v1/projects/{project}/secrets", VIEWER),
    (Method::GET, "/v1/projects/{project}/secrets/{name}", VIEWER),
    (Method::GET, "/v1/projects/{project}/secrets/{name}/versions", VIEWER),
    (Method::PUT, "/v1/projects/{project}/secrets/{name}", MEMBER),
    (Method::DELETE, "/v1/projects/{project}/secrets/{name}", OWNER),
    (Method::GET, "/v1/projects/{project}/environments", VIEWER),
    (Method::POST, "/v1/projects/{project}/environments", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/import", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/acquire", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/leases", VIEWER),
    (Method::GET, "/v1/projects/{project}/environments/leases/{lease_id}", VIEWER),
    (Method::POST, "/v1/projects/{project}/environments/leases/{lease_id}/renew", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/leases/{lease_id}/release", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/leases/{lease_id}/break", OWNER),
    (Method::POST, "/v1/projects/{project}/environments/leases/{lease_id}/transfer", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/tickets/{ticket_id}", MEMBER),
    (Method::DELETE, "/v1/projects/{project}/environments/tickets/{ticket_id}", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}", VIEWER),
    (Method::PATCH, "/v1/projects/{project}/environments/{environment_id}", MEMBER),
    (Method::DELETE, "/v1/projects/{project}/environments/{environment_id}", OWNER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/reconcile", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/versions", VIEWER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/versions/diff", VIEWER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/versions/{version}", VIEWER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/versions/{version}/rollback", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/leases", VIEWER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/activity", VIEWER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/posture", VIEWER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/egress", VIEWER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/changes", VIEWER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/changes/keep", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/changes/drop", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/checkpoints", VIEWER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/checkpoints", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}", VIEWER),
    (Method::DELETE, "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}/restore", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}/diff", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/fork", MEMBER),
    // It holds every file, and seals what is there.
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/export", MEMBER),
    // It lets git write where the definition allows it.
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/git/credentials", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/setup", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/checkouts", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/wake", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/sleep", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/stop", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/exec", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/processes", VIEWER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/processes", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}", VIEWER),
    (Method::DELETE, "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/logs", VIEWER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/stdin", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/signals", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/resize", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/wait", VIEWER),
    // A file may hold what no log shows.
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/files", MEMBER),
    (Method::PUT, "/v1/projects/{project}/environments/{environment_id}/files", MEMBER),
    (Method::PATCH, "/v1/projects/{project}/environments/{environment_id}/files", MEMBER),
    (Method::DELETE, "/v1/projects/{project}/environments/{environment_id}/files", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/files/list", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/files/stat", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/files/mkdir", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/files/move", MEMBER),
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/files/copy", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/files/find", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/files/grep", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/files/watch", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/files/archive", MEMBER),
    (Method::PUT, "/v1/projects/{project}/environments/{environment_id}/files/archive", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/ports", VIEWER),
    // Whoever reaches a port does what the program behind it lets everybody do.
    (Method::POST, "/v1/projects/{project}/environments/{environment_id}/ports/{port}/signed-url", MEMBER),
    (Method::GET, "/v1/projects/{project}/environments/{environment_id}/ports/{port}/tunnel", MEMBER),
    (Method::GET, "/v1/projects/{project}/sandboxes", VIEWER),
    (Method::POST, "/v1/projects/{project}/sandboxes", MEMBER),
    (Method::GET, "/v1/projects/{project}/sandboxes/{sandbox_id}", VIEWER),
    (Method::DELETE, "/v1/projects/{project}/sandboxes/{sandbox_id}", OWNER),
    (Method::GET, "/v1/projects/{project}/providers", VIEWER),
    (Method::POST, "/v1/projects/{project}/providers/{name}/check", MEMBER),
    (Method::GET, "/v1/projects/{project}/audit", VIEWER),
    (Method::GET, "/v1/system", OPERATOR),
    (Method::GET, "/v1/system/usage", OPERATOR),
    (Method::POST, "/v1/system/prune", OPERATOR),
    (Method::POST, "/v1/system/rotate-key", OPERATOR),
    (Method::POST, "/v1/system/shutdown", OPERATOR),
    // They tell what GitHub tells to whoever's token they are asked with, and nothing of this server's: no key of ours opens them.
    (Method::GET, "/api/github/installations", OPEN),
    (Method::GET, "/api/github/installations/{id}/repos", OPEN),
    (Method::GET, "/api/auth/github/login", OPEN),
    (Method::GET, "/api/auth/github/callback", OPEN),
    (Method::POST, "/api/auth/github/logout", OPEN),
];

/// The methods that an address has, for `Allow`.
pub fn methods(path: &str) -> Vec<&'static str> {
    ACCESS.iter().filter(|(_, route, _)| *route == path).map(|(method, ..)| method.as_str()).collect()
}

/// What a route needs; none for one that is not in the table.
pub fn needed(method: &Method, path: &str) -> Option<Access> {
    // A HEAD tells no more than the GET it stands for.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    ACCESS.iter().find(|(known, route, _)| known == method && *route == path).map(|(.., access)| *access)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_route_states_what_it_needs_and_every_entry_is_a_route() {
        let document = serde_json::to_value(crate::document()).unwrap();
        let mut documented = Vec::new();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for method in operations.as_object().unwrap().keys() {
                let method: Method = method.to_uppercase().parse().unwrap();
                assert!(needed(&method, path).is_some(), "{method} {path} does not say what it needs");
                documented.push((method, path.clone()));
            }
        }
        for (method, path, _) in ACCESS {
            assert!(documented.contains(&(method.clone(), (*path).to_owned())), "{method} {path} is no route");
        }
    }

    #[test]
    fn what_deletes_or_admits_needs_an_owner() {
        for (method, path, access) in ACCESS {
            // Whoever may start a process may end it and clean up after it, remove what it could, and what was kept of that.
            let is_inside = ["/{process_id}", "/files", "/{checkpoint_id}", "/{ticket_id}"].iter().any(|end| path.ends_with(end));
            if (*method == Method::DELETE && !is_inside) || (path.contains("api-keys") && *method != Method::GET) {
                assert_eq!(*access, OWNER, "{method} {path}");
            }
        }
    }
}
