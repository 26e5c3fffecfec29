//! The digest of a directory that holds a system: what it says, and who may do what with it. When a file was changed is no part of it.
//!
//! SHA-256 over one record for each name, in the order of a walk that takes the names of each directory sorted by their bytes, a directory
//! before what it holds: `KIND MODE UID GID LENGTH PATH SIZE`, a line feed, the content, a line feed. KIND is `d`, `f`, `l` or `o` (anything
//! else), MODE has four octal digits, PATH is relative to the directory (`.` for itself) and LENGTH its bytes; the content is that of a file
//! or where a link leads, SIZE its bytes. `dev`, `proc`, `sys`, `tmp` and `run` at the top are left out, as they are from what is shown.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, readlinkat, statat};
use sha2::{Digest, Sha256};

/// Deeper than any path goes.
const DEEPEST: usize = 2048;
const LEFT_OUT: &[&str] = &["dev", "proc", "sys", "tmp", "run"];

/// Of everything in it.
pub fn digest(directory: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    walk(directory, &mut |path, status, at| {
        let kind = FileType::from_raw_mode(status.st_mode);
        let (letter, content) = match kind {
            FileType::Directory => ('d', Vec::new()),
            FileType::Symlink => ('l', readlinkat(at, path.file_name().unwrap_or_default(), Vec::new())?.into_bytes()),
            FileType::RegularFile => ('f', Vec::new()),
            _ => ('o', Vec::new()),
        };
        let size = if letter == 'f' { status.st_size as u64 } else { content.len() as u64 };
        let mode = status.st_mode & 0o7777;
        let name = path.as_os_str().as_bytes();
        hash.update(format!("{letter} {mode:04o} {} {} {} ", status.st_uid, status.st_gid, name.len()));
        hash.update(name);
        hash.update(format!(" {size}\n"));
        if letter == 'f' {
            let mut file = File::from(open(at, path.file_name().unwrap_or_default(), OFlags::NONBLOCK)?).take(size);
            let (mut buffer, mut read) = (vec![0; 256 << 10], 0);
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    length => {
                        hash.update(&buffer[..length]);
                        read += length as u64;
                    }
                }
            }
            if read != size {
                return Err(io::Error::other(format!("`{}` was changed while it was read", path.display())));
            }
        } else {
            hash.update(content);
        }
        hash.update(b"\n");
        Ok(())
    })?;
    Ok(written(hash))
}

/// Changes whenever anything in it does, without reading any file.
pub fn stamp(directory: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    walk(directory, &mut |path, status, _| {
        hash.update((path.as_os_str().len() as u64).to_le_bytes());
        hash.update(path.as_os_str().as_bytes());
        for number in
            [status.st_dev, status.st_ino, u64::from(status.st_mode), status.st_size as u64, status.st_ctime as u64, status.st_ctime_nsec]
        {
            hash.update(number.to_le_bytes());
        }
        Ok(())
    })?;
    Ok(written(hash))
}

pub fn written(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::from("sha256:"), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

type Visit<'a> = &'a mut dyn FnMut(&Path, &Stat, BorrowedFd<'_>) -> io::Result<()>;

fn walk(directory: &Path, visit: Visit<'_>) -> io::Result<()> {
    let root = open(CWD, directory.as_os_str(), OFlags::DIRECTORY)?;
    visit(Path::new("."), &fstat(&root)?, root.as_fd())?;
    below(&root, Path::new(""), visit, 0)
}

fn below(at: &OwnedFd, path: &Path, visit: Visit<'_>, depth: usize) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other(format!("`{}` is too deep", path.display())));
    }
    let mut names: Vec<OsString> = Vec::new();
    for entry in Dir::read_from(at)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        if name != "." && name != ".." && (depth > 0 || !LEFT_OUT.iter().any(|left_out| name == *left_out)) {
            names.push(name);
        }
    }
    names.sort_unstable_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
    for name in names {
        let path = path.join(&name);
        let status = statat(at, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        visit(&path, &status, at.as_fd())?;
        if FileType::from_raw_mode(status.st_mode).is_dir() {
            below(&open(at, &name, OFlags::DIRECTORY)?, &path, visit, depth + 1)?;
        }
    }
    Ok(())
}

/// No step is a link: what was looked at is what is read.
fn open(at: impl AsFd, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(at, name, OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty(), how)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn it_follows_what_is_said_and_not_when() {
        let directory = tempfile::TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("etc/deep")).unwrap();
        fs::create_dir_all(at("proc/1")).unwrap();
        fs::write(at("etc/file"), "text").unwrap();
        symlink("file", at("etc/link")).unwrap();
        let first = digest(directory.path()).unwrap();
        let mut seen = vec![first.clone()];
        assert!(first.len() == 71 && first.starts_with("sha256:"));
        let stamped = stamp(directory.path()).unwrap();
        fs::write(at("proc/1/stat"), "").unwrap();
        fs::write(at("etc/file"), "text").unwrap();
        assert_eq!(digest(directory.path()).unwrap(), first);
        assert_ne!(stamp(directory.path()).unwrap(), stamped);
        let changes: [&dyn Fn(); 4] = [
            &|| fs::write(at("etc/file"), "tixt").unwrap(),
            &|| fs::set_permissions(at("etc/file"), fs::Permissions::from_mode(0o600)).unwrap(),
            &|| fs::rename(at("etc/deep"), at("etc/deeper")).unwrap(),
            &|| {
                fs::remove_file(at("etc/link")).unwrap();
                symlink("elsewhere", at("etc/link")).unwrap();
            },
        ];
        for change in changes {
            change();
            let next = digest(directory.path()).unwrap();
            assert!(!seen.contains(&next));
            seen.push(next);
        }
    }
}
