//! The trial itself: places are made, each with one thing more than the last, and what fails is named.
//!
//! One thread only, and no runtime.

use std::io::Write;
use std::path::Path;

use stead_sandbox::cgroup::{Availability, Group, Limits, Support};
use stead_sandbox::{Bind, Error, Network, Outlets, Overlay, Place, Plan, Skeleton, landlock_version, quota};

use super::remedy::{self, Remedy};
use super::scratch::Scratch;
use super::{Ability, Name, Report};

const WORKSPACE: &str = "/workspace";
pub const NOT_TRIED: &str = "not tried, because no place can be made";
/// The first version of Landlock that keeps abstract sockets and signals apart.
const SCOPES: u32 = 6;

/// Tries everything, with files below a directory, and prints a report.
pub fn print(directory: &Path) -> bool {
    let report = Report::of_now(all(directory));
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &report).is_ok() && writeln!(out).and_then(|()| out.flush()).is_ok()
}

fn all(directory: &Path) -> Vec<Ability> {
    let mut abilities = match Trials::prepare(directory) {
        // Its directory is gone when the next one is made.
        Ok(trials) => trials.places(),
        Err(error) => not_tried(&OF_PLACES, &format!("nothing can be tried in {}: {error}", directory.display())),
    };
    abilities.push(landlock(landlock_version()));
    abilities.extend(limits());
    abilities.push(disk_quota(directory));
    abilities
}

/// What needs a place to be tried, from what every place has to what only some have.
const OF_PLACES: [Name; 7] =
    [Name::UserNamespaces, Name::ProcMount, Name::Seccomp, Name::IdmappedMounts, Name::Overlay, Name::NetworkSockets, Name::NetworkDevice];

fn not_tried(names: &[Name], why: &str) -> Vec<Ability> {
    names.iter().map(|name| Ability::lacks(*name, why, None)).collect()
}

struct Trials {
    scratch: Scratch,
    skeleton: Skeleton,
    by_root: bool,
}

impl Trials {
    fn prepare(directory: &Path) -> std::io::Result<Self> {
        let scratch = Scratch::below(directory)?;
        // What a server's spawner prepares may be made anew at this very moment; an empty one does.
        scratch.directory("etc")?;
        let skeleton = Skeleton::open(scratch.path()).ok_or(std::io::ErrorKind::NotFound)?;
        Ok(Self { scratch, skeleton, by_root: rustix::process::geteuid().is_root() })
    }

    fn places(&self) -> Vec<Ability> {
        if let Err(error) = self.attempt(|_| {}) {
            return self.without_places(&error);
        }
        let mut abilities: Vec<_> = [Name::UserNamespaces, Name::ProcMount, Name::Seccomp].map(Ability::works).to_vec();
        abilities.push(self.binds());
        abilities.push(self.overlay());
        let ports = Outlets::Ports { ports: vec![80, 443], proxy: 3128 };
        abilities.push(match self.attempt(|plan| plan.network = Network::Own(ports)) {
            Ok(()) => Ability::works(Name::NetworkSockets),
            Err(error) => Ability::lacks(Name::NetworkSockets, error.to_string(), None),
        });
        let device = Outlets::Device { largest_packet: 1500 };
        abilities.push(match self.attempt(|plan| plan.network = Network::Own(device)) {
            Ok(()) => Ability::works(Name::NetworkDevice),
            Err(error) => Ability::lacks(Name::NetworkDevice, error.to_string(), remedy::of_device(Path::new("/dev/net/tun"))),
        });
        abilities
    }

    /// Makes a place and ends it.
    fn attempt(&self, change: impl FnOnce(&mut Plan)) -> Result<(), Error> {
        let mut plan = Plan::new(self.skeleton.clone());
        change(&mut plan);
        Place::start(&plan).map(Place::end)
    }

    /// Whoever is told the reason need not know where the data directory is.
    fn without_path(&self, said: &str) -> String {
        said.replace(&self.scratch.path().display().to_string(), "…")
    }

    /// Says at which step it ended; what comes after that was not reached.
    fn without_places(&self, error: &Error) -> Vec<Ability> {
        let said = self.without_path(&error.to_string());
        let (reached, failed) = match error {
            Error::Inside(step) if step.starts_with("make a proc") => (1, Ability::lacks(Name::ProcMount, said, Some(Remedy::UncoverProc))),
            Error::Inside(step) if step.starts_with("install the filter") => (2, Ability::lacks(Name::Seccomp, said, None)),
            _ => {
                let (why, remedy) = remedy::of_user_namespaces(Path::new("/proc/sys"), self.by_root, &said);
                (0, Ability::lacks(Name::UserNamespaces, why, remedy))
            }
        };
        let mut abilities: Vec<_> = OF_PLACES[..reached].iter().map(|name| Ability::works(*name)).collect();
        abilities.push(failed);
        abilities.extend(not_tried(&OF_PLACES[reached + 1..], NOT_TRIED));
        abilities
    }

