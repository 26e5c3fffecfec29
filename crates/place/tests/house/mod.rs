//! What the tests of this crate share.

#![allow(dead_code, reason = "not every test uses everything")]

pub mod said;

use std::path::{Path, PathBuf};

use stead_domain::Context;
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::process::{OutputStream, ProcessLimits};
use stead_place::Directories;
use stead_place::blueprint::{Blueprint, Limits, Network, Workspace, WorkspaceKind};
use stead_place::client::{Spawner, Stewards};
use stead_place::log::Piece;
use stead_place::protocol::{PROTOCOL, Progress, Start};
use tempfile::TempDir;

/// A data directory with everything that stewards need, and a way to speak to them.
pub struct House {
    _directory: TempDir,
    pub data: PathBuf,
    pub stewards: Stewards,
    pub context: Context,
}

impl House {
    pub fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("data");
        std::fs::create_dir_all(data.join("workspace")).unwrap();
        let stewards = stewards(&data);
        // Ids of its own: groups of processes are called by them, and other tests run at the same time.
        Self { _directory: directory, data, stewards, context: stead_testing::context(u64::from(std::process::id())).0 }
    }

    pub fn blueprint(&self, environment: EnvironmentId) -> Blueprint {
        let directories = Directories::below(&self.data);
        Blueprint {
            environment,
            spec_version: 1,
            run: directories.run(environment),
            logs: directories.logs(environment),
            fence: self.data.join("fence"),
            skeleton: self.data.join("skeleton"),
            hostname: "test".to_owned(),
            workspace: Workspace {
                path: "/workspace".into(),
                source: self.data.join("workspace"),
                access: WorkspaceKind::ReadWrite,
                below: Vec::new(),
            },
            binds: Vec::new(),
            protected: Vec::new(),
            hidden: Vec::new(),
            network: Network::Disabled,
            limits: Limits::default(),
            counted: vec![self.data.join("workspace")],
            quota: None,
            system: None,
            system_below: Vec::new(),
            image: None,
            identity: None,
            trusted: None,
            allow_ptrace: false,
            env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            idle_milliseconds: 60_000,
        }
    }

    pub fn start(&self, script: &str) -> Start {
        Start {
            process: ProcessId::new(&self.context),
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            cwd: None,
            env: Vec::new(),
            stdin_open: false,
            terminal: None,
            timeout_milliseconds: None,
            limits: ProcessLimits::default(),
            warrant: None,
            hold: false,
            log_bytes: None,
            secrets: None,
        }
    }

    pub async fn until_over(&self, environment: EnvironmentId, process: ProcessId) -> Progress {
        until_over(&self.stewards, environment, process).await
    }

    pub async fn text(&self, environment: EnvironmentId, process: ProcessId, stream: Option<OutputStream>) -> String {
        let found = self.stewards.read(environment, process, 0, None, stream, 1 << 24).await.unwrap().unwrap();
        let pieces = found.pieces.into_iter().map(|piece| match piece {
            Piece::Bytes { bytes, .. } => bytes,
            Piece::Gap { from, to } => format!("[{from}-{to}]").into_bytes(),
        });
        String::from_utf8(pieces.collect::<Vec<_>>().concat()).unwrap()
    }
}

pub fn stewards(data: &Path) -> Stewards {
    stewards_speaking(data, PROTOCOL)
}

/// A server whose stewards are of another version.
pub fn stewards_speaking(data: &Path, protocol: u32) -> Stewards {
    let arguments = vec![data.join("skeleton").into(), protocol.to_string().into()];
    Stewards::new(Directories::below(data), Spawner::new(env!("CARGO_BIN_EXE_stead-spawner").into(), arguments))
}

pub async fn until_over(stewards: &Stewards, environment: EnvironmentId, process: ProcessId) -> Progress {
    let mut seen = stewards.progress(environment, process).await.unwrap().unwrap();
    while seen.exit.is_none() {
        seen = stewards.further(environment, process, &seen).await.unwrap().unwrap();
    }
    seen
}
