//! A layer's directory: `workspace`, and what was changed of a system in `system/…/upper`, each a stack of its own.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use stead_domain::changes::RelativePath;

use super::copy::copy;
use super::merge::{Below, merge};
use super::{Place, Result, Stack};

const WORKSPACE: &str = "workspace";
const SYSTEM: &str = "system";
const UPPER: &str = "upper";
/// Beside the parts for as long as they are copied.
const LINKS: &str = "links";
/// `system/<part>/upper`, or `system/image-<digest>/upper`; and one more level for a part of an image, if there ever is one.
const DEEPEST: usize = 2;

/// Which parts a layer has, from its directory on.
pub fn parts(layer: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    if is_directory(&layer.join(WORKSPACE))? {
        found.insert(PathBuf::from(WORKSPACE));
    }
    let mut ahead = vec![(PathBuf::from(SYSTEM), 0)];
    while let Some((path, depth)) = ahead.pop() {
        if !is_directory(&layer.join(&path))? {
            continue;
        }
        // Made by us: only what is in `upper` was shaped by others.
        if is_directory(&layer.join(&path).join(UPPER))? {
            found.insert(path.join(UPPER));
        } else if depth < DEEPEST {
            for entry in fs::read_dir(layer.join(&path))? {
                ahead.push((path.join(entry?.file_name()), depth + 1));
            }
        }
    }
    Ok(found)
}

/// Makes one layer of several, the topmost first. `below` says what lies below all of them, by part: nothing at all when it is empty, and
/// where it is not, something that is not ours and may change. False when it does not know it.
pub fn merge_layers(layers: &[PathBuf], below: &dyn Fn(&Path) -> Option<Stack>, into: &Path, stopped: &AtomicBool) -> Result<bool> {
    let top = RelativePath::default();
    let mut all = BTreeSet::new();
    for layer in layers {
        all.extend(parts(layer).at(&top)?);
    }
    for part in all {
        let Some(below) = below(&part) else { return Ok(false) };
        let stack = Stack::new(layers.iter().map(|layer| layer.join(&part)));
        let target = make_way(into, &part).at(&top)?;
        let below = if below.layers.is_empty() { Below::Nothing } else { Below::Layers(&below) };
        merge(&stack, below, &target, stopped).map_err(|trouble| trouble.in_part(&part))?;
    }
    Ok(true)
}

/// Makes a copy of one layer that shares its blocks.
pub fn copy_layer(layer: &Path, into: &Path, stopped: &AtomicBool) -> Result<()> {
    let top = RelativePath::default();
    for part in parts(layer).at(&top)? {
        let target = make_way(into, &part).at(&top)?;
        copy(&layer.join(&part), &target, &into.join(LINKS), stopped).map_err(|trouble| trouble.in_part(&part))?;
    }
    Ok(())
}

fn make_way(into: &Path, part: &Path) -> io::Result<PathBuf> {
    let target = into.join(part);
    if let Some(parent) = target.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    Ok(target)
}

/// Not a link to one.
fn is_directory(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error),
    }
}
