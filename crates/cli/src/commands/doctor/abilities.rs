//! What this host can do for places: each thing that is tried is a check.

use std::path::{Path, PathBuf};

use super::check::Check;
use super::remedies::Machine;
use crate::host::{self, Ability, Name, Report};
use crate::server::DataDirectory;

/// What each is called here, and what it is for.
const CHECKS: [(Name, &str, &str, &str); 12] = [
    (Name::UserNamespaces, "SD14", "user namespaces", "places can be made"),
    (Name::ProcMount, "SD15", "/proc inside", "a place has a /proc of its own"),
    (Name::Seccomp, "SD16", "seccomp", "the filter of system calls can be installed"),
    (Name::IdmappedMounts, "SD17", "idmapped mounts", "directories of the data directory can be shown inside"),
    (Name::Overlay, "SD18", "overlay", "`workspace_access: cow` can be held"),
    (Name::NetworkSockets, "SD19", "network sockets", "`network_access: allowlist` can be held"),
    (Name::NetworkDevice, "SD20", "/dev/net/tun", "`network_access: enabled` can be held"),
    (Name::Landlock, "SD21", "landlock", "a second line behind the mounts"),
    (Name::MemoryLimit, "SD22", "memory limit", "`resources.memory_mb` can be held"),
    (Name::PidsLimit, "SD23", "process limit", "`resources.pids` can be held"),
    (Name::CpuLimit, "SD24", "processor limit", "`resources.cpus` can be held"),
    (Name::DiskQuota, "SD25", "disk quota", "`resources.disk_mb` is held by the filesystem, to the block"),
];

const NO_REMEDY: &str = "nothing that Stead can mend: ask the administrator of this host";

/// Has it all tried, on the filesystem of the data directory where there is one.
pub fn examine(data_dir: &Path, machine: &Machine) -> Vec<Check> {
    let report = match host::ask(&site(data_dir)) {
        Ok(report) => report,
        Err(error) => {
            return vec![Check::fail("SD14", "user namespaces", error, "try again; `stead status` shows whether the machine is busy")];
        }
    };
    // Limits depend on where a process runs, and it is the server whose they are.
    let of_server = if DataDirectory::is_held(data_dir) { host::recall(data_dir) } else { None };
    CHECKS
        .iter()
        .filter_map(|(name, code, shown, purpose)| {
            let ability = find(&report, of_server.as_ref(), *name)?;
            Some(judge(ability, code, shown, purpose, machine))
        })
        .collect()
}

fn site(data_dir: &Path) -> PathBuf {
    let usable = data_dir.is_dir() && rustix::fs::access(data_dir, rustix::fs::Access::WRITE_OK).is_ok();
    if usable { data_dir.to_owned() } else { std::env::temp_dir() }
}

fn find<'a>(here: &'a Report, of_server: Option<&'a Report>, name: Name) -> Option<&'a Ability> {
    let is_limit = matches!(name, Name::MemoryLimit | Name::PidsLimit | Name::CpuLimit);
    of_server.filter(|_| is_limit).and_then(|report| report.find(name)).or_else(|| here.find(name))
}

fn judge(ability: &Ability, code: &'static str, shown: &'static str, purpose: &str, machine: &Machine) -> Check {
    let why = ability.why.as_deref();
    if ability.works {
        return Check::ok(code, shown, why.map_or_else(|| purpose.to_owned(), |why| format!("{purpose} ({why})")));
    }
    let why = why.unwrap_or("it does not work").to_owned();
    let next = match ability.remedy {
        Some(remedy) => remedy.advice(),
        None if ability.was_tried() => NO_REMEDY,
        None => "first mend what keeps places from being made",
    };
    let check = match ability.name {
        // Without these nothing runs at all.
        Name::UserNamespaces | Name::ProcMount | Name::Seccomp | Name::IdmappedMounts => Check::fail(code, shown, why, next),
        // Nothing is missing: `resources.disk_mb` is watched then, and says so.
        Name::DiskQuota => {
            let next = ability.remedy.map_or_else(String::new, |remedy| format!("; to have it exact, {}", remedy.advice()));
            return Check::ok(code, shown, format!("`resources.disk_mb` is watched, because {why}{next}"));
        }
        _ => Check::warn(code, shown, why, next),
    };
    match ability.remedy.and_then(|remedy| machine.repair(remedy)) {
        Some(repair) => check.repaired_by(repair),
        None => check,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Status;
    use super::*;
    use crate::host::Remedy;

    fn machine() -> Machine {
        Machine { root: "/nowhere".into(), program: "/usr/bin/stead".into(), has_systemd: true }
    }

    #[test]
    fn what_places_need_fails_and_the_rest_warns() {
        let lacking = |name| Ability { name, works: false, why: Some("no".to_owned()), remedy: Some(Remedy::AppArmorProfile) };
        let status = |name| judge(&lacking(name), "SD14", "name", "purpose", &machine()).status;
        assert_eq!(status(Name::UserNamespaces), Status::Fail);
        assert_eq!(status(Name::MemoryLimit), Status::Warn);
        assert_eq!(status(Name::DiskQuota), Status::Ok);
        let check = judge(&lacking(Name::UserNamespaces), "SD14", "name", "purpose", &machine());
        assert!(check.repair.is_some() && check.next.unwrap().contains("--fix"));
    }

    #[test]
    fn the_limits_are_the_servers() {
        let report = |works| Report {
            boot: String::new(),
            kernel: String::new(),
            user: 0,
            version: String::new(),
            abilities: [Name::MemoryLimit, Name::Overlay].map(|name| Ability { name, works, why: None, remedy: None }).to_vec(),
        };
        let (here, there) = (report(false), report(true));
        assert!(find(&here, Some(&there), Name::MemoryLimit).unwrap().works);
        assert!(!find(&here, Some(&there), Name::Overlay).unwrap().works);
        assert!(!find(&here, None, Name::MemoryLimit).unwrap().works);
    }
}
