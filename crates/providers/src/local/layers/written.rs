//! Whether something was written to a layer. One that was only mounted is as empty as before.

use std::fs;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Located, PARTS};
use crate::local::stack::attributes;
use crate::local::stack::parts;

/// What is new, changed or gone has a name in the layer. Of its uppermost directory owner, mode and attributes count as well.
pub fn is_written(layers: &Located) -> Result<bool> {
    for part in parts(&layers.upper)? {
        if fs::read_dir(layers.upper.join(&part))?.next().is_some() {
            return Ok(true);
        }
    }
    match layers.below.first() {
        Some(below) => differs(&layers.upper.join(PARTS[0]), &below.join(PARTS[0])),
        None => Ok(false),
    }
}

fn differs(upper: &Path, below: &Path) -> Result<bool> {
    let upper = match fs::File::open(upper) {
        // It is made when it is needed, as the one below.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        // Whoever shuts us out has changed it.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(true),
        outcome => outcome?,
    };
    let below = fs::File::open(below)?;
    let seen = |directory: &fs::File| directory.metadata().map(|metadata| (metadata.mode(), metadata.uid(), metadata.gid()));
    Ok(seen(&upper)? != seen(&below)? || attributes::own(&upper)? != attributes::own(&below)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{XattrFlags, setxattr};

    use super::*;

    #[test]
    fn what_was_only_mounted_is_not_written() {
        let directory = tempfile::TempDir::new().unwrap();
        let layers = Located { upper: directory.path().join("upper"), below: vec![directory.path().join("below")] };
        fs::create_dir_all(layers.below[0].join("workspace")).unwrap();
        assert!(!is_written(&layers).unwrap(), "it is not even there");
        let workspace = layers.upper.join("workspace");
        fs::create_dir_all(&workspace).unwrap();
        fs::create_dir_all(layers.upper.join("work/work")).unwrap();
        fs::create_dir_all(layers.upper.join("system/etc/upper")).unwrap();
        setxattr(&workspace, "user.overlay.impure", b"y", XattrFlags::empty()).unwrap();
        assert!(!is_written(&layers).unwrap());
        fs::write(layers.upper.join("system/etc/upper/file"), "").unwrap();
        assert!(is_written(&layers).unwrap());
        fs::remove_file(layers.upper.join("system/etc/upper/file")).unwrap();
        fs::set_permissions(&workspace, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(is_written(&layers).unwrap());
        fs::set_permissions(&workspace, fs::Permissions::from_mode(0o755)).unwrap();
        setxattr(&workspace, "user.colour", b"red", XattrFlags::empty()).unwrap();
        assert!(is_written(&layers).unwrap());
        setxattr(layers.below[0].join("workspace"), "user.colour", b"red", XattrFlags::empty()).unwrap();
        assert!(!is_written(&layers).unwrap());
    }
}
