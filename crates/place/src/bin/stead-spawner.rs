//! The spawner by itself, for tests of this crate and for whoever uses it without the rest of Stead: `stead-spawner SKELETON`.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let skeleton = std::env::args_os().nth(1).map(PathBuf::from);
    stead_place::spawner::run(&skeleton.ok_or(std::io::ErrorKind::InvalidInput)?)
}
