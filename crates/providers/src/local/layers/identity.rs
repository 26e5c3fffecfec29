//! What a system knows itself by does not come along to a fork: a whiteout in the fork's own layer hides it, and the system makes another.

use std::fs::{self, Metadata};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::PARTS;

/// By part of the host's system, and with the part's own name before it in an image.
const KNOWN_BY: &[(&str, &str)] =
    &[("etc", "machine-id"), ("var", "lib/dbus/machine-id"), ("var", "lib/systemd/random-seed"), ("var", "lib/systemd/credential.secret")];

/// Hides it in `upper`, a layer that nothing was written to yet, wherever one of the layers below has it.
pub fn forget(upper: &Path, below: &[PathBuf]) -> Result<()> {
    for layer in below {
        for part in parts(&layer.join(PARTS[1]))? {
            for (of, path) in KNOWN_BY {
                let path = match part.to_str() {
                    Some(name) if name == *of => PathBuf::from(path),
                    Some(name) if name.starts_with("image") => Path::new(of).join(path),
                    _ => continue,
                };
                let (from, to) = (layer.join(PARTS[1]).join(&part).join("upper"), upper.join(PARTS[1]).join(&part).join("upper"));
                hide(&from, &to, &path)?;
            }
        }
    }
    Ok(())
}

/// Whether that is what a file in a part of a layer is.
pub fn is_identity(part: &Path, path: &[u8]) -> bool {
    let Some(name) = part.strip_prefix(PARTS[1]).ok().and_then(|rest| rest.iter().next()).and_then(|name| name.to_str()) else {
        return false;
    };
    KNOWN_BY.iter().any(|(of, known)| match name {
        name if name == *of => known.as_bytes() == path,
        name if name.starts_with("image") => Path::new(of).join(known).as_os_str().as_encoded_bytes() == path,
        _ => false,
    })
}

fn parts(system: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(system) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| PathBuf::from(entry.file_name()))).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Nothing in a sealed layer changes, and nothing is in the way of the new one; only links must not be followed.
fn hide(from: &Path, to: &Path, path: &Path) -> Result<()> {
    let Some(steps) = directories(from, path)? else { return Ok(()) };
    if !to.is_dir() {
        fs::create_dir_all(to)?;
        take_after(to, &fs::symlink_metadata(from)?)?;
    }
    let mut made = to.to_owned();
    for (name, metadata) in steps {
        made.push(name);
        match fs::create_dir(&made) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            outcome => outcome?,
        }
        take_after(&made, &metadata)?;
    }
    match mknodat(CWD, to.join(path), FileType::CharacterDevice, Mode::empty(), 0) {
        Err(rustix::io::Errno::EXIST) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Of directories that are seen merged the uppermost one's owner and mode count.
fn take_after(made: &Path, metadata: &Metadata) -> Result<()> {
    fs::set_permissions(made, fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
    chown(made, Some(metadata.uid()), Some(metadata.gid()))
}

/// The directories that a file lies in, with what they are; none when it is not there.
fn directories(from: &Path, path: &Path) -> Result<Option<Vec<(PathBuf, Metadata)>>> {
    let (mut at, mut steps) = (from.to_owned(), Vec::new());
    let names: Vec<PathBuf> = path.iter().map(PathBuf::from).collect();
    for (index, name) in names.iter().enumerate() {
        at.push(name);
        let metadata = match fs::symlink_metadata(&at) {
            Ok(metadata) => metadata,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(error),
        };
        if index + 1 == names.len() {
            return Ok(Some(steps));
        }
        if !metadata.is_dir() {
            return Ok(None);
        }
        steps.push((name.clone(), metadata));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt;

    use super::*;

    #[test]
    fn what_a_system_knows_itself_by_is_hidden_where_it_is() {
        let directory = tempfile::TempDir::new().unwrap();
        let (layer, upper) = (directory.path().join("layer"), directory.path().join("upper"));
        let write = |path: &str| {
            let path = layer.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "first").unwrap();
        };
        write("system/etc/upper/machine-id");
        write("system/image-aa/upper/var/lib/systemd/random-seed");
        write("system/usr/upper/machine-id");
        fs::set_permissions(layer.join("system/image-aa/upper/var/lib"), fs::Permissions::from_mode(0o711)).unwrap();
        fs::create_dir(&upper).unwrap();
        for _ in 0..2 {
            forget(&upper, std::slice::from_ref(&layer)).unwrap();
        }
        let is_hidden = |path: &str| {
            fs::symlink_metadata(upper.join("system").join(path))
                .is_ok_and(|metadata| metadata.file_type().is_char_device() && metadata.rdev() == 0)
        };
        assert!(is_hidden("etc/upper/machine-id") && is_hidden("image-aa/upper/var/lib/systemd/random-seed"));
        assert!(!upper.join("system/usr").exists() && !upper.join("system/var").exists());
        assert_eq!(fs::metadata(upper.join("system/image-aa/upper/var/lib")).unwrap().mode() & 0o777, 0o711);
        assert_eq!(fs::read_to_string(layer.join("system/etc/upper/machine-id")).unwrap(), "first");
    }
}
