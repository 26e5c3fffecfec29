//! The highest fence of a sandbox, on the disk and out of sight of everything inside. Whoever wakes reads it, so that nobody has to be awake to
//! be held off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::steward_lock::is_at;
use crate::warrant::Warrant;

/// Its name in the directory of a sandbox.
pub const NAME: &str = "fence";

const NO_LINK: i32 = OFlags::NOFOLLOW.bits() as i32;

/// What it says; nothing was ever held off where it is not there. What cannot be read or understood is an error, and never taken for that.
pub fn read(path: &Path) -> io::Result<Warrant> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Warrant::default()),
        Err(error) => Err(error),
    }
}

/// How it went to raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// It is on the disk.
    Stored,
    /// It says this already, which overrules what it was to say. Nothing was written.
    Overruled(Warrant),
}

/// Raises it, or finds that it was raised before. Whoever is killed in between leaves what was there, and at most half a file under another name.
pub fn raise(path: &Path, warrant: Warrant) -> io::Result<Raised> {
    let directory = path.parent().ok_or(ErrorKind::InvalidInput)?;
    match judge(path, warrant)? {
        Judged::Overruled(by) => return Ok(Raised::Overruled(by)),
        Judged::Known => {}
        Judged::New(_) => {
            let beside = path.with_extension("new");
            let mut unfinished = lock_unfinished(&beside)?;
            // Somebody else may have been faster.
            let judged = judge(path, warrant)?;
            if let Judged::New(warrant) = judged {
                unfinished.set_len(0)?;
                unfinished.write_all(&[&serde_json::to_vec(&warrant)?[..], b"\n"].concat())?;
                unfinished.sync_all()?;
                fs::rename(&beside, path)?;
            } else {
                fs::remove_file(&beside)?;
            }
            if let Judged::Overruled(by) = judged {
                return Ok(Raised::Overruled(by));
            }
        }
    }
    // Also where it says so already: whoever wrote that may have been killed before this.
    File::open(directory)?.sync_all()?;
    Ok(Raised::Stored)
}

enum Judged {
    New(Warrant),
    Known,
    Overruled(Warrant),
}

fn judge(path: &Path, warrant: Warrant) -> io::Result<Judged> {
    let known = read(path)?;
    if warrant.is_overruled_by(known) {
        return Ok(Judged::Overruled(known));
    }
    let after = warrant.after(known);
    Ok(if after == known { Judged::Known } else { Judged::New(after) })
}

/// The file that becomes the next one, for one writer at a time. The directory has locks of others on it.
fn lock_unfinished(path: &Path) -> io::Result<File> {
    loop {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).custom_flags(NO_LINK).open(path)?;
        match flock(&file, FlockOperation::LockExclusive) {
            Err(rustix::io::Errno::INTR) => continue,
            outcome => outcome?,
        }
        // The one before us may have put it in its place meanwhile.
        if is_at(&file, path) {
            return Ok(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use stead_domain::ids::LeaseId;

    use super::*;

    fn warrant(fence: u64) -> Warrant {
        Warrant { fence, lease: Some(LeaseId::new(&stead_testing::context(fence).0)) }
    }

    #[test]
    fn it_only_grows_and_tells_whose_it_is() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join(NAME);
        assert_eq!(read(&path).unwrap(), Warrant::default());
        assert_eq!(raise(&path, warrant(5)).unwrap(), Raised::Stored);
        let written = fs::metadata(&path).unwrap();
        assert_eq!(written.permissions().mode() & 0o777, 0o600);
        assert_eq!(raise(&path, warrant(5)).unwrap(), Raised::Stored);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written.modified().unwrap(), "nothing is written anew");
        let elses = Warrant { fence: 5, ..warrant(9) };
        for older in [warrant(4), elses] {
            assert_eq!(raise(&path, older).unwrap(), Raised::Overruled(warrant(5)));
        }
        assert_eq!(raise(&path, Warrant { fence: 5, lease: None }).unwrap(), Raised::Stored);
        assert_eq!(read(&path).unwrap(), warrant(5), "whose it is stays known");
        assert_eq!(raise(&path, warrant(6)).unwrap(), Raised::Stored);
        assert_eq!(read(&path).unwrap(), warrant(6));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn whatever_a_killed_writer_left_harms_nothing() {
        let directory = tempfile::TempDir::new().unwrap();
        let (path, unfinished) = (directory.path().join(NAME), directory.path().join("fence.new"));
        let whole = serde_json::to_vec(&warrant(7)).unwrap();
        for length in 0..=whole.len() {
            let _ = fs::remove_file(&path);
            raise(&path, warrant(5)).unwrap();
            fs::write(&unfinished, &whole[..length]).unwrap();
            assert_eq!(read(&path).unwrap(), warrant(5));
            assert_eq!(raise(&path, warrant(6)).unwrap(), Raised::Stored);
            assert_eq!(read(&path).unwrap(), warrant(6));
            assert!(!unfinished.exists());
        }
        fs::write(&unfinished, vec![b'x'; 1000]).unwrap();
        raise(&path, warrant(8)).unwrap();
        assert_eq!(read(&path).unwrap(), warrant(8), "what was longer is gone");
    }

    #[test]
    fn what_cannot_be_understood_is_never_taken_for_nothing() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join(NAME);
        raise(&path, warrant(5)).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() - 1 {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(read(&path).is_err() && raise(&path, warrant(9)).is_err(), "{length}");
            assert_eq!(fs::read(&path).unwrap(), whole[..length], "it is left for whoever looks at it");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(read(&path).is_err() && raise(&path, warrant(9)).is_err());
    }

    #[test]
    fn many_who_raise_it_at_once_leave_the_highest() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join(NAME);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    for step in 0..20 {
                        let asked = warrant(step * 4 + thread);
                        match raise(path, asked).unwrap() {
                            Raised::Stored => assert!(read(path).unwrap().fence >= asked.fence),
                            Raised::Overruled(by) => assert!(by.fence > asked.fence),
                        }
                    }
                });
            }
        });
        assert_eq!(read(&path).unwrap(), warrant(79));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
