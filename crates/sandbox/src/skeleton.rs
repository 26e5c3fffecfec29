//! What of the host's /etc a place sees: a copy of what programs need, made once per host, without anything that may hold a secret.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::error::{Result, Step};
use crate::identity::INSIDE;

/// The names that are copied. Everything else in /etc is somebody's business.
const COPIED: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "perl",
    "pki",
    "profile",
    "profile.d",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "services",
    "shells",
    "ssl",
    "terminfo",
    "timezone",
    "vim",
];

/// The one user inside.
pub const USER: &str = "stead";

/// A prepared directory, shared read-only by all places of a host.
#[derive(Clone, Debug)]
pub struct Skeleton {
    etc: PathBuf,
}

impl Skeleton {
    /// Makes it anew below a directory of the caller's, in place of one that is there. Places that run keep the one they have.
    pub fn build(directory: &Path) -> Result<Self> {
        let (etc, fresh, old) = (directory.join("etc"), directory.join("etc.new"), directory.join("etc.old"));
        for left in [&fresh, &old] {
            remove(left).step(format!("remove {}", left.display()))?;
        }
        fs::create_dir_all(&fresh).step(format!("make {}", fresh.display()))?;
        for name in COPIED {
            let source = Path::new("/etc").join(name);
            // The names themselves are followed if they are links; links inside stay links.
            if let Ok(real) = source.canonicalize() {
                copy(&real, &fresh.join(name)).step(format!("copy {}", source.display()))?;
            }
        }
        write_users(&fresh).step("write who there is inside")?;
        // Read inside by somebody else than whoever makes it, whatever the mask is that it is made under.
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).step("let everybody read it")?;
        if etc.exists() {
            fs::rename(&etc, &old).step("put the old one aside")?;
        }
        fs::rename(&fresh, &etc).step("put the new one in place")?;
        remove(&old).step("remove the old one")?;
        Ok(Self { etc })
    }

    /// One that was built before.
    pub fn open(directory: &Path) -> Option<Self> {
        let etc = directory.join("etc");
        etc.is_dir().then_some(Self { etc })
    }

    pub(crate) fn etc(&self) -> &Path {
        &self.etc
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Copies files, directories and links. What the caller cannot read is no business of the inside either.
fn copy(source: &Path, target: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(source)?;
    if metadata.is_symlink() {
        return symlink(fs::read_link(source)?, target);
    }
    if metadata.is_dir() {
        fs::create_dir(target)?;
        fs::set_permissions(target, fs::Permissions::from_mode(0o755))?;
        // Keys of this host's services lie below here; nobody inside is a service of the host.
        if source.ends_with("ssl/private") {
            return Ok(());
        }
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            copy(&entry.path(), &target.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if !metadata.is_file() || metadata.permissions().mode() & 0o004 == 0 {
        return Ok(());
    }
    fs::copy(source, target)?;
    fs::set_permissions(target, fs::Permissions::from_mode(0o644 | (metadata.permissions().mode() & 0o111)))
}

/// One user, and nobody of the host's.
fn write_users(etc: &Path) -> io::Result<()> {
    let passwd = format!(
        "root:x:0:0:root:/root:/usr/sbin/nologin\n{USER}:x:{INSIDE}:{INSIDE}::/home/{USER}:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    );
    let group = format!("root:x:0:\n{USER}:x:{INSIDE}:\nnogroup:x:65534:\n");
    for (name, text) in [
        ("passwd", passwd),
        ("group", group),
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n".to_owned()),
        ("resolv.conf", format!("nameserver {}\n", crate::NAME_SERVER)),
    ] {
        let path = etc.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_copied_and_it_can_be_made_again() {
        let directory = tempfile::TempDir::new().unwrap();
        for _ in 0..2 {
            let skeleton = Skeleton::build(directory.path()).unwrap();
            for secret in ["shadow", "gshadow", "ssh", "sudoers", "machine-id"] {
                assert!(!skeleton.etc().join(secret).exists(), "{secret}");
            }
            assert!(fs::read_to_string(skeleton.etc().join("passwd")).unwrap().contains("stead:x:1000"));
            let private = skeleton.etc().join("ssl/private");
            assert!(!private.exists() || fs::read_dir(private).unwrap().next().is_none());
        }
    }
}
