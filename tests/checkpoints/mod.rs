//! Checkpoints, restores and forks, with real programs that write the files.

mod archives;
mod basics;
mod disk;
mod freezing;
mod kills;
mod model;
mod policy;
mod power;
mod sharing;
mod systems;
mod tree;

use serde_json::{Value, json};

use crate::api::world::{ENVIRONMENTS, expect, text};
use crate::support::Http;

/// Ways to one environment.
#[derive(Clone)]
struct Spot {
    http: Http,
    id: String,
}

impl Spot {
    fn new(http: &Http, name: &str) -> Self {
        Self::with(http, json!({"name": name, "spec": {"sandbox": {"network_access": "disabled"}}}))
    }

    #[track_caller]
    fn with(http: &Http, body: Value) -> Self {
        let made = expect(&http.post(ENVIRONMENTS, body), 201);
        Self { http: http.clone(), id: text(&made, "id") }
    }

    fn path(&self, rest: &str) -> String {
        format!("{ENVIRONMENTS}/{}{rest}", self.id)
    }

    /// Runs a script to its end inside, and gives what it printed.
    #[track_caller]
    fn works(&self, script: &str) -> String {
        let result = expect(&self.http.post(&self.path("/exec"), json!({"command": ["sh", "-c", script]})), 200);
        assert_eq!(result["exit_code"], 0, "{script}: {result}");
        text(&result, "stdout")
    }

    /// Starts something that goes on, and gives its id.
    #[track_caller]
    fn begins(&self, script: &str) -> String {
        text(&expect(&self.http.post(&self.path("/processes"), json!({"argv": ["sh", "-c", script]})), 201), "id")
    }

    #[track_caller]
    fn runs(&self, process: &str) -> bool {
        text(&expect(&self.http.get(&self.path(&format!("/processes/{process}"))), 200), "status") == "running"
    }

    #[track_caller]
    fn checkpoint(&self, body: Value) -> Value {
        expect(&self.http.post(&self.path("/checkpoints"), body), 201)
    }

    #[track_caller]
    fn restore(&self, checkpoint: &Value) {
        let path = self.path(&format!("/checkpoints/{}/restore", text(checkpoint, "id")));
        let restored = expect(&self.http.post(&path, json!({})), 200);
        assert_eq!(restored["runtime"]["checkpoint_id"], checkpoint["id"]);
    }

    #[track_caller]
    fn fork(&self, body: Value) -> Vec<Self> {
        let forks = expect(&self.http.post(&self.path("/fork"), body), 201);
        let items = forks["items"].as_array().unwrap();
        items.iter().map(|item| Self { http: self.http.clone(), id: text(item, "id") }).collect()
    }

    #[track_caller]
    fn delete(&self) {
        expect(&self.http.delete(&self.path("")), 200);
    }
}
