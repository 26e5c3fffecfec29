//! The states of an environment and the legal ways between them, in one table.

use crate::environment::EnvironmentStatus::{self, Destroyed, Destroying, Failed, Orphaned, Provisioning, Ready, Retained, Running};

/// Each state, what it means, and the states that may follow it. `destroying` follows every live one: delete works from any state.
pub const TRANSITIONS: &[(EnvironmentStatus, &str, &[EnvironmentStatus])] = &[
    (Provisioning, "the record exists, the provider is at work", &[Ready, Failed, Orphaned, Destroying]),
    (Ready, "usable", &[Running, Retained, Failed, Orphaned, Destroying]),
    (Running, "a worker is registered in it", &[Ready, Retained, Failed, Orphaned, Destroying]),
    (Retained, "kept by policy after its owner ended", &[Ready, Orphaned, Destroying]),
    (Failed, "could not be made or used; `last_error` says why", &[Provisioning, Ready, Orphaned, Destroying]),
    (Orphaned, "the provider's side is gone; reconcile adopts it again when it comes back", &[Provisioning, Ready, Destroying]),
    (Destroying, "being removed; its name is free", &[Destroyed]),
    (Destroyed, "only the record is left", &[]),
];

impl EnvironmentStatus {
    /// Whether this state may be followed by `next`. Staying is no transition and always fine.
    pub fn may_become(self, next: Self) -> bool {
        self == next || TRANSITIONS.iter().any(|(from, _, to)| *from == self && to.contains(&next))
    }

    /// Whether the record still stands for a place: its name is taken and it can be edited.
    pub fn is_live(self) -> bool {
        !matches!(self, Destroying | Destroyed)
    }
}

/// The table as a page of the documentation, with a diagram.
pub fn document() -> String {
    let mut text = String::from(
        "# States of an environment\n\nWritten from the table in `crates/domain/src/states.rs` by its own test.\n\n```mermaid\nstateDiagram-v2\n    [*] --> provisioning\n",
    );
    for (from, _, next) in TRANSITIONS {
        for to in *next {
            text.push_str(&format!("    {from} --> {to}\n"));
        }
    }
    text.push_str("    destroyed --> [*]\n```\n\n| state | meaning | may become |\n|---|---|---|\n");
    for (from, meaning, next) in TRANSITIONS {
        let next: Vec<&str> = next.iter().map(|status| status.as_str()).collect();
        text.push_str(&format!("| `{from}` | {meaning} | {} |\n", next.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_table_lists_every_state_once() {
        let listed: Vec<_> = TRANSITIONS.iter().map(|(from, ..)| *from).collect();
        assert_eq!(listed, EnvironmentStatus::ALL);
    }

    #[test]
    fn the_page_in_the_documentation_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/environment-states.md");
        if std::env::var_os("STEAD_UPDATE_DOCS").is_some() {
            std::fs::write(&path, document()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), document(), "run `make generate`");
    }

    fn any_status() -> impl Strategy<Value = EnvironmentStatus> {
        prop::sample::select(EnvironmentStatus::ALL)
    }

    proptest! {
        #[test]
        fn every_state_can_be_left_towards_destroyed(status in any_status()) {
            let reachable = status == Destroyed || status == Destroying || status.may_become(Destroying);
            prop_assert!(reachable && Destroying.may_become(Destroyed));
        }

        #[test]
        fn no_walk_ever_comes_back_from_the_dead(steps in prop::collection::vec(any_status(), 1..60)) {
            let mut status = Provisioning;
            let mut gone = false;
            for next in steps {
                if status.may_become(next) {
                    status = next;
                }
                gone |= !status.is_live();
                prop_assert!(!(gone && status.is_live()));
            }
        }
    }
}
