//! Bounds on what a whole place may use: memory, processes, processor time.
//!
//! With the unified hierarchy (v2) where a part of it is ours to divide, with the old ones (v1) as root, else not at all, and then it is said
//! why. The keeper stays outside of the groups, so that what happens to a place does not happen to its keeper.

mod freezer;

pub use freezer::Freezer;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, Mode, OFlags, access};

use crate::error::{Error, Result, Step};

/// Below this all groups of ours lie.
const PREFIX: &str = "stead";
/// Where those who were in a delegated group go: one that is divided may hold nobody itself.
const HOST: &str = "stead.host";

/// How long the processor time of a group is shared out at a time.
const PERIOD_MICROSECONDS: u64 = 100_000;

/// Whether a bound can be kept here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    Enforced,
    /// Says why not, and what would help.
    Unavailable(String),
}

/// What this host lets us bound.
#[derive(Clone, Debug)]
pub struct Availability {
    pub memory: Support,
    pub pids: Support,
    pub cpu: Support,
    layout: Layout,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Layout {
    /// The directory that is ours to divide.
    Unified(PathBuf),
    /// The roots of the hierarchies, each with what it controls.
    Separate(Vec<(&'static str, PathBuf)>),
    None,
}

/// What a group may use; nothing said is nothing bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Without any swap.
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
    pub cpus: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    pub memory_bytes: u64,
    pub peak_memory_bytes: u64,
    pub cpu_microseconds: u64,
    pub pids: u64,
}

/// How often a bound was hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    pub oom_kills: u64,
    pub pids_hits: u64,
}

/// One group, known by name. It stays when this value goes.
#[derive(Clone, Debug)]
pub struct Group {
    name: String,
    layout: Layout,
    memory_bytes: Option<u64>,
}

/// What the old hierarchies must control for us; the first three are bounds, the others serve to count and to end.
const SEPARATE: [&str; 5] = ["memory", "pids", "cpu", "cpuacct", "freezer"];

impl Availability {
    /// Looks at the host. Changes nothing.
    pub fn probe() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let separate = separate(&mounts);
        let unified = unified(&mounts, &own);
        if let Some((base, controllers)) = &unified
            && ["memory", "pids", "cpu"].iter().any(|name| controllers.split_whitespace().any(|there| there == *name))
        {
            return Self::unified(base, controllers);
        }
        if separate.is_empty() {
            return match unified {
                // Nothing can be bounded, but those in a group can be ended together.
                Some((base, controllers)) => Self::unified(&base, &controllers),
                None => Self::none("this host has no cgroups mounted"),
            };
        }
        let support = |name: &str| match separate.iter().find(|(known, _)| *known == name) {
            None => Support::Unavailable(format!("this kernel has no cgroup controller `{name}`")),
            Some((_, root)) if access(root, Access::WRITE_OK).is_err() => {
                Support::Unavailable("with cgroups of version 1 only root can bound it".to_owned())
            }
            Some(_) => Support::Enforced,
        };
        let (memory, pids, cpu) = (support("memory"), support("pids"), support("cpu"));
        let usable = separate.iter().all(|(_, root)| access(root, Access::WRITE_OK).is_ok());
        Self { memory, pids, cpu, layout: if usable { Layout::Separate(separate) } else { Layout::None } }
    }

    fn unified(base: &Path, controllers: &str) -> Self {
        let ours = |file: &str| access(base.join(file), Access::WRITE_OK).is_ok();
        if access(base, Access::WRITE_OK).is_err() || !ours("cgroup.procs") || !ours("cgroup.subtree_control") {
            return Self::none(&format!(
                "the cgroup {} is not delegated to this user (`systemd-run --user --scope -p Delegate=yes` makes one that is)",
                base.display()
            ));
        }
        let support = |name: &str| {
            if controllers.split_whitespace().any(|there| there == name) {
                Support::Enforced
            } else {
                Support::Unavailable(format!("the controller `{name}` is not delegated to {}", base.display()))
            }
        };
        Self { memory: support("memory"), pids: support("pids"), cpu: support("cpu"), layout: Layout::Unified(base.to_owned()) }
    }

