//! Leases, through the real binary: who holds an environment, who waits, and what becomes of what a holder leaves.

mod barriers;
mod calls;
mod clocks;
mod endings;
mod hand_overs;
mod linear;
mod queue;
mod tokens;

use serde_json::{Value, json};

use crate::api::world::{ENVIRONMENTS, create, expect, text};
use crate::authorization::cast::admit;
use crate::support::{Http, Reply, Server};

pub const LEASES: &str = "/v1/projects/default/environments/leases";
pub const ACQUIRE: &str = "/v1/projects/default/environments/acquire";
pub const TICKETS: &str = "/v1/projects/default/environments/tickets";

/// An environment and two members of its project, who are strangers to each other.
pub struct Scene {
    pub owner: Http,
    pub ann: Http,
    pub ben: Http,
    pub environment: String,
}

impl Scene {
    pub fn new(server: &Server, spec: Value) -> Self {
        let owner = server.http();
        let environment = text(&create(&owner, json!({ "name": "web", "spec": spec })), "id");
        let member = |name: &str| server.http_as(Some(&admit(&owner, "default", name, "member").key));
        let (ann, ben) = (member("ann"), member("ben"));
        Self { owner, ann, ben, environment }
    }

    /// Asks for the environment, with more fields.
    pub fn ask(&self, who: &Http, more: Value) -> Reply {
        who.post(ACQUIRE, self.asked(more))
    }

    pub fn asked(&self, more: Value) -> Value {
        let mut body = json!({ "environment_id": self.environment });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    }

    /// Acquires it, and gives the lease.
    #[track_caller]
    pub fn acquire(&self, who: &Http, more: Value) -> Value {
        expect(&self.ask(who, more), 200)["lease"].clone()
    }

    pub fn path(&self, rest: &str) -> String {
        format!("{ENVIRONMENTS}/{}{rest}", self.environment)
    }

    /// Runs a shell command, presenting a token or none.
    pub fn shell(&self, who: &Http, token: Option<&str>, script: &str) -> Reply {
        self.exec(who, token, &["sh", "-c", script])
    }

    pub fn exec(&self, who: &Http, token: Option<&str>, command: &[&str]) -> Reply {
        let body = json!({ "command": command }).to_string();
        let headers: Vec<(&str, &str)> = token.map(|token| ("Stead-Lease", token)).into_iter().collect();
        who.send("POST", &self.path("/exec"), &headers, Some(body.as_bytes()))
    }

    #[track_caller]
    pub fn printed(&self, who: &Http, token: Option<&str>, script: &str) -> String {
        text(&expect(&self.shell(who, token, script), 200), "stdout")
    }

    #[track_caller]
    pub fn release(&self, who: &Http, lease: &Value) -> Value {
        expect(&act(who, lease, "release", Some(&text(lease, "token")), json!({})), 200)
    }

    pub fn lease(&self, id: &str) -> Value {
        expect(&self.owner.get(&format!("{LEASES}/{id}")), 200)
    }
}

/// Does something with a lease, presenting a token or none.
pub fn act(who: &Http, lease: &Value, verb: &str, token: Option<&str>, body: Value) -> Reply {
    let headers: Vec<(&str, &str)> = token.map(|token| ("Stead-Lease", token)).into_iter().collect();
    who.send("POST", &format!("{LEASES}/{}/{verb}", text(lease, "id")), &headers, Some(body.to_string().as_bytes()))
}

/// Waits until something is true; a test that waits for ever is ended by its runner.
#[track_caller]
pub fn until(what: &str, mut check: impl FnMut() -> bool) {
    let mut rounds = 0;
    while !check() {
        rounds += 1;
        assert!(rounds < 3000, "{what} never came to be");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
