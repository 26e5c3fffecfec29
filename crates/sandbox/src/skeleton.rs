//! What of the host's /etc and /dev a place sees: a copy of what programs need, made once per host, without anything that may hold a secret.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::devices;
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

/// What packages need beside that, in a system of their own.
const COPIED_FOR_SYSTEM: &[&str] = &[
    "adduser.conf",
    "apt",
    "debconf.conf",
    "deluser.conf",
    "dpkg",
    "login.defs",
    "pam.conf",
    "pam.d",
    "rc0.d",
    "rc6.d",
    "skel",
    "ucf.conf",
];

/// A part of the host's system that a place can have for itself.
pub struct Part {
    pub name: &'static str,
    /// Where it belongs inside.
    pub target: &'static str,
    /// What it begins with, from the top down.
    pub lower: Vec<PathBuf>,
    /// Root inside is root of what the part begins with. It can then also read what only root of the host can.
    pub owned: bool,
}

const SYSTEM: &[(&str, &str, &str, bool)] = &[
    ("usr", "usr", "/usr", true),
    // Not of the packages, and perhaps with somebody's keys in it.
    ("opt", "opt", "/opt", false),
    ("dpkg", "var/lib/dpkg", "/var/lib/dpkg", true),
    ("apt", "var/lib/apt", "/var/lib/apt", true),
];

/// What it consists of.
const PARTS: &[&str] = &["etc", "dev", "system-etc", "system-var"];
/// Where those lie that places made before still see.
const LEFT: &str = "left";

/// The one user inside.
pub const USER: &str = "stead";

/// A prepared directory, shared read-only by all places of a host.
#[derive(Clone, Debug)]
pub struct Skeleton {
    etc: PathBuf,
}

impl Skeleton {
    /// Makes it below a directory of the caller's. One that is there stays if it is the same; else it is put aside, because places that run
    /// still see it, until [`Skeleton::forget_left`].
    pub fn build(directory: &Path) -> Result<Self> {
        Self::build_while(directory, &|| true)
    }

    /// The same, given up as soon as nobody wants it any more. What the directory lies in must be there: it is never made again for
    /// somebody who has just removed it.
    pub fn build_while(directory: &Path, wanted: &dyn Fn() -> bool) -> Result<Self> {
        let new = directory.join("new");
        let fresh = new.join("etc");
        remove(&new).step(format!("remove {}", new.display()))?;
        for made in [directory, &new, &fresh] {
            match fs::create_dir(made) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                outcome => outcome.step(format!("make {}", made.display()))?,
            }
        }
        for name in COPIED {
            if !wanted() {
                return Err(crate::Error::Ended);
            }
            let source = Path::new("/etc").join(name);
            // The names themselves are followed if they are links; links inside stay links.
            if let Ok(real) = source.canonicalize() {
                copy(&real, &fresh.join(name)).step(format!("copy {}", source.display()))?;
            }
        }
        write_users(&fresh).step("write who there is inside")?;
        // Read inside by somebody else than whoever makes it, whatever the mask is that it is made under.
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).step("let everybody read it")?;
        Self::build_system(&new)?;
        devices::build(&new.join("dev"))?;
        if PARTS.iter().all(|part| same(&directory.join(part), &new.join(part)).unwrap_or(false)) {
            remove(&new).step("remove what is there already")?;
        } else {
            put_in_place(directory, &new).step("put the new one in place")?;
        }
        Ok(Self { etc: directory.join("etc") })
    }

    /// Removes what was put aside. Only when no place of this directory runs.
    pub fn forget_left(directory: &Path) -> Result<()> {
        remove(&directory.join(LEFT)).step("remove what was put aside")
    }

    /// One that was built before.
    pub fn open(directory: &Path) -> Option<Self> {
        let etc = directory.join("etc");
        etc.is_dir().then_some(Self { etc })
    }

    /// What a place with a system of its own has beside: settings of the package tools, and the users that packages know.
    fn build_system(directory: &Path) -> Result<()> {
        let (etc, var) = (directory.join("system-etc"), directory.join("system-var"));
        for path in [&etc, &var] {
            fs::create_dir_all(path).step(format!("make {}", path.display()))?;
        }
        for name in COPIED_FOR_SYSTEM {
            if let Ok(real) = Path::new("/etc").join(name).canonicalize() {
                copy(&real, &etc.join(name)).step(format!("copy /etc/{name}"))?;
            }
        }
        // Names and passwords for sources of packages.
        remove(&etc.join("apt/auth.conf.d")).step("leave passwords out")?;
        let _ = fs::remove_file(etc.join("apt/auth.conf"));
        write_system_users(&etc).step("write who there is inside")?;
        for name in
            ["backups", "cache/apt/archives/partial", "cache/debconf", "lib/apt", "lib/dpkg", "lib/misc", "log/apt", "mail", "spool", "tmp"]
        {
            fs::create_dir_all(var.join(name)).step(format!("make {name}"))?;
        }
        for (name, target) in [("run", "/run"), ("lock", "/run/lock")] {
            symlink(target, var.join(name)).step(format!("link {name}"))?;
        }
        Ok(())
    }

    pub(crate) fn etc(&self) -> &Path {
        &self.etc
    }

    /// A whole /dev; none where it could not be made, and every device is to be taken from the host's own.
    pub(crate) fn devices(&self) -> Option<PathBuf> {
        Some(self.etc.with_file_name("dev")).filter(|devices| devices::are_there(devices))
    }

    /// What lies below the layers of a part of a place's own system, the topmost first; none when the host has no such part.
    pub fn below_system(&self, part: &str) -> Option<Vec<PathBuf>> {
        self.system().into_iter().find(|known| known.name == part).map(|known| known.lower)
    }

    /// The parts of a system of a place's own. Those above come first.
    pub(crate) fn system(&self) -> Vec<Part> {
        let beside = |name: &str| self.etc.with_file_name(name);
        let part = |name, target, lower, owned| Part { name, target, lower, owned };
        let mut parts = vec![
            part("etc", "etc", vec![beside("system-etc"), self.etc.clone()], true),
            part("var", "var", vec![beside("system-var")], true),
        ];
        let there = SYSTEM.iter().filter(|(_, _, lower, _)| Path::new(lower).is_dir());
        parts.extend(there.map(|(name, target, lower, owned)| part(name, target, vec![PathBuf::from(lower)], *owned)));
        parts
    }
}