    fn none(why: &str) -> Self {
        let why = Support::Unavailable(why.to_owned());
        Self { memory: why.clone(), pids: why.clone(), cpu: why, layout: Layout::None }
    }

    /// Whether groups can be made at all, with or without bounds.
    pub fn has_groups(&self) -> bool {
        self.layout != Layout::None
    }

    /// Makes ready what groups are made in. Once per host process, before the first group; again does no harm. In a delegated group this
    /// moves those who are in it, this process among them, one level down.
    pub fn prepare(&self) -> Result<()> {
        let Layout::Unified(base) = &self.layout else { return Ok(()) };
        let wanted: String = [("memory", &self.memory), ("pids", &self.pids), ("cpu", &self.cpu)]
            .iter()
            .filter(|(_, support)| **support == Support::Enforced)
            .map(|(name, _)| format!("+{name} "))
            .collect();
        if base.join("cgroup.type").exists() {
            // Not the root of the hierarchy: that one may hold processes and be divided.
            let host = base.join(HOST);
            make_directory(&host)?;
            for _ in 0..100 {
                let there = read(&base.join("cgroup.procs"))?;
                if there.is_empty() {
                    break;
                }
                for pid in there.lines() {
                    // It may have ended meanwhile.
                    let _ = write(&host.join("cgroup.procs"), pid);
                }
            }
        }
        let parent = base.join(PREFIX);
        make_directory(&parent)?;
        if !wanted.is_empty() {
            write(&base.join("cgroup.subtree_control"), wanted.trim())?;
            write(&parent.join("cgroup.subtree_control"), wanted.trim())?;
        }
        Ok(())
    }

    /// The names of all groups that are there, also those that an earlier process made.
    pub fn leftovers(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for parent in self.layout.parents() {
            match fs::read_dir(&parent) {
                Ok(entries) => {
                    for entry in entries.filter_map(std::result::Result::ok).filter(|entry| entry.path().is_dir()) {
                        names.extend(entry.file_name().into_string());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).step(format!("read {}", parent.display())),
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }
}

impl Layout {
    fn parents(&self) -> Vec<PathBuf> {
        match self {
            Self::Unified(base) => vec![base.join(PREFIX)],
            Self::Separate(hierarchies) => hierarchies.iter().map(|(_, root)| root.join(PREFIX)).collect(),
            Self::None => Vec::new(),
        }
    }
}

/// The old hierarchies that we use, as they are mounted.
fn separate(mounts: &str) -> Vec<(&'static str, PathBuf)> {
    let mut found: Vec<(&'static str, PathBuf)> = Vec::new();
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let mut after = after.split(' ');
        if after.next() != Some("cgroup") {
            continue;
        }
        let (Some(point), Some(options)) = (before.split(' ').nth(4), after.nth(1)) else { continue };
        for name in SEPARATE {
            if options.split(',').any(|option| option == name) && !found.iter().any(|(known, _)| *known == name) {
                found.push((name, PathBuf::from(point)));
            }
        }
    }
    found
}

/// The directory of the unified hierarchy that is ours to divide, and what it controls.
fn unified(mounts: &str, own: &str) -> Option<(PathBuf, String)> {
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        (after.split(' ').next() == Some("cgroup2")).then(|| (root.to_owned(), PathBuf::from(point)))
    });
    let (root, point) = mount?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    // A mount may show only a part of the hierarchy.
    let own = own.strip_prefix(root.as_str()).filter(|_| root != "/").unwrap_or(own).trim_start_matches('/');
    // Moved there by an earlier `prepare`.
    let own = own.strip_suffix(HOST).map_or(own, |above| above.trim_end_matches('/'));
    let base = if own.is_empty() { point } else { point.join(own) };
    let controllers = fs::read_to_string(base.join("cgroup.controllers")).ok()?;
    Some((base, controllers))
}

impl Group {
    /// Makes a group with bounds. Refuses bounds that cannot be kept here. A group of that name that is there already gets the new bounds.
    pub fn create(available: &Availability, name: &str, limits: Limits) -> Result<Self> {
        check(name)?;
        for (what, wanted, support) in [
            ("memory", limits.memory_bytes.is_some(), &available.memory),
            ("processes", limits.pids.is_some(), &available.pids),
            ("processor time", limits.cpus.is_some(), &available.cpu),
        ] {
            if let (true, Support::Unavailable(why)) = (wanted, support) {
                return Err(Error::Unavailable { what, why: why.clone() });
            }
        }
        let group = Self { name: name.to_owned(), layout: available.layout.clone(), memory_bytes: limits.memory_bytes };
        if group.layout == Layout::None {
            return Err(Error::Unavailable { what: "a group of processes", why: "cgroups cannot be made here".to_owned() });
        }
        if let Err(error) = group.make().and_then(|()| group.bound(limits)) {
            let _ = group.remove();
            return Err(error);
        }
        Ok(group)
    }

