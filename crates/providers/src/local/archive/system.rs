//! What a host's system is, as far as layers over it are true only of that one.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::written;
use crate::local::stack::parts;

/// Where systems say which one they are, and what is installed.
const TOLD_BY: &[&str] = &[
    "/usr/lib/os-release",
    "/var/lib/dpkg/status",
    "/lib/apk/db/installed",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/var/lib/rpm/rpmdb.sqlite",
];

/// The same on two hosts with the same packages in the same versions.
pub fn fingerprint() -> io::Result<String> {
    let mut hash = Sha256::new();
    hash.update(std::env::consts::ARCH);
    for path in TOLD_BY {
        match File::open(path) {
            Ok(mut file) => {
                hash.update(path);
                io::copy(&mut file, &mut Hashed(&mut hash))?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written(hash))
}

/// Whether a layer holds something that lies over the host's system, and not over an image.
pub fn is_over_host(layer: &Path) -> io::Result<bool> {
    Ok(parts(layer)?.iter().any(|part| is_host_part(part)))
}

pub fn is_host_part(part: &Path) -> bool {
    let mut names = part.iter();
    names.next().is_some_and(|first| first == "system") && names.next().is_some_and(|name| !name.to_string_lossy().starts_with("image"))
}

struct Hashed<'a>(&'a mut Sha256);

impl io::Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_fingerprint_and_an_image_is_no_host() {
        assert_eq!(fingerprint().unwrap(), fingerprint().unwrap());
        for (part, expected) in
            [("workspace", false), ("system/etc/upper", true), ("system/image-aa/upper", false), ("system/image/upper", false)]
        {
            assert_eq!(is_host_part(Path::new(part)), expected, "{part}");
        }
    }
}
