//! What this host can hold a place to, as the provider promises it.

use stead_domain::posture::{Capabilities, Enforcement};

/// Why something cannot be held here; none: it can.
pub type Obstacle = Option<String>;

/// What was found out about the host at the start.
#[derive(Clone, Debug, Default)]
pub struct Abilities {
    /// Namespaces: without them there is no place at all.
    pub places: Obstacle,
    pub memory: Obstacle,
    pub pids: Obstacle,
    pub cpus: Obstacle,
}

impl Abilities {
    pub fn capabilities(&self) -> Capabilities {
        let held = |obstacle: &Obstacle| if obstacle.is_none() { Enforcement::Enforced } else { Enforcement::Unsupported };
        let place = held(&self.places);
        Capabilities::default()
            .with("sandbox.mode", &[("workspace", place)])
            .with("sandbox.workspace_access", &[("none", place), ("ro", place), ("rw", place), ("cow", place)])
            .with("sandbox.network_access", &[("disabled", place), ("allowlist", place), ("enabled", place)])
            // Nothing but the workspace and what is thrown away can be written; that nothing is installed into it cannot be told from work.
            .with("sandbox.package_policy", &[("none", Enforcement::BestEffort), ("workspace", place)])
            .with("sandbox.resources.cpus", &[("*", held(&self.cpus))])
            .with("sandbox.resources.memory_mb", &[("*", held(&self.memory))])
            .with("sandbox.resources.pids", &[("*", held(&self.pids))])
            .with("sandbox.protected_paths", &[("*", place)])
            .with("sandbox.hidden_paths", &[("*", place)])
            .with("mounts", &[("host:ro", place), ("host:rw", place)])
    }

    /// Each obstacle with what it stands in the way of, for people.
    pub fn obstacles(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("places", &self.places),
            ("sandbox.resources.memory_mb", &self.memory),
            ("sandbox.resources.pids", &self.pids),
            ("sandbox.resources.cpus", &self.cpus),
        ]
        .into_iter()
        .filter_map(|(what, obstacle)| obstacle.as_deref().map(|why| (what, why)))
    }
}
