//! The data directory: there, ours, in a good place, with room.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Access, access, statfs, statvfs};

use super::check::Check;
use super::repair::Repair;
use crate::printer::human;

const LITTLE_SPACE: u64 = 1 << 30;
const TOO_LITTLE_SPACE: u64 = 100 << 20;
/// File systems over a network: locks and memory maps, which the database needs, do not hold there.
const REMOTE_FILE_SYSTEMS: [u64; 4] = [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546];
const SYNCED_NAMES: [&str; 7] = ["dropbox", "onedrive", "google drive", "googledrive", "nextcloud", "owncloud", "icloud"];

pub fn examine(directory: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    match directory.metadata() {
        Ok(metadata) if metadata.is_dir() => checks.extend([exists(directory), mode(directory, &metadata)]),
        Ok(_) => checks.push(Check::fail(
            "SD01",
            "data directory",
            format!("{} is not a directory", directory.display()),
            "move it away, or choose another with --data-dir",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            checks.push(Check::warn("SD01", "data directory", format!("{} is not there yet", directory.display()), "stead up"));
        }
        Err(error) => checks.push(Check::fail(
            "SD01",
            "data directory",
            format!("{}: {error}", directory.display()),
            "check the directories above it, or choose another with --data-dir",
        )),
    }
    checks.push(place(directory));
    checks.extend(space(directory));
    checks
}

fn exists(directory: &Path) -> Check {
    match access(directory, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Check::ok("SD01", "data directory", directory.display().to_string()),
        Err(error) => Check::fail(
            "SD01",
            "data directory",
            format!("{} cannot be written: {error}", directory.display()),
            "check its owner and whether the file system is mounted read-only",
        ),
    }
}

fn mode(directory: &Path, metadata: &Metadata) -> Check {
    let mode = metadata.permissions().mode() & 0o7777;
    let owner = rustix::process::geteuid().as_raw();
    if metadata.uid() != owner {
        let message = format!("it belongs to user {}, and you are {owner}", metadata.uid());
        return Check::fail("SD02", "permissions", message, "run as its owner, or choose another with --data-dir");
    }
    if mode & 0o077 == 0 {
        return Check::ok("SD02", "permissions", format!("{mode:04o}, yours alone"));
    }
    let path = directory.to_owned();
    Check::fail("SD02", "permissions", format!("{mode:04o}: others can reach into it"), format!("chmod 0700 {}", directory.display()))
        .repaired_by(Repair::SetMode { path, mode: 0o700 })
}

/// Synced directories copy a database while it is written; in one that everybody may write, somebody else can swap it.
fn place(directory: &Path) -> Check {
    let elsewhere = "choose another place with --data-dir or STEAD_DATA_DIR";
    for above in directory.ancestors() {
        let name = above.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if SYNCED_NAMES.iter().any(|synced| name.starts_with(synced)) || above.join(".stfolder").exists() {
            let message = format!("{} is synced to elsewhere, which breaks a database that is in use", above.display());
            return Check::warn("SD03", "place", message, elsewhere);
        }
        let open = above.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o1002 == 0o0002);
        if open && above != directory {
            let message = format!("everybody may rename what is in {}", above.display());
            return Check::warn("SD03", "place", message, elsewhere);
        }
    }
    let remote = nearest(directory).and_then(|path| statfs(path).ok()).is_some_and(|found| {
        // The field's type and sign differ between machines; the number is 32 bits everywhere.
        REMOTE_FILE_SYSTEMS.contains(&(found.f_type as u64 & 0xffff_ffff))
    });
    if remote {
        return Check::warn("SD03", "place", "it is on a file system whose locks may not hold", elsewhere);
    }
    Check::ok("SD03", "place", "on this machine, not synced")
}

fn space(directory: &Path) -> Option<Check> {
    let found = statvfs(nearest(directory)?).ok()?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let message = format!("{} free", human::bytes(free));
    let next = "make room, `stead system df` and `stead prune` help";
    Some(match free {
        ..TOO_LITTLE_SPACE => Check::fail("SD04", "disk space", message, next),
        TOO_LITTLE_SPACE..LITTLE_SPACE => Check::warn("SD04", "disk space", message, next),
        _ => Check::ok("SD04", "disk space", message),
    })
}

/// The directory, or what is above it while it does not exist.
fn nearest(directory: &Path) -> Option<&Path> {
    directory.ancestors().find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::check::Status;
    use super::*;

    #[test]
    fn a_directory_that_others_can_read_is_mended() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let find = || examine(&path).into_iter().find(|check| check.code == "SD02").unwrap();
        let check = find();
        assert_eq!(check.status, Status::Fail);
        check.repair.unwrap().carry_out().unwrap();
        assert_eq!(find().status, Status::Ok);
    }

    #[test]
    fn a_synced_place_is_named() {
        let root = tempfile::tempdir().unwrap();
        let check = place(&root.path().join("Dropbox/stead"));
        assert_eq!(check.status, Status::Warn);
        assert!(check.message.contains("Dropbox"), "{}", check.message);
    }
}
