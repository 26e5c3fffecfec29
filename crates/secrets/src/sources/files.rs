//! Files that an operator mounts: one directory, and in it a file for each secret, of the same name.
//!
//! They are read each time, so that a mount that was changed is seen by the next process. One newline at the end is left out, as from stdin.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;
use stead_app::{SecretSource, SourceFailure};
use stead_domain::secret::{LONGEST_VALUE, SecretValue};

/// How often a directory may change under a look at it.
const TRIES: usize = 16;

pub struct Files {
    directory: PathBuf,
}

impl Files {
    /// The directory need not be there yet: it may be mounted later.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }
}

#[async_trait]
impl SecretSource for Files {
    fn describe(&self) -> String {
        format!("the directory {}", self.directory.display())
    }

    fn place_of(&self, _project: &str, name: &str) -> String {
        format!("the file {}", self.directory.join(name).display())
    }

    async fn fetch(&self, _project: &str, name: &str) -> Result<Option<SecretValue>, SourceFailure> {
        let (directory, name) = (self.directory.clone(), name.to_owned());
        tokio::task::spawn_blocking(move || read(&directory, &name))
            .await
            .map_err(|_| failure("the file could not be read".to_owned(), "try again"))?
    }
}

fn failure(message: String, suggestion: &str) -> SourceFailure {
    SourceFailure { message, suggestion: suggestion.to_owned() }
}

fn read(directory: &Path, name: &str) -> Result<Option<SecretValue>, SourceFailure> {
    let path = directory.join(name);
    let file = match within(directory, name) {
        Ok(file) => file,
        Err(Errno::NOENT) if directory.is_dir() => return Ok(None),
        Err(Errno::NOENT) => {
            return Err(failure(format!("{} is not there", directory.display()), "mount it, or mend `directory` of the rule"));
        }
        Err(Errno::XDEV | Errno::LOOP) => {
            return Err(failure(
                format!("{} leads out of its directory", path.display()),
                "put the file itself there: links may only stay inside",
            ));
        }
        Err(error) => return Err(failure(format!("{} cannot be read: {error}", path.display()), "let the server's user read it")),
    };
    let kind = fstat(&file).map(|found| FileType::from_raw_mode(found.st_mode));
    if kind != Ok(FileType::RegularFile) {
        return Err(failure(format!("{} is no file", path.display()), "put a file of that name there"));
    }
    let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(LONGEST_VALUE + 2));
    let reading = File::from(file).take(LONGEST_VALUE as u64 + 2).read_to_end(&mut bytes);
    reading.map_err(|error| failure(format!("{} cannot be read: {error}", path.display()), "let the server's user read it"))?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    if bytes.len() > LONGEST_VALUE {
        return Err(failure(
            format!("{} is longer than {LONGEST_VALUE} bytes", path.display()),
            "what is longer is mounted, and no secret",
        ));
    }
    Ok(Some(SecretValue::new(bytes.to_vec())))
}

/// Opens what lies in the directory, through links only where they stay in it: whoever changes a mount as a whole swaps such a link.
fn within(directory: &Path, name: &str) -> Result<OwnedFd, Errno> {
    let directory = open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let mut last = Errno::AGAIN;
    for _ in 0..TRIES {
        match openat2(&directory, name, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS) {
            // Something was renamed meanwhile.
            Err(error @ Errno::AGAIN) => last = error,
            outcome => return outcome,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn found(directory: &Path, name: &str) -> Option<Vec<u8>> {
        read(directory, name).unwrap().map(|value| value.bytes().to_vec())
    }

    #[test]
    fn a_file_is_read_anew_each_time_without_its_last_newline() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("KEY");
        assert_eq!(found(directory.path(), "KEY"), None);
        for (written, value) in [("one\n", "one"), ("two", "two"), ("three\n\n", "three\n"), ("\n", "")] {
            fs::write(&path, written).unwrap();
            assert_eq!(found(directory.path(), "KEY").unwrap(), value.as_bytes());
        }
        fs::write(&path, vec![b'x'; LONGEST_VALUE + 1]).unwrap();
        assert!(read(directory.path(), "KEY").unwrap_err().message.contains("longer than"));
        fs::write(&path, [vec![b'x'; LONGEST_VALUE], vec![b'\n']].concat()).unwrap();
        assert_eq!(found(directory.path(), "KEY").unwrap().len(), LONGEST_VALUE);
        let gone = directory.path().join("gone");
        assert!(read(&gone, "KEY").unwrap_err().message.ends_with("is not there"));
    }

    /// As the kubelet does it: files are links through `..data`, which is swapped as one.
    #[test]
    fn a_mount_that_is_swapped_as_a_whole_is_seen() {
        let directory = tempfile::TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        for (version, value) in [("..1", "first"), ("..2", "second")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("KEY"), value).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/KEY", at("KEY")).unwrap();
        assert_eq!(found(directory.path(), "KEY").unwrap(), b"first");
        symlink("..2", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        assert_eq!(found(directory.path(), "KEY").unwrap(), b"second");
    }

    #[test]
    fn nothing_leads_out_of_the_directory() {
        let outside = tempfile::TempDir::new().unwrap();
        fs::write(outside.path().join("shadow"), "hidden").unwrap();
        let directory = tempfile::TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        symlink(outside.path().join("shadow"), at("ABSOLUTE")).unwrap();
        symlink(format!("../{}/shadow", outside.path().file_name().unwrap().to_str().unwrap()), at("RELATIVE")).unwrap();
        symlink(outside.path(), at("..data")).unwrap();
        symlink("..data/shadow", at("THROUGH")).unwrap();
        symlink("LOOP", at("LOOP")).unwrap();
        for name in ["ABSOLUTE", "RELATIVE", "THROUGH", "LOOP"] {
            let failure = read(directory.path(), name).unwrap_err();
            assert!(failure.message.ends_with("leads out of its directory"), "{name}: {failure}");
        }
        fs::create_dir(at("DIRECTORY")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("PIPE"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for name in ["DIRECTORY", "PIPE"] {
            assert!(read(directory.path(), name).unwrap_err().message.ends_with("is no file"), "{name}");
        }
    }
}