/// Every part is put aside before the first new one takes its place: one that is cut off here is finished the next time.
fn put_in_place(directory: &Path, new: &Path) -> io::Result<()> {
    if PARTS.iter().any(|part| fs::symlink_metadata(directory.join(part)).is_ok()) {
        let aside = make_aside(&directory.join(LEFT))?;
        for part in PARTS {
            match fs::rename(directory.join(part), aside.join(part)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                outcome => outcome?,
            }
        }
    }
    for part in PARTS {
        fs::rename(new.join(part), directory.join(part))?;
    }
    fs::remove_dir(new)
}

fn make_aside(left: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(left)?;
    let mut number = 0_u64;
    loop {
        let aside = left.join(number.to_string());
        match fs::create_dir(&aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            outcome => return outcome.map(|()| aside),
        }
    }
}

/// Whether two trees hold the same.
fn same(one: &Path, other: &Path) -> io::Result<bool> {
    let (left, right) = (fs::symlink_metadata(one)?, fs::symlink_metadata(other)?);
    if left.file_type() != right.file_type() || (!left.is_symlink() && left.permissions() != right.permissions()) {
        return Ok(false);
    }
    if left.is_symlink() {
        return Ok(fs::read_link(one)? == fs::read_link(other)?);
    }
    if left.is_file() {
        return Ok(left.len() == right.len() && fs::read(one)? == fs::read(other)?);
    }
    if !left.is_dir() {
        return Ok(left.rdev() == right.rdev());
    }
    let names = |path: &Path| -> io::Result<Vec<std::ffi::OsString>> {
        let mut names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    };
    let inside = names(one)?;
    if inside != names(other)? {
        return Ok(false);
    }
    for name in inside {
        if !same(&one.join(&name), &other.join(&name))? {
            return Ok(false);
        }
    }
    Ok(true)
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
            // Thousands of links between pages of manuals that nobody inside has.
            if entry.file_name().as_encoded_bytes().ends_with(b".gz") {
                continue;
            }
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

/// The users and groups of the host that belong to its system and to nobody, without passwords: packages name them.
fn write_system_users(etc: &Path) -> io::Result<()> {
    for (name, login) in [("passwd", true), ("group", false)] {
        let mut text = String::new();
        for line in fs::read_to_string(Path::new("/etc").join(name))?.lines() {
            let mut fields: Vec<&str> = line.split(':').collect();
            let id = fields.get(2).and_then(|id| id.parse::<u32>().ok());
            if id.is_none_or(|id| (INSIDE..65_534).contains(&id) || id > 65_534) {
                continue;
            }
            fields[1] = "x";
            if login && fields[2] == "0" {
                text += "root:x:0:0:root:/root:/bin/bash\n";
                continue;
            }
            if !login && fields.len() > 3 {
                // Who is in which group is the host's business.
                fields[3] = "";
            }
            text += &(fields.join(":") + "\n");
        }
        text += &if login { format!("{USER}:x:{INSIDE}:{INSIDE}::/home/{USER}:/bin/bash\n") } else { format!("{USER}:x:{INSIDE}:\n") };
        fs::write(etc.join(name), &text)?;
        let hidden: String = text
            .lines()
            .filter_map(|line| line.split(':').next())
            .map(|user| if login { format!("{user}:*:19000:0:99999:7:::\n") } else { format!("{user}:*::\n") })
            .collect();
        let path = etc.join(if login { "shadow" } else { "gshadow" });
        fs::write(&path, hidden)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_places_see_is_neither_changed_nor_removed() {
        let directory = tempfile::TempDir::new().unwrap();
        let first = Skeleton::build(directory.path()).unwrap();
        let seen = fs::File::open(first.etc()).unwrap();
        let count = |seen: &fs::File| fs::read_dir(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(seen))).unwrap().count();
        let before = count(&seen);
        Skeleton::build(directory.path()).unwrap();
        assert!(!directory.path().join(LEFT).exists() && !directory.path().join("new").exists(), "it is the same");
        // The host has changed: what is seen stays as it was, and what is new is seen by those that come.
        fs::write(first.etc().join("only-here"), "").unwrap();
        let second = Skeleton::build(directory.path()).unwrap();
        assert_eq!(count(&seen), before + 1);
        assert!(!second.etc().join("only-here").exists() && second.etc().join("passwd").exists());
        Skeleton::forget_left(directory.path()).unwrap();
        assert_eq!(count(&seen), 0);
        assert!(second.etc().join("passwd").exists());
    }

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
