//! The spawner by itself, for tests of this crate and for whoever uses it without the rest of Stead: `stead-spawner SKELETON [PROTOCOL]`.

use std::path::PathBuf;

use stead_place::protocol::PROTOCOL;

fn main() -> std::io::Result<()> {
    let skeleton = std::env::args_os().nth(1).map(PathBuf::from);
    let protocol = std::env::args().nth(2).and_then(|protocol| protocol.parse().ok()).unwrap_or(PROTOCOL);
    stead_place::spawner::run(&skeleton.ok_or(std::io::ErrorKind::InvalidInput)?, protocol)
}
