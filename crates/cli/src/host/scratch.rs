//! A directory to try things in, on the filesystem that they are meant for.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = ".place-check-";

/// Removed when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one below a directory, and removes those of processes that did not come to that.
    pub fn below(directory: &Path) -> io::Result<Self> {
        for entry in fs::read_dir(directory)?.filter_map(Result::ok) {
            let owner = entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
                remove(&entry.path());
            }
        }
        let path = directory.join(format!("{PREFIX}{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub fn directory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        fs::create_dir_all(&path)?;
        // Seen inside by somebody else, whatever the mask is that it is made under.
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(path: &Path) {
    // The kernel leaves a closed directory in the one that an overlay works in.
    let _ = fs::set_permissions(path.join("layer/work/work"), Permissions::from_mode(0o700));
    let _ = fs::remove_dir_all(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_behind_not_even_by_those_who_were_killed() {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join(format!("{PREFIX}4194999"));
        fs::create_dir(&left).unwrap();
        fs::create_dir(directory.path().join("somebody-elses")).unwrap();
        let scratch = Scratch::below(directory.path()).unwrap();
        scratch.directory("layer/work").unwrap();
        assert!(!left.exists() && scratch.path().exists());
        drop(scratch);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
