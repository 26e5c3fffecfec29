//! Directories of environments that have gone to sleep, kept for the next ones that wake: to make one takes as long as the filesystem has to
//! look for room, to give it another name does not. They lie beside the directory of those that are awake, where nobody takes them for one.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// More than this are removed instead.
const MOST: usize = 64;

fn beside(directory: &Path) -> Option<(PathBuf, &OsStr)> {
    Some((directory.parent()?.with_file_name("spare/run"), directory.file_name()?))
}

fn rename(from: &Path, to: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
}

/// Gives one that is kept this name; false when there is none. One that has the name already is as good.
pub fn take(directory: &Path) -> bool {
    let kept = beside(directory).and_then(|(spare, _)| fs::read_dir(spare).ok());
    for entry in kept.into_iter().flatten().flatten() {
        match rename(&entry.path(), directory) {
            // Somebody else was faster.
            Err(Errno::NOENT) => {}
            outcome => return matches!(outcome, Ok(()) | Err(Errno::EXIST)),
        }
    }
    false
}

/// Empties a directory and keeps it; false when it has to be removed. The caller holds its lock, and lets go of it at once.
pub fn keep(directory: &Path) -> bool {
    let Some((spare, name)) = beside(directory) else { return false };
    let known = match fs::read_dir(&spare) {
        Ok(entries) => entries.count(),
        Err(_) if DirBuilder::new().recursive(true).mode(0o700).create(&spare).is_ok() => 0,
        Err(_) => return false,
    };
    let Ok(mut entries) = fs::read_dir(directory) else { return false };
    known < MOST
        && entries.all(|entry| entry.and_then(|entry| fs::remove_file(entry.path())).is_ok())
        && rename(directory, &spare.join(name)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_empty_and_of_some_number() {
        let above = tempfile::TempDir::new().unwrap();
        let run = above.path().join("run");
        fs::create_dir(&run).unwrap();
        assert!(!take(&run.join("first")));
        for number in 0..MOST + 2 {
            let directory = run.join(number.to_string());
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("socket"), "").unwrap();
            assert_eq!(keep(&directory), number < MOST);
        }
        assert!(take(&run.join("first")) && take(&run.join("first")), "there already");
        assert_eq!(fs::read_dir(run.join("first")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(above.path().join("spare/run")).unwrap().count(), MOST - 1);
        let other = run.join("with");
        fs::create_dir_all(other.join("something")).unwrap();
        assert!(!keep(&other) && other.exists(), "what is not ours is not kept");
    }
}
