//! What the steward keeps: the place itself, made from its blueprint.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use stead_egress::policy::{Access, Policy, PolicyText};
use stead_sandbox::cgroup::{Availability, Freezer, Group, Limits};
use stead_sandbox::{Bind, Event, Network, Outlet, Outlets, Overlay, Place, Plan, RootView, Skeleton};

use super::errands::UnderWay;
use super::trust;
use crate::blueprint::{self, Blueprint, PROXY_PORT, WorkspaceKind};
use crate::protocol::Refusal;

/// Larger ones mean fewer of them; nothing but the relay ever sees one.
const LARGEST_PACKET: u16 = 9000;

pub struct Inside {
    /// None once it has ended.
    place: Option<Place>,
    /// Where its limits are kept, if it has any.
    group: Option<Group>,
    /// What has it stand still, once that was asked for.
    freezer: Option<Freezer>,
    /// Init, as the host calls it.
    pid: i32,
    /// Held for as long as its root is in use.
    _image: Option<OwnedFd>,
    /// The layers that it alone may write to, locked.
    written: Vec<OwnedFd>,
    /// Where it has layers, what is mounted stays so until the last moment: to let go of it waits for the disk, and nobody is to wait for that.
    _mounts: Option<OwnedFd>,
}

impl Inside {
    /// Makes the place, or says what this host could not do. Meanwhile the caller does something besides.
    pub fn make_while<T>(blueprint: &Blueprint, meanwhile: impl FnOnce() -> T) -> Result<(Self, T), Refusal> {
        let image = blueprint.image.as_ref().filter(|image| image.locked).map(lock).transpose().map_err(cannot)?;
        let written = layers(blueprint).map(lock_layer).collect::<Result<Vec<_>, _>>()?;
        let group = group(blueprint).map_err(|error| cannot(error.to_string()))?;
        let made = plan(blueprint).and_then(|mut plan| {
            plan.group.clone_from(&group);
            Place::start_while(&plan, meanwhile).map_err(|error| error.to_string())
        });
        match made {
            Ok((place, done)) => {
                let mounts = place.hold_mounts();
                Ok((Self { pid: place.pid(), place: Some(place), group, freezer: None, _image: image, written, _mounts: mounts }, done))
            }
            Err(error) => {
                let _ = group.map_or(Ok(()), |group| group.remove());
                Err(cannot(error))
            }
        }
    }

    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.place.as_ref().map(Place::socket)
    }

    pub fn place(&mut self) -> io::Result<&mut Place> {
        self.place.as_mut().ok_or_else(|| io::Error::other("everything inside has ended"))
    }

    /// The ways out of its network, for the relay.
    pub fn outlets(&self) -> &[(Outlet, OwnedFd)] {
        self.place.as_ref().map_or(&[], Place::outlets)
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn user_namespace(&self) -> Option<BorrowedFd<'_>> {
        self.place.as_ref().and_then(Place::user_namespace)
    }

    /// What init says next; none for now. An error when it is gone.
    pub fn receive(&mut self) -> Result<Option<Event>, stead_sandbox::Error> {
        self.place.as_mut().map_or(Ok(None), Place::receive)
    }

    /// Ends everything inside, whatever it is doing, and waits until it is gone.
    pub fn end(&mut self) {
        if let Some(place) = self.place.take() {
            // Who stands still does not hear that it is over, and is not to go on before it does.
            let _ = self.freezer.as_ref().map_or(Ok(()), Freezer::kill);
            place.end();
        }
    }

    /// What has everything inside stand still: the group that it is in, or one that is made for it now.
    pub fn freezer(&mut self, blueprint: &Blueprint) -> Result<&Freezer, stead_sandbox::Error> {
        let made = match (self.freezer.take(), &self.group) {
            (Some(freezer), _) => freezer,
            (None, Some(group)) => Freezer::of(group)?,
            (None, None) => Freezer::create(&Availability::probe(), &blueprint.environment.short())?,
        };
        Ok(self.freezer.insert(made))
    }

    /// Whether nobody inside moves.
    pub fn is_still(&self) -> Result<bool, stead_sandbox::Error> {
        self.freezer.as_ref().map_or(Ok(false), |freezer| freezer.is_still(self.pid))
    }

    pub fn go_on(&self) -> Result<(), stead_sandbox::Error> {
        self.freezer.as_ref().map_or(Ok(()), Freezer::thaw)
    }

    pub fn is_over(&self) -> bool {
        self.place.is_none()
    }

    /// How often its limits were hit so far.
    pub fn events(&self) -> Events {
        let events = self.group.as_ref().and_then(|group| group.events().ok()).unwrap_or_default();
        Events { out_of_memory: events.oom_kills, out_of_processes: events.pids_hits }
    }

    /// What everything inside uses now.
    pub fn usage(&self) -> Usage {
        if let Some(usage) = self.group.as_ref().and_then(|group| group.usage().ok()) {
            return Usage { cpu_milliseconds: usage.cpu_microseconds / 1000, memory_bytes: usage.memory_bytes };
        }
        let all = family(self.pid);
        all.into_iter().fold(Usage::default(), |sum, (cpu_milliseconds, memory_bytes)| Usage {
            cpu_milliseconds: sum.cpu_milliseconds + cpu_milliseconds,
            memory_bytes: sum.memory_bytes + memory_bytes,
        })
    }

    /// Whether something still runs beside init.
    pub fn has_strays(&self) -> bool {
        self.place.is_some() && children(self.pid).next().is_some()
    }

    /// Whether nobody is there beside init. The kernel lists somebody at every moment where somebody is; where it does not say, somebody may be.
    pub fn is_surely_empty(&self) -> bool {
        self.place.is_none() || list_children(self.pid).is_ok_and(|list| list.is_empty())
    }

    /// How many there are beside the processes that were asked for and that may change something: what commands left behind when they ended, each
    /// with whatever it started, and errands that do not only read. A program may call itself one, but there are not more than were handed in.
    pub fn strays(&self, asked_for: usize, errands: UnderWay) -> u64 {
        let is_errand = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).next() == Some(stead_sandbox::ERRAND_NAME)
        };
        let all: Vec<i32> = if self.place.is_some() { children(self.pid).collect() } else { Vec::new() };
        let called_errands = all.iter().filter(|pid| is_errand(pid)).count();
        let programs = (all.len() - called_errands).saturating_sub(asked_for);
        let posing = called_errands.saturating_sub(errands.reading + errands.changing);
        (programs + posing + errands.changing) as u64
    }

    /// Removes what is left on the host when everything inside has ended.
    pub fn clean_up(&mut self) {
        // By a word of its own: other processes may have copies of the descriptors for a moment longer.
        for layer in self.written.drain(..) {
            let _ = flock(&layer, FlockOperation::Unlock);
        }
        if let Some(freezer) = self.freezer.take() {
            let _ = freezer.kill().and_then(|()| freezer.remove());
        }
        if let Some(group) = self.group.take() {
            let _ = group.kill().and_then(|()| group.remove());
        }
    }
}

