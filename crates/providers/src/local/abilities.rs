//! What this host can hold a place to, as the provider promises it.

use std::sync::Arc;

use stead_domain::posture::{BESIDE, Capabilities, Enforcement};
use stead_place::blueprint::Limits;
use tokio::sync::watch;

/// Why something cannot be held here; none: it can.
pub type Obstacle = Option<String>;

/// What was found out about the host by trying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Namespaces and mounts: without them there is no place at all.
    pub places: Obstacle,
    /// A layer over a workspace.
    pub layers: Obstacle,
    /// Sockets that lead out of a network of its own.
    pub outlets: Obstacle,
    /// A device that leads out of it.
    pub device: Obstacle,
    pub memory: Obstacle,
    pub pids: Obstacle,
    pub cpus: Obstacle,
    /// A bound on files that the filesystem itself holds. Without it they are watched.
    pub quota: Obstacle,
}

impl Abilities {
    /// Nothing can be promised, for one reason.
    pub fn none(why: &str) -> Self {
        let why = || Some(why.to_owned());
        Self { places: why(), layers: why(), outlets: why(), device: why(), memory: why(), pids: why(), cpus: why(), quota: why() }
    }

    pub fn capabilities(&self) -> Capabilities {
        let place = self.places.as_deref();
        let also = |obstacle: &'_ Obstacle| place.map(str::to_owned).or_else(|| obstacle.clone());
        let capabilities = Capabilities::default()
            .unless(place, "sandbox.mode", &["workspace"])
            .unless(place, "sandbox.workspace_access", &["none", "ro", "rw"])
            .unless(also(&self.layers).as_deref(), "sandbox.workspace_access", &["cow"])
            .unless(place, "sandbox.network_access", &["disabled"])
            .unless(also(&self.outlets).as_deref(), "sandbox.network_access", &["allowlist"])
            .unless(also(&self.device).as_deref(), "sandbox.network_access", &["enabled"])
            // Nothing but the workspace and what is thrown away can be written; that nothing is installed into it cannot be told from work.
            .with("sandbox.package_policy", &[("none", Enforcement::BestEffort)])
            .unless(place, "sandbox.package_policy", &["workspace"])
            .unless(also(&self.own_system()).as_deref(), "sandbox.package_policy", &["system"])
            .unless(place, "sandbox.allow_ptrace", &["true"])
            .unless(also(&self.cpus).as_deref(), "sandbox.resources.cpus", &["*"])
            .unless(also(&self.memory).as_deref(), "sandbox.resources.memory_mb", &["*"])
            .unless(also(&self.pids).as_deref(), "sandbox.resources.pids", &["*"])
            .unless(place, "sandbox.resources.disk_mb", &["*"])
            .unless(place, "sandbox.protected_paths", &["*"])
            .unless(place, "sandbox.hidden_paths", &["*"])
            .unless(place, "mounts", &["host:ro", "host:rw"])
            .unless(place, "root.view", &["image"])
            .unless(place, "root.image", &["*"])
            .unless(place, "root.digest", &["*"])
            // Not into bodies: whoever runs inside could read the value where it was sent.
            .unless(place, "secret_bindings.delivery", &["env", "file", "broker"]);
        match (place, &self.quota) {
            (Some(_), _) => capabilities,
            // Directories of the host belong to no project of ours, and are watched beside it.
            (None, None) => capabilities.with("sandbox.resources.disk_mb", &[(BESIDE, Enforcement::BestEffort)]),
            // Watched from outside: passed for a moment at most.
            (None, Some(_)) => capabilities.with("sandbox.resources.disk_mb", &[("*", Enforcement::BestEffort)]),
        }
    }

    /// A copy of the host's system with the ids of a whole one.
    fn own_system(&self) -> Obstacle {
        if rustix::process::geteuid().is_root() {
            return self.layers.clone();
        }
        Some("only a server that root runs can give an environment the ids of a whole system".to_owned())
    }