    /// One that is there, perhaps since an earlier process.
    pub fn open(available: &Availability, name: &str) -> Result<Option<Self>> {
        check(name)?;
        let group = Self { name: name.to_owned(), layout: available.layout.clone(), memory_bytes: None };
        let there = group.directories().iter().any(|directory| directory.is_dir());
        Ok(there.then_some(group))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bound that it was made with.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        self.memory_bytes
    }

    fn make(&self) -> Result<()> {
        for directory in self.directories() {
            if !make_directory(&directory)? {
                // A keeper that was killed may have left it with everybody in it standing still.
                for (file, word) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
                    if directory.join(file).exists() {
                        write(&directory.join(file), word)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn bound(&self, limits: Limits) -> Result<()> {
        let quota = limits.cpus.map(|cpus| ((cpus * PERIOD_MICROSECONDS as f64) as u64).max(1_000));
        match &self.layout {
            Layout::Unified(_) => {
                if let Some(bytes) = limits.memory_bytes {
                    self.set("memory", "memory.max", &bytes.to_string())?;
                    // There is no such file where there is no swap.
                    self.set_if_there("memory", "memory.swap.max", "0")?;
                }
                if let Some(quota) = quota {
                    self.set("cpu", "cpu.max", &format!("{quota} {PERIOD_MICROSECONDS}"))?;
                }
            }
            Layout::Separate(_) => {
                if let Some(bytes) = limits.memory_bytes {
                    let bytes = bytes.to_string();
                    // The two bounds may never cross: whichever way they change, one order works.
                    if self.set("memory", "memory.limit_in_bytes", &bytes).is_err() {
                        self.set_if_there("memory", "memory.memsw.limit_in_bytes", &bytes)?;
                        self.set("memory", "memory.limit_in_bytes", &bytes)?;
                    }
                    self.set_if_there("memory", "memory.memsw.limit_in_bytes", &bytes)?;
                    self.set_if_there("memory", "memory.swappiness", "0")?;
                }
                if let Some(quota) = quota {
                    self.set("cpu", "cpu.cfs_period_us", &PERIOD_MICROSECONDS.to_string())?;
                    self.set("cpu", "cpu.cfs_quota_us", &quota.to_string())?;
                }
            }
            Layout::None => {}
        }
        if let Some(pids) = limits.pids {
            self.set("pids", "pids.max", &pids.to_string())?;
        }
        Ok(())
    }

    /// Puts a process into the group. What it starts from then on is in it too.
    pub fn attach(&self, pid: i32) -> Result<()> {
        for directory in self.directories() {
            write(&directory.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(())
    }

    /// A descriptor with which a process can be born into the group, where the hierarchy is unified.
    pub(crate) fn birthplace(&self) -> Result<Option<OwnedFd>> {
        let Layout::Unified(_) = self.layout else { return Ok(None) };
        let Some(directory) = self.directories().pop() else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(&directory, flags, Mode::empty()).map(Some).step(format!("open {}", directory.display()))
    }

    pub fn usage(&self) -> Result<GroupUsage> {
        let number = |controller, file| self.get(controller, file).map(|text| text.trim().parse().unwrap_or(0));
        Ok(match &self.layout {
            Layout::Unified(_) => GroupUsage {
                memory_bytes: number("memory", "memory.current")?,
                peak_memory_bytes: number("memory", "memory.peak")?,
                cpu_microseconds: field(&self.get("cpu", "cpu.stat")?, "usage_usec"),
                pids: number("pids", "pids.current")?,
            },
            Layout::Separate(_) => GroupUsage {
                memory_bytes: number("memory", "memory.usage_in_bytes")?,
                peak_memory_bytes: number("memory", "memory.max_usage_in_bytes")?,
                cpu_microseconds: number("cpuacct", "cpuacct.usage")? / 1_000,
                pids: number("pids", "pids.current")?,
            },
            Layout::None => GroupUsage::default(),
        })
    }

    pub fn events(&self) -> Result<Events> {
        let memory = match &self.layout {
            Layout::Unified(_) => self.get("memory", "memory.events")?,
            Layout::Separate(_) => self.get("memory", "memory.oom_control")?,
            Layout::None => String::new(),
        };
        Ok(Events { oom_kills: field(&memory, "oom_kill"), pids_hits: field(&self.get("pids", "pids.events")?, "max") })
    }

    /// Ends every process of the group, whatever it is doing. They may still be going when this comes back; [`Group::remove`] waits.
    pub fn kill(&self) -> Result<()> {
        match &self.layout {
            Layout::Unified(_) => self.set("", "cgroup.kill", "1"),
            Layout::Separate(_) => self.kill_one_by_one(),
            Layout::None => Ok(()),
        }
    }

    /// Holds them all still first, so that none makes another meanwhile, and so that no number is given to somebody else.
    fn kill_one_by_one(&self) -> Result<()> {
        let freezer = self.directory("freezer");
        for _ in 0..1_000 {
            if let Some(freezer) = &freezer {
                // Not all of them may be still at once; each round catches more.
                let _ = write(&freezer.join("freezer.state"), "FROZEN");
            }
            let mut pids: Vec<i32> = Vec::new();
            for directory in self.directories() {
                let text = read(&directory.join("cgroup.procs")).unwrap_or_default();
                pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
            }
            for pid in &pids {
                // SAFETY: plain system call. The process is held still and so still has its number.
                unsafe { libc::kill(*pid, libc::SIGKILL) };
            }
            if let Some(freezer) = &freezer {
                let _ = write(&freezer.join("freezer.state"), "THAWED");
            }
            if pids.is_empty() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Err(Error::Outside { step: format!("end the processes of {}", self.name), cause: io::ErrorKind::TimedOut.into() })
    }

    /// Removes the group. It must be empty; those that are just ending are waited for, up to two seconds.
    pub fn remove(&self) -> Result<()> {
        for directory in self.directories() {
            let mut pause = Duration::from_micros(200);
            let mut waited = Duration::ZERO;
            loop {
                match fs::remove_dir(&directory) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) && waited < Duration::from_secs(2) => {
                        std::thread::sleep(pause);
                        waited += pause;
                        pause = (pause * 2).min(Duration::from_millis(50));
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    outcome => break outcome.step(format!("remove {}", directory.display()))?,
                }
            }
        }
        Ok(())
    }

    /// One directory for each hierarchy. Two controllers may share one.
    fn directories(&self) -> Vec<PathBuf> {
        let mut directories: Vec<PathBuf> = self.layout.parents().iter().map(|parent| parent.join(&self.name)).collect();
        directories.sort();
        directories.dedup();
        directories
    }

    fn directory(&self, controller: &str) -> Option<PathBuf> {
        let parent = match &self.layout {
            Layout::Unified(base) => Some(base.join(PREFIX)),
            Layout::Separate(hierarchies) => hierarchies.iter().find(|(name, _)| *name == controller).map(|(_, root)| root.join(PREFIX)),
            Layout::None => None,
        };
        parent.map(|parent| parent.join(&self.name))
    }

    fn set(&self, controller: &str, file: &str, value: &str) -> Result<()> {
        match self.directory(controller) {
            Some(directory) => write(&directory.join(file), value),
            None => Err(Error::Outside { step: format!("set {file}"), cause: io::ErrorKind::NotFound.into() }),
        }
    }

    fn set_if_there(&self, controller: &str, file: &str, value: &str) -> Result<()> {
        match self.directory(controller).map(|directory| directory.join(file)) {
            Some(path) if path.exists() => write(&path, value),
            _ => Ok(()),
        }
    }

    /// What a file says; nothing where the controller is not there.
    fn get(&self, controller: &str, file: &str) -> Result<String> {
        let Some(path) = self.directory(controller).map(|directory| directory.join(file)) else { return Ok(String::new()) };
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            outcome => outcome.step(format!("read {}", path.display())),
        }
    }
}

/// A name is one step of a path and nothing else.
fn check(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(Error::Outside { step: format!("name a group `{name}`"), cause: io::ErrorKind::InvalidInput.into() });
    }
    Ok(())
}

fn field(text: &str, name: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok()).unwrap_or(0)
}

/// Whether it was not there before.
fn make_directory(path: &Path) -> Result<bool> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(path),
        outcome => outcome,
    }
    .step(format!("make {}", path.display()))
    .map(|()| true)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).step(format!("read {}", path.display()))
}

/// One write, as these files want it, and never a new file.
fn write(path: &Path, text: &str) -> Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).step(format!("open {}", path.display()))?;
    rustix::io::write(&file, text.as_bytes()).map(drop).step(format!("write {text} to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn the_hierarchies_are_found_where_they_are_mounted() {
        let found = separate(HYBRID);
        let root = |name: &str| found.iter().find(|(known, _)| *known == name).map(|(_, path)| path.display().to_string());
        assert_eq!(root("cpu").as_deref(), Some("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(root("cpuacct"), root("cpu"));
        assert_eq!(root("memory").as_deref(), Some("/sys/fs/cgroup/memory"));
        assert_eq!(root("pids"), None);
    }

    #[test]
    fn names_are_no_paths() {
        for name in ["", ".", "..", "a/b", "../x", "a b", "a\n"] {
            assert!(check(name).is_err(), "{name:?}");
        }
        assert!(check("env_01H.x-2").is_ok());
    }

    /// A hierarchy made of ordinary files shows what is written to which.
    #[test]
    fn bounds_of_the_unified_hierarchy_are_written_as_it_wants_them() {
        let directory = tempfile::TempDir::new().unwrap();
        let base = directory.path();
        fs::write(base.join("cgroup.controllers"), "cpuset cpu memory pids").unwrap();
        for file in ["cgroup.procs", "cgroup.subtree_control"] {
            fs::write(base.join(file), "").unwrap();
        }
        let mounts = format!("41 31 0:38 / {} rw,relatime - cgroup2 cgroup2 rw\n", base.display());
        let (found, controllers) = unified(&mounts, "0::/stead.host\n").unwrap();
        assert_eq!(found, base);
        let available = Availability::unified(&found, &controllers);
        assert_eq!((&available.memory, &available.pids, &available.cpu), (&Support::Enforced, &Support::Enforced, &Support::Enforced));
        let group = base.join("stead/one");
        fs::create_dir_all(&group).unwrap();
        fs::write(base.join("stead/cgroup.subtree_control"), "").unwrap();
        available.prepare().unwrap();
        assert_eq!(fs::read_to_string(base.join("cgroup.subtree_control")).unwrap(), "+memory +pids +cpu");
        for file in ["memory.max", "memory.swap.max", "pids.max", "cpu.max", "cgroup.procs", "cgroup.kill"] {
            fs::write(group.join(file), "").unwrap();
        }
        let limits = Limits { memory_bytes: Some(1 << 20), pids: Some(7), cpus: Some(1.5) };
        let made = Group::create(&available, "one", limits).unwrap();
        made.attach(42).unwrap();
        made.kill().unwrap();
        let said = |file: &str| fs::read_to_string(group.join(file)).unwrap();
        assert_eq!((said("memory.max"), said("memory.swap.max")), ("1048576".to_owned(), "0".to_owned()));
        assert_eq!(
            (said("pids.max"), said("cpu.max"), said("cgroup.procs"), said("cgroup.kill")),
            ("7".into(), "150000 100000".into(), "42".into(), "1".into())
        );
        for (file, text) in [
            ("memory.current", "10\n"),
            ("memory.peak", "20\n"),
            ("cpu.stat", "usage_usec 30\nuser_usec 1\n"),
            ("pids.current", "4\n"),
            ("memory.events", "low 0\noom 9\noom_kill 2\n"),
            ("pids.events", "max 3\n"),
        ] {
            fs::write(group.join(file), text).unwrap();
        }
        assert_eq!(made.usage().unwrap(), GroupUsage { memory_bytes: 10, peak_memory_bytes: 20, cpu_microseconds: 30, pids: 4 });
        assert_eq!(made.events().unwrap(), Events { oom_kills: 2, pids_hits: 3 });
        assert_eq!(available.leftovers().unwrap(), ["one"]);
    }

    fn shell(group: &Group, script: &str) -> Child {
        // Waits for a line before it begins, so that it is in the group by then.
        let mut child =
            Command::new("sh").args(["-c", &format!("read line; {script}")]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        group.attach(i32::try_from(child.id()).unwrap()).unwrap();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"go\n").unwrap();
        child
    }

    /// A name that no other run of the tests uses.
    fn name(what: &str) -> String {
        format!("test-{what}-{}", std::process::id())
    }

    #[test]
    fn bounds_hold_on_this_host() {
        let available = Availability::probe();
        for (what, support) in [("memory", &available.memory), ("pids", &available.pids), ("cpu", &available.cpu)] {
            if let Support::Unavailable(why) = support {
                println!("not run: bounds of {what}: {why}");
                let limits = Limits { memory_bytes: Some(1), pids: Some(1), cpus: Some(1.0) };
                assert!(matches!(Group::create(&available, "refused", limits), Err(Error::Unavailable { .. })));
                return;
            }
        }
        available.prepare().unwrap();
        let limits = Limits { memory_bytes: Some(32 << 20), pids: Some(10), cpus: Some(0.2) };
        let group = Group::create(&available, &name("bounds"), limits).unwrap();
        let hog = shell(&group, "python3 -c 'x = b\"x\" * 200000000'; exit 3").wait().unwrap();
        assert_eq!(hog.code(), Some(3), "the hog alone was ended");
        assert!(group.events().unwrap().oom_kills >= 1);
        let forks = shell(&group, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 0.3 & done; wait").wait().unwrap();
        assert!(!forks.success());
        assert!(group.events().unwrap().pids_hits >= 1);
        group.kill().unwrap();
        // They count until somebody has buried them.
        let until = Instant::now() + Duration::from_secs(10);
        while group.usage().unwrap().pids > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let before = (Instant::now(), group.usage().unwrap().cpu_microseconds);
        shell(&group, "timeout 1 sh -c 'while :; do :; done'").wait().unwrap();
        let used = group.usage().unwrap().cpu_microseconds - before.1;
        let share = used as f64 / before.0.elapsed().as_micros() as f64;
        assert!(share > 0.05 && share < 0.35, "{share}");
        let usage = group.usage().unwrap();
        assert!(usage.peak_memory_bytes > 1 << 20 && usage.peak_memory_bytes <= 32 << 20, "{usage:?}");
        group.kill().unwrap();
        group.remove().unwrap();
        assert!(!available.leftovers().unwrap().contains(&name("bounds")));
    }

    #[test]
    fn everything_in_a_group_is_ended_from_outside() {
        let available = Availability::probe();
        let mut layouts = vec![available.layout.clone()];
        // The way of the unified hierarchy works without controllers too.
        let unified_root = Path::new("/sys/fs/cgroup/unified");
        if unified_root.join("cgroup.procs").exists() && rustix::process::geteuid().is_root() {
            layouts.push(Layout::Unified(unified_root.to_owned()));
        }
        for layout in layouts {
            if layout == Layout::None {
                println!("not run: no groups can be made here");
                continue;
            }
            let group = Group { name: name("kill"), layout, memory_bytes: None };
            group.make().unwrap();
            let mut child = shell(
                &group,
                "trap '' TERM HUP INT; for i in 1 2 3 4 5; do setsid sh -c 'trap \"\" TERM; sleep 100; sleep 100' & done; kill -STOP $$",
            );
            let until = Instant::now() + Duration::from_secs(5);
            let procs = group.directories()[0].join("cgroup.procs");
            while fs::read_to_string(&procs).unwrap().lines().count() < 6 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            group.kill().unwrap();
            assert!(!child.wait().unwrap().success());
            group.remove().unwrap();
            assert!(!procs.exists());
        }
    }
}