fn cannot(message: String) -> Refusal {
    // Init says what failed in words. That the disk is full is nothing that this host could not do.
    if message.contains("No space left on device") {
        return Refusal::StorageFull { message };
    }
    Refusal::CannotBeMade { message }
}

/// The layers that an overlay writes to.
fn layers(blueprint: &Blueprint) -> impl Iterator<Item = &Path> {
    let workspace = match &blueprint.workspace.access {
        WorkspaceKind::CopyOnWrite { layer } => Some(layer.as_path()),
        WorkspaceKind::None => None,
        _ => Some(blueprint.workspace.source.as_path()).filter(|_| !blueprint.workspace.below.is_empty()),
    };
    workspace.into_iter().chain(blueprint.system.as_deref())
}

/// The kernel leaves open what happens when two mounts write to one layer.
fn lock_layer(layer: &Path) -> Result<OwnedFd, Refusal> {
    let failed = |error: io::Error| cannot(format!("make ready the layer {}: {error}", layer.display()));
    fs::create_dir_all(layer).map_err(failed)?;
    let held = OwnedFd::from(fs::File::open(layer).map_err(failed)?);
    match flock(&held, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(held),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Refusal::LayersInUse),
        Err(error) => Err(failed(error.into())),
    }
}

/// Holds an unpacked image against being removed, or says that it is.
fn lock(image: &blueprint::Image) -> Result<OwnedFd, String> {
    let gone = |error: io::Error| format!("the image was removed a moment ago ({error}); try again");
    let held = OwnedFd::from(fs::File::open(&image.root).map_err(gone)?);
    flock(&held, FlockOperation::NonBlockingLockShared).map_err(|error| gone(error.into()))?;
    // Whoever moved it away before it was held has let go of it by now.
    if image.root.is_dir() { Ok(held) } else { Err(gone(io::ErrorKind::NotFound.into())) }
}

