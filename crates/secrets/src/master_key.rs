//! The key that seals everything else: 256 random bits in a file that only its owner may read, made at the first start.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use stead_domain::Context;

#[derive(Debug, thiserror::Error)]
pub enum MasterKeyError {
    #[error("the master key {path} cannot be read or written: {cause}")]
    File { path: PathBuf, cause: std::io::Error },
    #[error("the master key {0} may be read by others: its mode must be 0600 (`chmod 600` it)")]
    Exposed(PathBuf),
    #[error("the master key {0} is not 64 hexadecimal digits; put back the file that this data directory was made with")]
    Malformed(PathBuf),
}

pub struct MasterKey(pub(crate) [u8; 32]);

impl MasterKey {
    /// Reads the key, or makes one where there is none. Whole or not at all: a key that is cut off would be lost for good.
    pub fn load_or_create(path: &Path, context: &Context) -> Result<Self, MasterKeyError> {
        if path.exists() {
            return Self::load(path);
        }
        let failed = |cause| MasterKeyError::File { path: path.to_owned(), cause };
        let unfinished = path.with_extension("new");
        // Left over from a start that was cut off before the rename: nothing was sealed with it.
        let _ = fs::remove_file(&unfinished);
        let bytes: [u8; 32] = context.random();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&unfinished, path).map_err(failed)?;
        sync_parent(path).map_err(failed)?;
        Ok(Self(bytes))
    }

    fn load(path: &Path) -> Result<Self, MasterKeyError> {
        let failed = |cause| MasterKeyError::File { path: path.to_owned(), cause };
        let file = fs::File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
            return Err(MasterKeyError::Exposed(path.to_owned()));
        }
        let mut text = String::new();
        file.take(256).read_to_string(&mut text).map_err(failed)?;
        let malformed = || MasterKeyError::Malformed(path.to_owned());
        let text = text.trim();
        if text.len() != 64 {
            return Err(malformed());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let pair = text.get(at * 2..at * 2 + 2).ok_or_else(malformed)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| malformed())?;
        }
        Ok(Self(bytes))
    }
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MasterKey")
    }
}

fn sync_parent(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(parent) => fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_key_is_made_once_and_only_its_owner_reads_it() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("master.key");
        let (context, _) = stead_testing::context(7);
        let first = MasterKey::load_or_create(&path, &context).unwrap();
        assert_eq!(MasterKey::load_or_create(&path, &context).unwrap().0, first.0);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(MasterKey::load_or_create(&path, &context), Err(MasterKeyError::Exposed(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(matches!(MasterKey::load_or_create(&path, &context), Err(MasterKeyError::Malformed(_))));
    }

    #[test]
    fn a_start_that_was_cut_off_leaves_no_trap() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("master.key");
        fs::write(path.with_extension("new"), "half").unwrap();
        let (context, _) = stead_testing::context(7);
        MasterKey::load_or_create(&path, &context).unwrap();
        assert!(!path.with_extension("new").exists());
    }
}