    /// Takes away the limits that cannot be held, so that the rest can be.
    pub fn leave_out(&self, limits: &mut Limits) {
        if self.memory.is_some() {
            limits.memory_bytes = None;
        }
        if self.pids.is_some() {
            limits.pids = None;
        }
        if self.cpus.is_some() {
            limits.cpus = None;
        }
    }

    /// Each obstacle with what it stands in the way of, for people.
    pub fn obstacles(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("places", &self.places),
            ("sandbox.workspace_access: cow", &self.layers),
            ("sandbox.network_access: allowlist", &self.outlets),
            ("sandbox.network_access: enabled", &self.device),
            ("sandbox.resources.memory_mb", &self.memory),
            ("sandbox.resources.pids", &self.pids),
            ("sandbox.resources.cpus", &self.cpus),
        ]
        .into_iter()
        .filter_map(|(what, obstacle)| obstacle.as_deref().map(|why| (what, why)))
        // What stands in the way of places stands in the way of everything.
        .take(if self.places.is_some() { 1 } else { usize::MAX })
    }
}

/// What is known of the host so far: trying takes a moment, and a server answers before that.
#[derive(Clone, Debug)]
pub struct Known(watch::Receiver<Option<Arc<Abilities>>>);

/// Whoever finds it out tells it here.
pub type Tell = watch::Sender<Option<Arc<Abilities>>>;

impl Known {
    pub fn not_yet() -> (Tell, Self) {
        let (tell, known) = watch::channel(None);
        (tell, Self(known))
    }

    pub fn now(&self) -> Arc<Abilities> {
        let known = self.0.borrow().clone();
        known.unwrap_or_else(|| Arc::new(Abilities::none("what this host can do is not known yet; try again in a moment")))
    }

    /// Waits until it is known, or until nobody is left who would tell.
    pub async fn settled(&self) {
        let _ = self.0.clone().wait_for(Option::is_some).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_obstacle_stands_in_the_way_of_its_own_values() {
        let abilities = Abilities { device: Some("no /dev/net/tun".to_owned()), ..Abilities::default() };
        let capabilities = abilities.capabilities();
        assert_eq!(capabilities.level("sandbox.network_access", "enabled"), Enforcement::Unavailable);
        assert_eq!(capabilities.reason("sandbox.network_access", "enabled"), Some("no /dev/net/tun"));
        assert_eq!(capabilities.level("sandbox.network_access", "disabled"), Enforcement::Enforced);
        assert_eq!(capabilities.level("sandbox.resources.memory_mb", "64"), Enforcement::Enforced);
        assert_eq!(capabilities.level("sandbox.resources.disk_mb", "64"), Enforcement::Enforced);
        let watched = Abilities { quota: Some("no project quotas".to_owned()), ..Abilities::default() };
        assert_eq!(watched.capabilities().level("sandbox.resources.disk_mb", "64"), Enforcement::BestEffort);
        assert_eq!(watched.obstacles().count(), 0, "it is watched, which is no obstacle");
    }

    #[test]
    fn without_places_nothing_is_promised() {
        let abilities = Abilities { places: Some("no namespaces".to_owned()), ..Abilities::default() };
        let capabilities = abilities.capabilities();
        for (field, value) in [("sandbox.mode", "workspace"), ("sandbox.network_access", "enabled"), ("sandbox.resources.pids", "9")] {
            assert_eq!(capabilities.level(field, value), Enforcement::Unavailable, "{field}");
            assert_eq!(capabilities.reason(field, value), Some("no namespaces"));
        }
    }

    #[tokio::test]
    async fn it_is_waited_for() {
        let (tell, known) = Known::not_yet();
        assert!(known.now().places.is_some());
        tell.send_replace(Some(Arc::new(Abilities::default())));
        known.settled().await;
        assert_eq!(*known.now(), Abilities::default());
        let (tell, known) = Known::not_yet();
        drop(tell);
        known.settled().await;
    }
}