/// The group that keeps the limits of a place; none when there are none to keep.
fn group(blueprint: &Blueprint) -> stead_sandbox::Result<Option<Group>> {
    let limits = &blueprint.limits;
    let limits = Limits { memory_bytes: limits.memory_bytes, pids: limits.pids, cpus: limits.cpus };
    if limits == Limits::default() {
        return Ok(None);
    }
    Group::create(&Availability::probe(), &blueprint.environment.short(), limits).map(Some)
}

/// Ends what a steward left that was killed, and removes the group that it is in.
pub fn clear_left(blueprint: &Blueprint) {
    clear_group(&Availability::probe(), &blueprint.environment.short());
}

pub fn clear_group(available: &Availability, name: &str) {
    if let Ok(Some(group)) = Group::open(available, name) {
        // Its init ends by itself a moment after its keeper; whatever is slower is helped.
        let _ = group.kill().and_then(|()| group.remove());
    }
}

/// Processes that this one is the parent of, as the kernel lists them.
fn children(pid: i32) -> impl Iterator<Item = i32> {
    list_children(pid).unwrap_or_default().into_iter()
}

fn list_children(pid: i32) -> io::Result<Vec<i32>> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    Ok(list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// Processor time and memory of a process and everything below it. Whoever comes or goes meanwhile may be missed.
fn family(pid: i32) -> Vec<(u64, u64)> {
    let (mut all, mut next) = (Vec::new(), vec![pid]);
    while let Some(pid) = next.pop() {
        all.extend(fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| usage_of(&stat)));
        next.extend(children(pid));
    }
    all
}

/// From the fields after the name, which may hold anything: times in ticks, and pages in memory.
fn usage_of(stat: &str) -> Option<(u64, u64)> {
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let tick = 1000 / rustix::param::clock_ticks_per_second().max(1);
    Some(((number(11)? + number(12)?) * tick, number(21)? * rustix::param::page_size() as u64))
}

#[derive(Clone, Copy, Default)]
pub struct Events {
    pub out_of_memory: u64,
    pub out_of_processes: u64,
}

#[derive(Clone, Copy, Default)]
pub struct Usage {
    pub cpu_milliseconds: u64,
    pub memory_bytes: u64,
}

