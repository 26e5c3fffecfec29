//! What the steward keeps: the place itself, made from its blueprint.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use stead_sandbox::{Bind, Event, Network, Overlay, Place, Plan, Skeleton};

use crate::blueprint::{self, Blueprint, WorkspaceKind};

pub struct Inside {
    /// None once it has ended.
    place: Option<Place>,
}

impl Inside {
    /// Makes the place, or says what this host could not do.
    pub fn make(blueprint: &Blueprint) -> Result<Self, String> {
        let place = Place::start(&plan(blueprint)?).map_err(|error| error.to_string())?;
        Ok(Self { place: Some(place) })
    }

    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.place.as_ref().map(Place::socket)
    }

    pub fn place(&mut self) -> io::Result<&mut Place> {
        self.place.as_mut().ok_or_else(|| io::Error::other("everything inside has ended"))
    }

    /// What init says next; none for now. An error when it is gone.
    pub fn receive(&mut self) -> Result<Option<Event>, stead_sandbox::Error> {
        self.place.as_mut().map_or(Ok(None), Place::receive)
    }

    /// Ends everything inside, whatever it is doing, and waits until it is gone.
    pub fn end(&mut self) {
        if let Some(place) = self.place.take() {
            place.end();
        }
    }

    pub fn is_over(&self) -> bool {
        self.place.is_none()
    }

    /// How often its limits were hit so far.
    pub fn events(&self) -> Events {
        Events::default()
    }

    pub fn usage(&self) -> Usage {
        Usage::default()
    }

    /// Whether something still runs that no process of ours is.
    pub fn has_strays(&self) -> bool {
        false
    }

    /// Removes what is left on the host when everything inside has ended.
    pub fn clean_up(&mut self) {}
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
    plan.hostname.clone_from(&blueprint.hostname);
    plan.directory.clone_from(&workspace.path);
    match &workspace.access {
        WorkspaceKind::None => plan.directory = PathBuf::from("/tmp"),
        WorkspaceKind::ReadOnly => plan.binds.push(Bind::read_only(&workspace.source, &workspace.path)),
        WorkspaceKind::ReadWrite => plan.binds.push(Bind::read_write(&workspace.source, &workspace.path)),
        WorkspaceKind::CopyOnWrite { layer } => {
            let overlay = layer_over(&workspace.source, layer).map_err(|error| format!("make the layer for what is changed: {error}"))?;
            plan.binds.push(Bind::overlay(overlay, &workspace.path));
        }
    }
    for bind in &blueprint.binds {
        let made = if bind.writable { Bind::read_write } else { Bind::read_only };
        plan.binds.push(made(bind.source.clone(), bind.path.clone()));
    }
    if !matches!(workspace.access, WorkspaceKind::None) {
        plan.protected.clone_from(&blueprint.protected);
        plan.hidden.clone_from(&blueprint.hidden);
    }
    plan.network = match blueprint.network {
        blueprint::Network::Disabled => Network::None,
        blueprint::Network::Host => Network::Host,
    };
    Ok(plan)
}

/// The layer that takes what is written; the kernel's own directory beside it is a new one for every mount.
fn layer_over(lower: &Path, layer: &Path) -> io::Result<Overlay> {
    let (upper, work) = (layer.join("upper"), layer.join("work"));
    fs::create_dir_all(&upper)?;
    if work.exists() {
        // Left with mode 000 by the kernel.
        let _ = fs::set_permissions(work.join("work"), fs::Permissions::from_mode(0o700));
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir(&work)?;
    Ok(Overlay { lower: vec![lower.to_owned()], upper, work, volatile: false })
}
