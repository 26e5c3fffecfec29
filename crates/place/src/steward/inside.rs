//! What the steward keeps: the place itself, made from its blueprint.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use stead_sandbox::{Access, Bind, Event, Network, Place, Plan, Skeleton};

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
    let mut binds: Vec<Bind> = Vec::new();
    let workspace = &blueprint.workspace;
    let access = match &workspace.access {
        WorkspaceKind::None => None,
        WorkspaceKind::ReadOnly => Some(Access::ReadOnly),
        WorkspaceKind::ReadWrite | WorkspaceKind::CopyOnWrite { .. } => Some(Access::ReadWrite),
    };
    if let Some(access) = access {
        binds.push(Bind { source: workspace.source.clone(), target: workspace.path.clone(), access });
    }
    for bind in &blueprint.binds {
        let access = if bind.writable { Access::ReadWrite } else { Access::ReadOnly };
        binds.push(Bind { source: bind.source.clone(), target: bind.path.clone(), access });
    }
    let network = match blueprint.network {
        blueprint::Network::Disabled => Network::None,
        blueprint::Network::Host => Network::Host,
    };
    let directory = if access.is_some() { workspace.path.clone() } else { PathBuf::from("/tmp") };
    Ok(Plan { skeleton, hostname: blueprint.hostname.clone(), binds, network, directory })
}
