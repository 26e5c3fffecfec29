//! Roles of this program that no person calls: what a server starts beside itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stead_place::client::Spawner;
use stead_place::protocol::PROTOCOL;
use stead_providers::local::{self, Relay, Roles};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{git_credential, host, world};

/// The word that makes this program a spawner.
const SPAWNER: &str = "spawner";
/// The word that makes it a relay.
const RELAY: &str = "relay";

/// Has stewards speak another version of the protocol, for tests of what an upgrade finds.
const OTHER_PROTOCOL: &str = "STEAD_PLACE_PROTOCOL";

/// Runs the role that the first argument names, if it names one.
pub fn run() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    if git_credential::is_meant(Path::new(&arguments.next()?)) {
        return Some(git_credential::run(arguments.next().as_deref().and_then(|operation| operation.to_str())));
    }
    let role = arguments.next()?;
    let mut path = || arguments.next().map(PathBuf::from);
    let done = match role.to_str()? {
        SPAWNER => {
            let (skeleton, protocol) = (path()?, arguments.next());
            stead_place::spawner::run(&skeleton, protocol.and_then(|text| text.to_str()?.parse().ok()).unwrap_or(PROTOCOL)).is_ok()
        }
        RELAY => relay(path()?, path()?, path()),
        host::ROLE => host::print(&path()?),
        _ => return None,
    };
    Some(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Relays what leaves the environments of this host, until it is told to end.
fn relay(directory: PathBuf, journal: PathBuf, roots: Option<PathBuf>) -> bool {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() else { return false };
    runtime.block_on(async {
        let stop = CancellationToken::new();
        let Ok(mut asked) = signal(SignalKind::terminate()) else { return false };
        let options = stead_egress::Options { roots, ..stead_egress::Options::new(directory, journal) };
        let ended = stead_egress::run(options, world::context(), stop.clone());
        tokio::pin!(ended);
        tokio::select! {
            ended = &mut ended => return ended.is_ok(),
            _ = asked.recv() => stop.cancel(),
        }
        ended.await.is_ok()
    })
}

/// How a server starts what runs beside it: this very program, also when its file has been replaced since.
pub fn beside(data_dir: &Path, reachable: Vec<String>, roots: Option<PathBuf>, log_bytes: u64) -> Roles {
    let program = || PathBuf::from("/proc/self/exe");
    let directory = data_dir.join("relay");
    let mut spawner = vec![OsString::from(SPAWNER), local::skeleton(data_dir).into()];
    spawner.extend(std::env::var_os(OTHER_PROTOCOL));
    let mut relay = vec![OsString::from(RELAY), directory.clone().into(), data_dir.join("egress").into()];
    // It runs elsewhere than where the server was started.
    relay.extend(roots.map(|path| std::path::absolute(&path).unwrap_or(path).into()));
    Roles { spawner: Spawner::new(program(), spawner), relay: Relay::new(directory, program(), relay), reachable, log_bytes }
}
