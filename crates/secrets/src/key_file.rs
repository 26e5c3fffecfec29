//! Master keys in a file that only its owner may read. It is written whole or not at all: a key that is cut off would be lost for good.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::master_key::Keyring;
use crate::source::KeyError;

/// None when there is no such file.
pub fn load(path: &Path) -> Result<Option<Keyring>, KeyError> {
    let failed = |cause| KeyError::File { path: path.to_owned(), cause };
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        outcome => outcome.map_err(failed)?,
    };
    if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
        return Err(KeyError::Exposed(path.to_owned()));
    }
    let mut text = zeroize::Zeroizing::new(String::with_capacity(64 << 10));
    file.take(64 << 10).read_to_string(&mut text).map_err(failed)?;
    Keyring::parse(&text).map(Some).ok_or_else(|| KeyError::Malformed(path.to_owned()))
}

pub fn save(path: &Path, ring: &Keyring) -> Result<(), KeyError> {
    let failed = |cause| KeyError::File { path: path.to_owned(), cause };
    let unfinished = path.with_extension("new");
    // Left over from somebody who was cut off before the rename: nothing was sealed with it.
    let _ = fs::remove_file(&unfinished);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished).map_err(failed)?;
    file.write_all(zeroize::Zeroizing::new(ring.to_text()).as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&unfinished, path).map_err(failed)?;
    match path.parent() {
        Some(parent) => fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::master_key::MasterKey;

    #[test]
    fn only_its_owner_reads_it() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("master.key");
        assert!(load(&path).unwrap().is_none());
        fs::write(path.with_extension("new"), "half").unwrap();
        let ring = Keyring { active: MasterKey([1; 32]), older: vec![MasterKey([2; 32])] };
        save(&path, &ring).unwrap();
        assert!(!path.with_extension("new").exists());
        assert_eq!(load(&path).unwrap().unwrap().active, ring.active);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(load(&path), Err(KeyError::Exposed(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(matches!(load(&path), Err(KeyError::Malformed(_))));
    }
}
