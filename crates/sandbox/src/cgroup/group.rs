//! One group: made with its bounds, looked at, ended, removed.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::files::{field, make_directory, write};
use super::{Availability, Events, GroupUsage, Layout, Limits, PREFIX, Support, v1, v2};
use crate::error::{Error, Result, Step};

/// One group, known by name. It stays when this value goes.
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) name: String,
    pub(super) layout: Layout,
    pub(super) memory_bytes: Option<u64>,
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

    pub(super) fn make(&self) -> Result<()> {
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
        match &self.layout {
            Layout::Unified(_) => v2::bound(self, limits)?,
            Layout::Separate(_) => v1::bound(self, limits)?,
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
        match &self.layout {
            Layout::Unified(_) => v2::usage(self),
            Layout::Separate(_) => v1::usage(self),
            Layout::None => Ok(GroupUsage::default()),
        }
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
            Layout::Separate(_) => v1::kill(self),
            Layout::None => Ok(()),
        }
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
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let mut directories: Vec<PathBuf> = self.layout.parents().iter().map(|parent| parent.join(&self.name)).collect();
        directories.sort();
        directories.dedup();
        directories
    }

    pub(super) fn directory(&self, controller: &str) -> Option<PathBuf> {
        let parent = match &self.layout {
            Layout::Unified(base) => Some(base.join(PREFIX)),
            Layout::Separate(hierarchies) => hierarchies.iter().find(|(name, _)| *name == controller).map(|(_, root)| root.join(PREFIX)),
            Layout::None => None,
        };
        parent.map(|parent| parent.join(&self.name))
    }

    pub(super) fn set(&self, controller: &str, file: &str, value: &str) -> Result<()> {
        match self.directory(controller) {
            Some(directory) => write(&directory.join(file), value),
            None => Err(Error::Outside { step: format!("set {file}"), cause: io::ErrorKind::NotFound.into() }),
        }
    }

    pub(super) fn set_if_there(&self, controller: &str, file: &str, value: &str) -> Result<()> {
        match self.directory(controller).map(|directory| directory.join(file)) {
            Some(path) if path.exists() => write(&path, value),
            _ => Ok(()),
        }
    }

    /// What a file says; nothing where the controller is not there.
    pub(super) fn get(&self, controller: &str, file: &str) -> Result<String> {
        let Some(path) = self.directory(controller).map(|directory| directory.join(file)) else { return Ok(String::new()) };
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            outcome => outcome.step(format!("read {}", path.display())),
        }
    }
}

/// A name is one step of a path and nothing else.
pub(super) fn check(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(Error::Outside { step: format!("name a group `{name}`"), cause: io::ErrorKind::InvalidInput.into() });
    }
    Ok(())
}