fn plan(blueprint: &Blueprint) -> Result<Plan, String> {
    let skeleton = Skeleton::open(&blueprint.skeleton).ok_or("the prepared parts of the root are gone")?;
    let mut plan = Plan::new(skeleton);
    let workspace = &blueprint.workspace;
    plan.identity = blueprint.identity;
    plan.errands = Some(crate::errand::run);
    plan.allow_ptrace = blueprint.allow_ptrace;
    plan.secrets = Some(crate::secrets::DIRECTORY.into());
    plan.system = blueprint.system.is_some();
    plan.root = match (&blueprint.image, &blueprint.system) {
        (None, None) => RootView::Host,
        (None, Some(layers)) => RootView::HostCopy { layers: layers.clone(), below: blueprint.system_below.clone(), volatile: false },
        (Some(image), None) => RootView::Directory(image.root.clone()),
        (Some(image), Some(layers)) => {
            let below = blueprint.system_below.iter().map(|layer| layer.join("upper")).filter(|layer| layer.is_dir());
            let lower = below.chain([image.root.clone()]).collect();
            let overlay = layer_over(lower, layers).map_err(|error| format!("make the layer over the image: {error}"))?;
            for directory in [layers, &overlay.upper, &overlay.work] {
                // Seen by ids that do not own it; what holds all of it is closed to others.
                fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
            }
            RootView::Overlay(overlay)
        }
    };
    plan.hostname.clone_from(&blueprint.hostname);
    plan.directory.clone_from(&workspace.path);
    match &workspace.access {
        WorkspaceKind::None => plan.directory = PathBuf::from("/tmp"),
        WorkspaceKind::CopyOnWrite { layer } => {
            begin_upper(workspace).map_err(|error| format!("make ready the workspace: {error}"))?;
            let lower = std::iter::once(&workspace.source).chain(&workspace.below).cloned().collect();
            let overlay = layer_over(lower, layer).map_err(|error| format!("make the layer for what is changed: {error}"))?;
            plan.binds.push(Bind::overlay(overlay, &workspace.path));
        }
        access if !workspace.below.is_empty() => {
            let overlay = over_sealed(workspace).map_err(|error| format!("make ready the layer that is written to: {error}"))?;
            let made = if *access == WorkspaceKind::ReadOnly { Bind::overlay_read_only } else { Bind::overlay };
            plan.binds.push(made(overlay, workspace.path.clone()));
        }
        WorkspaceKind::ReadOnly => plan.binds.push(Bind::read_only(&workspace.source, &workspace.path)),
        WorkspaceKind::ReadWrite => plan.binds.push(Bind::read_write(&workspace.source, &workspace.path)),
    }
    for bind in &blueprint.binds {
        let made = if bind.writable { Bind::read_write } else { Bind::read_only };
        plan.binds.push(made(bind.source.clone(), bind.path.clone()));
    }
    plan.binds.extend(trust::binds(blueprint)?);
    plan.protected.clone_from(&blueprint.protected);
    plan.hidden.clone_from(&blueprint.hidden);
    plan.network = match &blueprint.network {
        blueprint::Network::Disabled => Network::None,
        blueprint::Network::Relayed { policy, .. } => Network::Own(outlets(policy)?),
    };
    Ok(plan)
}

fn outlets(policy: &PolicyText) -> Result<Outlets, String> {
    Ok(match policy.access {
        Access::Enabled => Outlets::Device { largest_packet: LARGEST_PACKET },
        Access::Allowlist => {
            let policy = Policy::parse(policy).map_err(|error| error.to_string())?;
            Outlets::Ports { ports: policy.ports().into_iter().filter(|port| *port != PROXY_PORT).collect(), proxy: PROXY_PORT }
        }
    })
}

/// The layer that takes what is written.
fn layer_over(lower: Vec<PathBuf>, layer: &Path) -> io::Result<Overlay> {
    let upper = layer.join("upper");
    fs::create_dir_all(&upper)?;
    Ok(Overlay { lower, upper, work: new_work(layer.join("work"))?, volatile: false })
}

/// A workspace whose files are partly sealed.
fn over_sealed(workspace: &blueprint::Workspace) -> io::Result<Overlay> {
    let upper = workspace.source.clone();
    let layer = upper.parent().ok_or(io::ErrorKind::InvalidInput)?;
    begin_upper(workspace)?;
    let work = new_work(layer.join("work"))?;
    Ok(Overlay { lower: workspace.below.clone(), upper, work, volatile: false })
}

/// The first time that something is seen over sealed layers, the workspace itself is as it was left in them.
fn begin_upper(workspace: &blueprint::Workspace) -> io::Result<()> {
    let Some(below) = workspace.below.first() else { return Ok(()) };
    fs::create_dir_all(&workspace.source)?;
    let mounted_before = workspace.source.parent().is_some_and(|layer| layer.join("work").exists());
    if !mounted_before && fs::read_dir(&workspace.source)?.next().is_none() {
        fs::set_permissions(&workspace.source, fs::metadata(below)?.permissions())?;
    }
    Ok(())
}

/// The kernel's own directory beside a layer is a new one for every mount.
fn new_work(work: PathBuf) -> io::Result<PathBuf> {
    if work.exists() {
        // Left with mode 000 by the kernel.
        let _ = fs::set_permissions(work.join("work"), fs::Permissions::from_mode(0o700));
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir(&work)?;
    Ok(work)
}
