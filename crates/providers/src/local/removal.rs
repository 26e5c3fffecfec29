//! Removing trees that somebody else shaped: of any depth, without permissions, with links in them.
//!
//! The stack and the number of open files do not grow with the tree. What lies too deep is moved up to the top and removed from there.

use std::ffi::{OsStr, OsString};
use std::fs::{self, ReadDir};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::directory::Directory;

/// So many directories are open at a time, each with two handles.
const DEPTH: usize = 32;
/// So many names are tried for a directory that is moved up.
const NAMES: u32 = 100_000;

/// What a removal left behind.
#[derive(Debug, Default)]
pub struct Leftovers {
    pub count: usize,
    pub cause: Option<Error>,
}

/// Removes everything in a directory. Links are removed, never followed. Ends early, with what is left, when it is stopped.
pub fn empty(directory: &Path, stopped: &AtomicBool) -> Leftovers {
    let root = match Directory::open(directory) {
        Ok(root) => root,
        Err(error) if error.kind() == ErrorKind::NotFound => return Leftovers::default(),
        Err(error) => return Leftovers { count: 1, cause: Some(error) },
    };
    let mut removal = Removal { root, stopped, moved: 0, cause: None };
    loop {
        let before = removal.moved;
        removal.cause = None;
        let count = removal.pass();
        // Every pass takes the uppermost levels off; what it moved up is for the next.
        if removal.moved == before || removal.is_stopped() {
            return Leftovers { count, cause: removal.cause };
        }
    }
}

struct Removal<'a> {
    root: Directory,
    stopped: &'a AtomicBool,
    /// How many directories were moved up, and the number in the name of the next.
    moved: u32,
    /// Why the first thing that could not be removed was not.
    cause: Option<Error>,
}

struct Level {
    directory: Directory,
    entries: ReadDir,
    name: OsString,
}

impl Removal<'_> {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn note(&mut self, outcome: Result<()>) -> bool {
        match outcome {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => {
                self.cause.get_or_insert(error);
                false
            }
        }
    }

    /// Goes through the top once; how many entries are still there.
    fn pass(&mut self) -> usize {
        let entries = match self.root.entries() {
            Ok(entries) => entries,
            Err(error) => {
                self.note(Err(error));
                return 1;
            }
        };
        let mut left = 0;
        for entry in entries {
            let removed = match entry {
                Ok(entry) => self.remove(&entry.file_name()),
                Err(error) => Err(error),
            };
            if !self.note(removed) {
                left += 1;
            }
        }
        left
    }

    fn remove(&mut self, top: &OsStr) -> Result<()> {
        let mut levels = match Level::enter(&self.root, top.to_owned()) {
            Ok(level) => vec![level],
            Err(error) if error.kind() == ErrorKind::NotADirectory => return fs::remove_file(self.root.join(top)),
            // An empty one goes without being looked into.
            Err(error) => return fs::remove_dir(self.root.join(top)).map_err(|_| error),
        };
        loop {
            if self.is_stopped() {
                return Err(Error::from(ErrorKind::Interrupted));
            }
            let depth = levels.len();
            let Some(level) = levels.last_mut() else { return Ok(()) };
            match level.entries.next() {
                Some(Ok(entry)) => {
                    let name = entry.file_name();
                    let outcome = match entry.file_type() {
                        Ok(kind) if !kind.is_dir() => fs::remove_file(level.directory.join(&name)),
                        Ok(_) if depth >= DEPTH => self.move_up(&level.directory, &name),
                        Ok(_) => match Level::enter(&level.directory, name.clone()) {
                            Ok(below) => {
                                levels.push(below);
                                Ok(())
                            }
                            Err(error) => fs::remove_dir(level.directory.join(&name)).map_err(|_| error),
                        },
                        Err(error) => Err(error),
                    };
                    self.note(outcome);
                }
                Some(Err(error)) => {
                    self.note(Err(error));
                    levels.pop();
                }
                None => {
                    let Some(done) = levels.pop() else { return Ok(()) };
                    let Some(above) = levels.last() else { return fs::remove_dir(self.root.join(&done.name)) };
                    let outcome = fs::remove_dir(above.directory.join(&done.name));
                    self.note(outcome);
                }
            }
        }
    }

    fn move_up(&mut self, from: &Directory, name: &OsStr) -> Result<()> {
        // A directory changes its parent only with permission to write into itself.
        from.enter(name)?.unlock();
        for _ in 0..NAMES {
            let to = self.root.join(OsStr::new(&format!("deep-{}", self.moved)));
            self.moved += 1;
            match fs::rename(from.join(name), to) {
                // Another has that name, from an earlier attempt.
                Err(error)
                    if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => {}
                outcome => return outcome,
            }
        }
        Err(Error::from(ErrorKind::AlreadyExists))
    }
}