    fn binds(&self) -> Ability {
        let outcome =
            self.scratch.directory("bound").map_err(|error| error.to_string()).and_then(|path| {
                self.attempt(|plan| plan.binds.push(Bind::read_write(path, WORKSPACE))).map_err(|error| error.to_string())
            });
        match outcome {
            Ok(()) if self.by_root => Ability::works(Name::IdmappedMounts),
            Ok(()) => Ability::works(Name::IdmappedMounts).noting("not needed: an ordinary user's files are that user's inside too"),
            Err(error) => {
                let error = self.without_path(&error);
                Ability::lacks(Name::IdmappedMounts, error, Some(Remedy::OtherFilesystem))
            }
        }
    }

    fn overlay(&self) -> Ability {
        let directory = |name: &str| self.scratch.directory(name).map_err(|error| error.to_string());
        let outcome = || {
            let (lower, upper, work) = (directory("lower")?, directory("layer/upper")?, directory("layer/work")?);
            let overlay = Overlay { lower: vec![lower], upper, work, volatile: false };
            self.attempt(|plan| plan.binds.push(Bind::overlay(overlay, WORKSPACE))).map_err(|error| error.to_string())
        };
        match outcome() {
            Ok(()) => Ability::works(Name::Overlay),
            Err(error) => {
                let error = self.without_path(&error);
                let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
                Ability::lacks(Name::Overlay, error, Some(remedy::of_overlay(&known)))
            }
        }
    }
}

fn landlock(version: u32) -> Ability {
    match version {
        0 => Ability::lacks(Name::Landlock, "this kernel has no Landlock: the mounts stand alone", Some(Remedy::NewerKernel)),
        1..SCOPES => {
            let why = format!("version {version} holds files, and neither abstract sockets nor signals");
            Ability::lacks(Name::Landlock, why, Some(Remedy::NewerKernel))
        }
        _ => Ability::works(Name::Landlock).noting(format!("version {version}")),
    }
}

fn limits() -> [Ability; 3] {
    let available = Availability::probe();
    let tried = try_group(&available);
    let ability = |name: Name, support: &Support| match (support, &tried) {
        (Support::Unavailable(why), _) => Ability::lacks(name, why.clone(), Some(of_cgroups())),
        (Support::Enforced, Err(why)) => Ability::lacks(name, why.clone(), Some(of_cgroups())),
        (Support::Enforced, Ok(())) => Ability::works(name),
    };
    [ability(Name::MemoryLimit, &available.memory), ability(Name::PidsLimit, &available.pids), ability(Name::CpuLimit, &available.cpu)]
}

/// Makes a group with what should be possible. Where groups need something to be made ready first, that is the spawner's to do, because it
/// moves processes; then what was seen must do.
fn try_group(available: &Availability) -> Result<(), String> {
    let can = |support: &Support| *support == Support::Enforced;
    let limits = Limits {
        memory_bytes: can(&available.memory).then_some(64 << 20),
        pids: can(&available.pids).then_some(64),
        cpus: can(&available.cpu).then_some(1.0),
    };
    if !available.has_groups() || limits == Limits::default() {
        return Ok(());
    }
    match Group::create(available, &format!("place-check-{}", std::process::id()), limits) {
        Ok(group) => group.remove().map_err(|error| error.to_string()),
        Err(Error::Outside { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn of_cgroups() -> Remedy {
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if unified { Remedy::DelegateCgroup } else { Remedy::UnifiedCgroups }
}

/// Whether the filesystem holds a directory to a bound. Without that it is watched, so nothing is missing that is needed.
fn disk_quota(directory: &Path) -> Ability {
    let tried = Scratch::below(directory).map_err(|error| format!("nothing can be tried: {error}"));
    match tried.and_then(|scratch| quota::try_in(scratch.path())) {
        Ok(()) => Ability::works(Name::DiskQuota),
        Err(why) if rustix::process::geteuid().is_root() => Ability::lacks(Name::DiskQuota, why, Some(Remedy::ProjectQuota)),
        Err(why) => Ability::lacks(Name::DiskQuota, why, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landlock_is_judged_by_its_version() {
        assert!(!landlock(0).works && !landlock(5).works && landlock(6).works);
    }
}
