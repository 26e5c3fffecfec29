//! Where a host keeps what belongs to its awake environments, and the output of all.

use std::path::{Path, PathBuf};

use stead_domain::ids::EnvironmentId;

/// Two directories below the data directory: `run/<short id>` while an environment is awake, `logs/<id>` for as long as output is kept.
#[derive(Clone, Debug)]
pub struct Directories {
    run: PathBuf,
    logs: PathBuf,
}

impl Directories {
    pub fn below(data_dir: &Path) -> Self {
        Self { run: data_dir.join("run"), logs: data_dir.join("logs") }
    }

    pub fn run(&self, environment: EnvironmentId) -> PathBuf {
        self.run.join(environment.short())
    }

    pub fn logs(&self, environment: EnvironmentId) -> PathBuf {
        self.logs.join(environment.to_string())
    }

    pub fn all_runs(&self) -> &Path {
        &self.run
    }

    /// Whether there is a trace of any environment that is awake.
    pub fn anybody_is_awake(&self) -> bool {
        match std::fs::read_dir(&self.run) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }

    pub fn all_logs(&self) -> &Path {
        &self.logs
    }
}
