//! Whose files are used without being asked for. Above the working directory anybody may have put one, as in `/tmp`: what another user
//! could have written does not speak for this one.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const WRITABLE_BY_OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// What matters of a file or a directory.
#[derive(Clone, Copy)]
struct Entry {
    owner: u32,
    mode: u32,
}

impl From<Metadata> for Entry {
    fn from(metadata: Metadata) -> Self {
        Self { owner: metadata.uid(), mode: metadata.mode() }
    }
}

/// Why the file `below` a directory is not used, when somebody else could have put it there. What cannot be looked at cannot be read
/// either: that is said by whoever tries.
pub fn objection(directory: &Path, below: &Path) -> Option<String> {
    let user = rustix::process::geteuid().as_raw();
    let mut path = directory.to_owned();
    let mut parent = Entry::from(path.metadata().ok()?);
    for part in below {
        path.push(part);
        // A link is judged by who made it, and what it leads to by whose that is.
        let link = Entry::from(path.symlink_metadata().ok()?);
        let target = path.metadata().ok().map(Entry::from);
        let reason = judge(user, parent, link).or_else(|| foreign(user, target?));
        if let Some(reason) = reason {
            return Some(format!("{} is not used: {} {reason}", directory.join(below).display(), path.display()));
        }
        parent = target?;
    }
    None
}

/// Who may write in a directory may put anything into it; where it is sticky, at least not in place of what is the user's.
fn judge(user: u32, parent: Entry, entry: Entry) -> Option<&'static str> {
    let open = parent.mode & WRITABLE_BY_OTHERS != 0 && parent.owner != user;
    if open && (parent.mode & STICKY == 0 || entry.owner != user) {
        return Some("lies where every user may write");
    }
    foreign(user, entry)
}

fn foreign(user: u32, entry: Entry) -> Option<&'static str> {
    (entry.owner != user && entry.owner != 0).then_some("belongs to another user")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const fn entry(owner: u32, mode: u32) -> Entry {
        Entry { owner, mode }
    }

    #[test]
    fn only_what_nobody_else_could_have_put_there() {
        let file = |owner| entry(owner, 0o644);
        for (parent, owner, trusted) in [
            (entry(1000, 0o755), 1000, true),
            (entry(1000, 0o755), 0, true),
            (entry(1000, 0o755), 1001, false),
            (entry(0, 0o755), 1000, true),
            // The user's own, however open: that was the user's doing.
            (entry(1000, 0o777), 1000, true),
            (entry(1000, 0o777), 1001, false),
            // As /tmp is.
            (entry(0, 0o1777), 1000, true),
            (entry(0, 0o1777), 0, false),
            (entry(0, 0o1777), 1001, false),
            (entry(1001, 0o777), 1000, false),
            (entry(1001, 0o755), 1000, true),
        ] {
            assert_eq!(judge(1000, parent, file(owner)).is_none(), trusted, "{owner} in {} {:o}", parent.owner, parent.mode);
        }
    }

    #[test]
    fn every_step_to_the_file_counts() {
        let root = tempfile::tempdir().unwrap();
        let below = Path::new(".stead/config.toml");
        assert!(objection(root.path(), below).is_none(), "nothing is there");
        fs::create_dir(root.path().join(".stead")).unwrap();
        fs::write(root.path().join(below), "").unwrap();
        assert!(objection(root.path(), below).is_none());
        // Only root can give files away.
        if rustix::process::geteuid().is_root() {
            for part in [".stead", ".stead/config.toml"] {
                let path = root.path().join(part);
                std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
                let reason = objection(root.path(), below).unwrap();
                assert!(reason.contains("another user") && reason.contains(path.to_str().unwrap()), "{reason}");
                std::os::unix::fs::chown(&path, Some(0), None).unwrap();
            }
            let link = root.path().join("link");
            std::os::unix::fs::symlink(root.path().join(below), &link).unwrap();
            std::os::unix::fs::lchown(&link, Some(12345), None).unwrap();
            assert!(objection(root.path(), Path::new("link")).is_some(), "somebody else made the link");
        }
    }
}
