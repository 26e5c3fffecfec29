//! Which directories of the host a definition may mount.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stead_app::AskedBy;
use stead_domain::{Code, Error, Result};

/// What the operator allowed, and what is never allowed: where Stead keeps its own files.
pub struct HostPaths {
    pub allowed: Vec<PathBuf>,
    pub data_dir: PathBuf,
    pub home: Option<PathBuf>,
}

/// What a place shows of the host's system, among other things that nobody keeps data in.
const SYSTEM: &[&str] = &["/usr", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Where a path really leads: a link out of an allowed directory is no way in. A path that is not there leads where its text says.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

impl HostPaths {
    /// Only a first look: whoever mounts it looks again, because links can change.
    pub fn check(&self, field: &str, path: &Path, asked_by: &AskedBy) -> Result<()> {
        let (wanted, data_dir) = (real(path), real(&self.data_dir));
        if wanted.starts_with(&data_dir) || data_dir.starts_with(&wanted) {
            return Err(Error::field(field, "lies in the server's data directory or around it, which is never mounted")
                .suggestion("mount a directory that does not hold the data directory"));
        }
        let mounted_before = asked_by.mounted_before.iter().any(|before| Path::new(before) == path);
        if mounted_before || self.allowed.iter().any(|prefix| wanted.starts_with(real(prefix))) {
            return Ok(());
        }
        if asked_by.own_user {
            if wanted != path {
                return Err(Error::field(field, format!("leads through a link to `{}`", wanted.display()))
                    .suggestion(format!("name `{}` itself", wanted.display())));
            }
            return self.check_own(field, &wanted);
        }
        Err(Error::new(Code::Forbidden, format!("`{field}`: the operator has not allowed mounts from `{}`", path.display()))
            .detail("field", field)
            .suggestion("start the server with --allow-host-path and a directory above it"))
    }

    /// The data directory, where it lies in a part of the system that every place shows: it is hidden there. Whoever runs the server as an
    /// ordinary user is the same user inside.
    pub fn of_the_system(&self) -> Option<PathBuf> {
        let data_dir = real(&self.data_dir);
        SYSTEM.iter().any(|part| data_dir.starts_with(part)).then_some(data_dir)
    }

    /// The second look, right before it is mounted: where the path leads now. Code inside may have put a link where a directory was; one that
    /// leads out of what the operator allowed, or away from what was named, is not followed.
    pub fn settle(&self, path: &Path) -> std::result::Result<PathBuf, String> {
        let wanted = path.canonicalize().map_err(|error| format!("`{}` cannot be mounted: {error}", path.display()))?;
        let data_dir = real(&self.data_dir);
        if wanted.starts_with(&data_dir) || data_dir.starts_with(&wanted) {
            return Err(format!("`{}` leads into the server's data directory or around it", path.display()));
        }
        if wanted == path || self.allowed.iter().any(|prefix| wanted.starts_with(real(prefix))) {
            return Ok(wanted);
        }
        Err(format!("`{}` leads through a link to `{}`", path.display(), wanted.display()))
    }

    /// What the user who runs the server may mount without anybody's leave: what is that user's own, but never everything.
    fn check_own(&self, field: &str, path: &Path) -> Result<()> {
        let refused = |why: &str| {
            Err(Error::new(Code::Forbidden, format!("`{field}`: `{}` {why}", path.display()))
                .detail("field", field)
                .suggestion("choose a directory of your own below your home directory, or start the server with --allow-host-path"))
        };
        if self.home.as_ref().is_some_and(|home| real(home).starts_with(path)) || path.parent().is_none() {
            return refused("is your home directory or holds it, and everything in it would be seen inside");
        }
        let user = rustix::process::geteuid();
        match std::fs::metadata(path) {
            Err(error) => refused(&format!("cannot be looked at: {error}")),
            Ok(metadata) if user.is_root() || metadata.uid() == user.as_raw() => Ok(()),
            Ok(_) => refused("is not yours"),
        }
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
        let paths = HostPaths { allowed: vec![at("allowed"), at("data")], data_dir: at("data"), home: Some(at("home")) };
        let stranger = AskedBy::default();
        assert!(paths.check("f", &at("allowed/inside"), &stranger).is_ok());
        assert!(paths.check("f", &at("allowed"), &stranger).is_ok());
        for refused in ["secret", "allowed/link", "allowed/data", "allowed/data/sandboxes", "data", "data/sandboxes", "allowed-not"] {
            assert!(paths.check("f", &at(refused), &stranger).is_err(), "{refused}");
        }
        assert!(paths.check("f", root.path(), &stranger).is_err(), "what holds the data directory holds its secrets");
        let own_user = AskedBy { own_user: true, ..AskedBy::default() };
        std::fs::create_dir_all(at("home/project")).unwrap();
        assert!(paths.check("f", &at("home/project"), &own_user).is_ok());
        assert!(paths.check("f", &at("home/project"), &stranger).is_err());
        for refused in [at("home"), at("data"), at("home/missing"), "/".into()] {
            assert!(paths.check("f", &refused, &own_user).is_err(), "{refused:?}");
        }
        std::os::unix::fs::symlink(at("home/project"), at("home/link")).unwrap();
        assert!(paths.check("f", &at("home/link"), &own_user).is_err(), "what it leads to is to be named itself");
        assert_eq!(paths.settle(&at("home/project")).unwrap(), at("home/project").canonicalize().unwrap());
        for moved in ["home/link", "allowed/link", "allowed/data", "data", "home/missing"] {
            assert!(paths.settle(&at(moved)).is_err(), "{moved}");
        }
        let before = AskedBy { mounted_before: vec![at("home/project").display().to_string()], ..AskedBy::default() };
        assert!(paths.check("f", &at("home/project"), &before).is_ok());
        assert!(paths.check("f", &at("secret"), &before).is_err());
    }
}
