//! Which directories of the host a definition may mount.

use std::path::{Path, PathBuf};

use stead_domain::{Code, Error, Result};

/// What the operator allowed, and what is never allowed: where Stead keeps its own files.
pub struct HostPaths {
    pub allowed: Vec<PathBuf>,
    pub data_dir: PathBuf,
}

/// Where a path really leads: a link out of an allowed directory is no way in. A path that is not there leads where its text says.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

impl HostPaths {
    /// Only a first look: whoever mounts it looks again, because links can change.
    pub fn check(&self, field: &str, path: &Path) -> Result<()> {
        let (wanted, data_dir) = (real(path), real(&self.data_dir));
        if wanted.starts_with(&data_dir) || data_dir.starts_with(&wanted) {
            return Err(Error::field(field, "lies in the server's data directory or around it, which is never mounted")
                .suggestion("mount a directory that does not hold the data directory"));
        }
        if self.allowed.iter().any(|prefix| wanted.starts_with(real(prefix))) {
            return Ok(());
        }
        Err(Error::new(Code::Forbidden, format!("`{field}`: the operator has not allowed mounts from `{}`", path.display()))
            .detail("field", field)
            .suggestion("start the server with --allow-host-path and a directory above it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_do_not_lead_out_and_the_data_directory_is_never_reached() {
        let root = tempfile::TempDir::new().unwrap();
        let at = |name: &str| root.path().join(name);
        for directory in ["allowed/inside", "secret", "data/sandboxes"] {
            std::fs::create_dir_all(at(directory)).unwrap();
        }
        std::os::unix::fs::symlink(at("secret"), at("allowed/link")).unwrap();
        std::os::unix::fs::symlink(at("data"), at("allowed/data")).unwrap();
        let paths = HostPaths { allowed: vec![at("allowed"), at("data")], data_dir: at("data") };
        assert!(paths.check("f", &at("allowed/inside")).is_ok());
        assert!(paths.check("f", &at("allowed")).is_ok());
        for refused in ["secret", "allowed/link", "allowed/data", "allowed/data/sandboxes", "data", "data/sandboxes", "allowed-not"] {
            assert!(paths.check("f", &at(refused)).is_err(), "{refused}");
        }
        assert!(paths.check("f", root.path()).is_err(), "what holds the data directory holds its secrets");
    }
}
