//! What this host can do for places, found out by trying and not by guessing.
//!
//! A process with one thread tries (`trial`), because making a place begins with a copy of whoever makes it. A server and the doctor start
//! that process and read what it prints (`ask`); a server remembers it for its next start.

mod ask;
mod remedy;
mod scratch;
mod trial;

use serde::{Deserialize, Serialize};
use stead_providers::local::{Abilities, Obstacle};

pub use self::ask::{ask, recall, remember};
pub use self::remedy::Remedy;
use self::trial::NOT_TRIED;
pub use self::trial::print;

/// The word that makes this program try.
pub const ROLE: &str = "place-check";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Name {
    UserNamespaces,
    ProcMount,
    Seccomp,
    IdmappedMounts,
    Overlay,
    NetworkSockets,
    NetworkDevice,
    Landlock,
    MemoryLimit,
    PidsLimit,
    CpuLimit,
    DiskQuota,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ability {
    pub name: Name,
    pub works: bool,
    /// Why it does not work, or what is to be said of it although it does.
    pub why: Option<String>,
    pub remedy: Option<Remedy>,
}

impl Ability {
    fn works(name: Name) -> Self {
        Self { name, works: true, why: None, remedy: None }
    }

    fn lacks(name: Name, why: impl Into<String>, remedy: Option<Remedy>) -> Self {
        Self { name, works: false, why: Some(why.into()), remedy }
    }

    /// False for what could not be tried because something before it failed.
    pub fn was_tried(&self) -> bool {
        self.works || self.why.as_deref() != Some(NOT_TRIED)
    }

    fn noting(self, what: impl Into<String>) -> Self {
        Self { why: Some(what.into()), ..self }
    }
}

/// Whom it was true of, and what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Another boot or another kernel may do something else.
    pub boot: String,
    pub kernel: String,
    pub user: u32,
    pub version: String,
    pub abilities: Vec<Ability>,
}

impl Report {
    fn of_now(abilities: Vec<Ability>) -> Self {
        Self {
            boot: boot_id(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            user: rustix::process::geteuid().as_raw(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            abilities,
        }
    }

    /// Whether it tells of this user on this boot of this machine.
    fn is_of_now(&self) -> bool {
        *self == Self { abilities: self.abilities.clone(), ..Self::of_now(Vec::new()) }
    }

    pub fn find(&self, name: Name) -> Option<&Ability> {
        self.abilities.iter().find(|ability| ability.name == name)
    }

    fn obstacle(&self, names: &[Name]) -> Obstacle {
        names.iter().find_map(|name| match self.find(*name) {
            Some(ability) if ability.works => None,
            Some(ability) => Some(ability.why.clone().unwrap_or_else(|| "it does not work here".to_owned())),
            None => Some("it has not been tried".to_owned()),
        })
    }

    /// What a provider can promise after this.
    pub fn abilities(&self) -> Abilities {
        Abilities {
            // Every place is bound to directories of the host, and as root only with their owners translated.
            places: self.obstacle(&[Name::UserNamespaces, Name::ProcMount, Name::Seccomp, Name::IdmappedMounts]),
            layers: self.obstacle(&[Name::Overlay]),
            outlets: self.obstacle(&[Name::NetworkSockets]),
            device: self.obstacle(&[Name::NetworkDevice]),
            memory: self.obstacle(&[Name::MemoryLimit]),
            pids: self.obstacle(&[Name::PidsLimit]),
            cpus: self.obstacle(&[Name::CpuLimit]),
            quota: self.obstacle(&[Name::DiskQuota]),
        }
    }
}

/// Differs from boot to boot.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_work_or_was_not_tried_stands_in_the_way() {
        let works = [Name::UserNamespaces, Name::ProcMount, Name::Seccomp, Name::IdmappedMounts, Name::Overlay, Name::NetworkSockets];
        let mut abilities: Vec<_> = works.map(Ability::works).to_vec();
        abilities.push(Ability::lacks(Name::NetworkDevice, "no /dev/net/tun", Some(Remedy::LoadTun)));
        let found = Report::of_now(abilities).abilities();
        assert_eq!((found.places, found.layers, found.outlets), (None, None, None));
        assert_eq!(found.device.as_deref(), Some("no /dev/net/tun"));
        assert_eq!(found.memory.as_deref(), Some("it has not been tried"));
    }

    #[test]
    fn another_boot_user_or_kernel_is_another_host() {
        let report = Report::of_now(vec![Ability::works(Name::Seccomp)]);
        assert!(report.is_of_now());
        assert!(!Report { boot: "another".to_owned(), ..report.clone() }.is_of_now());
        assert!(!Report { user: report.user + 1, ..report.clone() }.is_of_now());
        assert!(!Report { kernel: "2.6.32".to_owned(), ..report }.is_of_now());
    }
}
