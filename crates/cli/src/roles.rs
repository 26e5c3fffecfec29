//! Roles of this program that no person calls: what a server starts beside itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stead_place::client::Spawner;
use stead_providers::local::{self, Abilities};
use stead_sandbox::cgroup::{Availability, Support};

/// The word that makes this program a spawner.
const SPAWNER: &str = "spawner";

/// Runs the role that the first argument names, if it names one.
pub fn run() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != SPAWNER {
        return None;
    }
    let skeleton = PathBuf::from(arguments.next()?);
    let ended = stead_place::spawner::run(&skeleton);
    Some(if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How a server starts its spawner: this very program, also when its file has been replaced since.
pub fn spawner(data_dir: &Path) -> Spawner {
    Spawner::new("/proc/self/exe".into(), vec![OsString::from(SPAWNER), local::skeleton(data_dir).into()])
}

/// What this host can hold a place to.
pub fn abilities() -> Abilities {
    let available = Availability::probe();
    let obstacle = |support: Support| match support {
        Support::Enforced => None,
        Support::Unavailable(why) => Some(why),
    };
    Abilities { places: None, memory: obstacle(available.memory), pids: obstacle(available.pids), cpus: obstacle(available.cpu) }
}
