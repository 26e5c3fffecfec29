//! A definition that changed while its place is awake. What may leave follows it at once; the rest of a place stays as it was made.

use stead_egress::policy::{Access, Policy, PolicyText};
use stead_sandbox::Outlet;

use super::Steward;
use super::egress::Egress;
use crate::blueprint::{Blueprint, Limits, Network, Workspace};
use crate::protocol::{Answer, Refusal};

/// The layers of a workspace by their ids: where they lie may have changed.
fn layers(workspace: &Workspace) -> Vec<String> {
    let all = std::iter::once(&workspace.source).chain(&workspace.below);
    let names = all.filter_map(|layer| layer.parent()?.file_name()?.to_str());
    names.map(|name| name.split_once('_').map_or(name, |(_, id)| id).to_owned()).collect()
}

impl Steward {
    pub(super) fn adopt(&mut self, new: Blueprint) -> Result<Answer, Refusal> {
        if new.spec_version < self.blueprint.spec_version.max(self.heard_version) {
            // Said late: what came after it holds.
            return Err(Refusal::Outdated);
        }
        self.heard_version = new.spec_version;
        if new.spec_version == self.blueprint.spec_version && layers(&new.workspace) != layers(&self.blueprint.workspace) {
            return Err(Refusal::OtherFiles);
        }
        self.hold_to(&new);
        if !self.is_as(&new) {
            return Err(Refusal::Outdated);
        }
        if let (Some(disk), Some(limit)) = (&mut self.disk, new.limits.disk_bytes) {
            disk.hold_to(limit);
        }
        if let Some(held) = &mut self.held {
            let failed =
                |error: std::io::Error| Refusal::Failed { message: format!("the filesystem does not take the new bound: {error}") };
            held.hold_to(new.limits.disk_bytes).map_err(failed)?;
        }
        self.blueprint = new;
        Ok(Answer::Done)
    }

    fn hold_to(&mut self, new: &Blueprint) {
        let Network::Relayed { policy: made_for, .. } = &self.blueprint.network else { return };
        match (&new.network, &mut self.egress) {
            (Network::Disabled, egress) => {
                egress.iter_mut().for_each(Egress::end);
                *egress = None;
            }
            // More than the place was made for comes with the next one.
            (Network::Relayed { policy, .. }, _) if policy.access == Access::Enabled && made_for.access != Access::Enabled => {}
            (Network::Relayed { policy, .. }, Some(egress)) => egress.hold_to(policy),
            (Network::Relayed { .. }, none) => {
                let mut egress = Egress::of(new);
                if let Some(egress) = &mut egress {
                    // A relay that does not answer is looked for again.
                    let _ = egress.connect(self.inside.outlets());
                }
                *none = egress;
            }
        }
    }

    /// Whether nothing but what may leave is different, and its ports are those that the place listens on. The name inside and the patience
    /// with idleness make no other place, nor does another bound on what is only watched.
    fn is_as(&self, new: &Blueprint) -> bool {
        let old = &self.blueprint;
        let network = match (&old.network, &new.network) {
            (Network::Relayed { policy: old, relay }, Network::Relayed { policy, relay: other }) => {
                relay == other && old.access == policy.access && (policy.access == Access::Enabled || self.listens_for(policy))
            }
            (old, new) => old == new,
        };
        let watched = old.limits.disk_bytes.is_some() && new.limits.disk_bytes.is_some();
        let made_alike = Blueprint {
            spec_version: old.spec_version,
            hostname: old.hostname.clone(),
            idle_milliseconds: old.idle_milliseconds,
            network: old.network.clone(),
            limits: Limits { disk_bytes: if watched { old.limits.disk_bytes } else { new.limits.disk_bytes }, ..new.limits },
            ..new.clone()
        };
        network && made_alike == *old
    }

    fn listens_for(&self, policy: &PolicyText) -> bool {
        let listening = |port: &u16| {
            *port == crate::blueprint::PROXY_PORT
                || self.inside.outlets().iter().any(|(outlet, _)| matches!(outlet, Outlet::Tcp(known) if known == port))
        };
        Policy::parse(policy).is_ok_and(|policy| policy.ports().iter().all(listening))
    }
}
