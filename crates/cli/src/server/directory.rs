//! The data directory: whose it is, that only one server uses it, and the small files in it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use stead_domain::ids::HostId;
use stead_domain::{Code, Context, Error, Result};

/// A data directory that this process holds alone, for as long as it has this.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    // The kernel lets go of the lock when the process ends, however it ends.
    _lock: File,
}

impl DataDirectory {
    /// Makes the directory if need be and takes its lock.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| cannot_write(path, &error);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let mut lock =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path.join("lock")).map_err(failed)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder);
                return Err(Error::new(Code::StoreInUse, format!("another server uses {} (process {})", path.display(), holder.trim()))
                    .suggestion("use that one (`stead status`), end it with `stead down`, or choose another --data-dir"));
            }
            Err(error) => return Err(failed(error.into())),
        }
        lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id())).map_err(failed)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Whether a server holds the directory at this moment.
    pub fn is_held(path: &Path) -> bool {
        let Ok(lock) = File::open(path.join("lock")) else { return false };
        matches!(rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared), Err(rustix::io::Errno::WOULDBLOCK))
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The id of this host, made at the first start. It belongs to the workspaces beside it.
    pub fn host_id(&self, context: &Context) -> Result<HostId> {
        let path = self.join("host.id");
        match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map_err(|error| {
                Error::new(Code::LocalFile, format!("{} does not hold a host id: {error}", path.display()))
                    .suggestion("put back the file that was there")
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let id = HostId::new(context);
                self.write("host.id", &id.to_string())?;
                Ok(id)
            }
            Err(error) => Err(cannot_write(&path, &error)),
        }
    }

    /// Writes a small file whole or not at all, readable by its owner only.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let (path, unfinished) = (self.join(name), self.join(&format!("{name}.new")));
        let write = || {
            let _ = fs::remove_file(&unfinished);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
            writeln!(file, "{text}")?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(|error| cannot_write(&path, &error))
    }

    pub fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.join(name));
    }
}

pub fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    let code = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem => Code::StorageFull,
        _ => Code::LocalFile,
    };
    Error::new(code, format!("{} cannot be used: {error}", path.display()))
        .suggestion("check that the directory is on a disk with space and that you may write there, or choose another --data-dir; `stead doctor` looks closer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_at_a_time() {
        let directory = tempfile::TempDir::new().unwrap();
        let first = DataDirectory::open(directory.path()).unwrap();
        let error = DataDirectory::open(directory.path()).unwrap_err();
        assert_eq!(error.code(), Code::StoreInUse);
        assert!(error.message().contains(&std::process::id().to_string()), "{error}");
        assert!(DataDirectory::is_held(directory.path()));
        drop(first);
        assert!(!DataDirectory::is_held(directory.path()));
        DataDirectory::open(directory.path()).unwrap();
    }

    #[test]
    fn the_host_keeps_its_id() {
        let directory = tempfile::TempDir::new().unwrap();
        let data = DataDirectory::open(directory.path()).unwrap();
        let context = crate::world::context();
        assert_eq!(data.host_id(&context).unwrap(), data.host_id(&context).unwrap());
        data.write("host.id", "nonsense").unwrap();
        assert_eq!(data.host_id(&context).unwrap_err().code(), Code::LocalFile);
    }

    #[test]
    fn a_file_in_the_way_is_said() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        let error = DataDirectory::open(&path).unwrap_err();
        assert!(error.suggested().is_some() && error.message().contains("file"));
    }
}
