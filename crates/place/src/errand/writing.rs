//! Writing files and making directories.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use stead_domain::files::{FilePath, FileProblem};

use super::reading::open;
use super::voice::Voice;
use crate::tree::trouble::{At, Result, as_path, failure};

const USUAL_MODE: u32 = 0o644;
/// Names that are tried for what is not finished yet.
const ATTEMPTS: u32 = 100;

/// Puts what follows in place of what is there, in one step; how many bytes it has.
pub fn write(path: &FilePath, mode: Option<u32>, parents: bool, voice: &mut Voice) -> Result<u64> {
    if parents && let Some(parent) = as_path(path).parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).at(path)?;
    }
    let target = target(path)?;
    let existing = match fs::symlink_metadata(&target) {
        Ok(metadata) if metadata.is_dir() => return Err(failure(path, FileProblem::IsADirectory, "")),
        Ok(metadata) if !metadata.is_file() => return Err(failure(path, FileProblem::NotAFile, "")),
        Ok(metadata) => Some(metadata.permissions().mode()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error).at(path),
    };
    let unfinished = Unfinished::beside(&target).at(path)?;
    let mut size = 0;
    while let Some(bytes) = voice.piece().at(path)? {
        (&unfinished.file).write_all(&bytes).at(path)?;
        size += bytes.len() as u64;
    }
    let mode = mode.or(existing).unwrap_or(USUAL_MODE) & 0o7777;
    unfinished.file.set_permissions(Permissions::from_mode(mode)).at(path)?;
    unfinished.finish(&target).at(path)?;
    Ok(size)
}

/// What is really meant: where a link leads.
fn target(path: &FilePath) -> Result<PathBuf> {
    let path_here = as_path(path);
    if path.as_bytes().ends_with(b"/") || path_here.file_name().is_none() {
        return Err(failure(path, FileProblem::IsADirectory, ""));
    }
    match fs::symlink_metadata(path_here) {
        Ok(metadata) if metadata.is_symlink() => path_here.canonicalize().at(path),
        _ => Ok(path_here.to_owned()),
    }
}

/// A file that has no name yet, or one that nobody looks for; it goes when it is not finished.
struct Unfinished {
    file: File,
    name: Option<PathBuf>,
}

impl Unfinished {
    fn beside(target: &Path) -> io::Result<Self> {
        let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::open(directory, flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => Ok(Self { file: file.into(), name: None }),
            // Not every file system can.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
                let (name, file) = named(target, |name| OpenOptions::new().write(true).create_new(true).open(name))?;
                Ok(Self { file, name: Some(name) })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn finish(mut self, target: &Path) -> io::Result<()> {
        self.file.sync_data()?;
        if self.name.is_none() {
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let link = |name: &Path| Ok(rustix::fs::linkat(CWD, own.as_str(), CWD, name, AtFlags::SYMLINK_FOLLOW)?);
            self.name = Some(named(target, link)?.0);
        }
        if let Some(name) = &self.name {
            fs::rename(name, target)?;
        }
        self.name = None;
        // Where the directory may be written and not read, it is as durable as the directory makes it.
        let _ = sync_directory_of(target);
        Ok(())
    }
}

/// Its name is on the disk too.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::remove_file(name);
        }
    }
}

/// Makes something under a name beside `target` that nothing has.
fn named<T>(target: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    for attempt in 0..ATTEMPTS {
        let mut name = OsString::from(".stead-");
        name.push(format!("{}-{attempt}-", std::process::id()));
        // Names have an end.
        let own = target.file_name().unwrap_or_default().as_bytes();
        name.push(OsStr::from_bytes(&own[..own.len().min(200)]));
        let path = target.with_file_name(name);
        match make(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            outcome => return outcome.map(|made| (path, made)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Adds what follows; how many bytes the file then has. With an offset, what lies before the file's end is there already.
pub fn append(path: &FilePath, offset: Option<u64>, mode: Option<u32>, voice: &mut Voice) -> Result<u64> {
    let mut options = OpenOptions::new();
    options.write(true).create(offset.unwrap_or(0) == 0);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode.unwrap_or(USUAL_MODE) & 0o7777);
    let (file, mut size) = open(path, &mut options)?;
    let mut at = offset.unwrap_or(size);
    if at > size {
        return Err(failure(path, FileProblem::WrongOffset, size));
    }
    while let Some(bytes) = voice.piece().at(path)? {
        let there = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        file.write_all_at(&bytes[there..], at + there as u64).at(path)?;
        at += bytes.len() as u64;
        size = size.max(at);
    }
    file.sync_data().at(path)?;
    if offset.unwrap_or(0) == 0 {
        // It may be new. Where its directory cannot be read it is as durable as the directory makes it.
        let _ = sync_directory_of(as_path(path));
    }
    Ok(size)
}

pub fn make_directory(path: &FilePath, mode: Option<u32>, parents: bool) -> Result<()> {
    let made = DirBuilder::new().mode(0o755).recursive(parents).create(as_path(path));
    match made {
        // `recursive` is content with one that is there.
        Ok(()) => {}
        Err(error) => return Err(error).at(path),
    }
    match mode {
        Some(mode) => fs::set_permissions(as_path(path), Permissions::from_mode(mode & 0o7777)).at(path),
        None => Ok(()),
    }
}