impl Level {
    fn enter(above: &Directory, name: OsString) -> Result<Self> {
        let directory = above.enter(&name)?;
        directory.unlock();
        let entries = directory.entries()?;
        Ok(Self { directory, entries, name })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::process::Command;

    use super::super::tree;
    use super::*;

    static GO: AtomicBool = AtomicBool::new(false);

    fn emptied(directory: &Path) -> bool {
        let left = empty(directory, &GO);
        assert_eq!((left.count, left.cause.map(|cause| cause.to_string())), (0, None));
        fs::read_dir(directory).unwrap().next().is_none()
    }

    /// Directories in each other, with a file in every hundredth.
    fn deep(directory: &Path, levels: usize) {
        let mut at = Directory::open(directory).unwrap();
        for level in 0..levels {
            fs::create_dir(at.join(OsStr::new("d"))).unwrap();
            at = at.enter(OsStr::new("d")).unwrap();
            if level % 100 == 0 {
                fs::write(at.join(OsStr::new("file")), "content").unwrap();
            }
        }
    }

    #[test]
    fn a_tree_of_any_depth_goes_on_a_small_stack() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().to_owned();
        fs::create_dir(path.join("wide")).unwrap();
        for index in 0..300 {
            fs::create_dir(path.join(format!("wide/{index}"))).unwrap();
        }
        // Left by an earlier attempt, under the names that this one begins with.
        fs::create_dir_all(path.join("deep-0/full")).unwrap();
        fs::write(path.join("deep-1"), "a file").unwrap();
        deep(&path, 4_000);
        let work = move || {
            let size = tree::size(&path);
            (size > 200 * 512, emptied(&path))
        };
        let thread = std::thread::Builder::new().stack_size(128 * 1024).spawn(work).unwrap();
        assert_eq!(thread.join().unwrap(), (true, true));
    }

    #[test]
    fn links_are_removed_and_never_followed() {
        let directory = tempfile::TempDir::new().unwrap();
        let (outside, trash) = (directory.path().join("outside"), directory.path().join("trash"));
        fs::create_dir_all(outside.join("inner")).unwrap();
        fs::write(outside.join("inner/kept"), "kept").unwrap();
        fs::set_permissions(outside.join("inner"), fs::Permissions::from_mode(0o500)).unwrap();
        fs::create_dir_all(trash.join("one/two")).unwrap();
        for link in ["link", "one/link", "one/two/link"] {
            symlink(&outside, trash.join(link)).unwrap();
        }
        symlink(outside.join("inner/kept"), trash.join("one/to-file")).unwrap();
        symlink("..", trash.join("one/up")).unwrap();
        symlink("nowhere", trash.join("one/broken")).unwrap();
        let whole = tree::size(&trash);
        assert!(whole < 1024 * 1024, "{whole}");
        assert!(emptied(&trash));
        assert_eq!(fs::read_to_string(outside.join("inner/kept")).unwrap(), "kept");
        assert_eq!(fs::metadata(outside.join("inner")).unwrap().mode() & 0o777, 0o500);
        assert!(Directory::open(directory.path()).unwrap().enter(OsStr::new("outside")).is_ok());
        symlink(&outside, trash.join("link")).unwrap();
        assert!(Directory::open(&trash).unwrap().enter(OsStr::new("link")).is_err());
    }

    /// Root needs no permissions, so as root the test runs itself again as somebody else.
    #[test]
    fn directories_without_permissions_go() {
        let directory = tempfile::TempDir::new().unwrap();
        if fs::metadata(directory.path()).unwrap().uid() == 0 {
            let name = "local::removal::tests::directories_without_permissions_go";
            let ordinary = Command::new("setpriv")
                .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", name])
                .current_dir("/")
                .env("TMPDIR", "/tmp")
                .output();
            match ordinary {
                Ok(output) if String::from_utf8_lossy(&output.stdout).contains("running 1 test") => {
                    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
                }
                other => println!("skipped: no ordinary user can run this test here: {other:?}"),
            }
            return;
        }
        let (trash, sandbox) = (directory.path().join("trash"), directory.path().join("sandbox"));
        let locked: Vec<PathBuf> = ["a", "a/b", "a/b/c", "a/empty"].iter().map(|name| sandbox.join(name)).collect();
        fs::create_dir(&trash).unwrap();
        for path in &locked {
            fs::create_dir_all(path).unwrap();
            fs::write(path.join("file"), "").unwrap();
        }
        deep(&sandbox, 100);
        let mut bottom = Directory::open(&sandbox).unwrap();
        let mut levels = Vec::new();
        while let Ok(below) = bottom.enter(OsStr::new("d")) {
            levels.push(std::mem::replace(&mut bottom, below));
        }
        for level in levels.iter().rev() {
            fs::set_permissions(level.join(OsStr::new("d")), fs::Permissions::from_mode(0o000)).unwrap();
        }
        for path in locked.iter().rev().chain([&sandbox]) {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        }
        assert!(tree::discard(&sandbox, &trash.join("sandbox")).unwrap());
        assert!(emptied(&trash));
    }

    #[test]
    fn a_removal_that_is_stopped_says_that_something_is_left() {
        let directory = tempfile::TempDir::new().unwrap();
        fs::create_dir_all(directory.path().join("one/two")).unwrap();
        assert_eq!(empty(directory.path(), &AtomicBool::new(true)).count, 1);
        assert!(emptied(directory.path()));
    }
}
