//! Whom programs inside believe that it is a host: everybody that the system does, and the environment's own authority.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use stead_egress::authority::keystore;
use stead_sandbox::Bind;

use crate::blueprint::{Blueprint, TRUST_AUTHORITY, TRUST_BUNDLE, TRUST_KEYSTORE};

/// Where systems keep all that they believe in one file: Debian and Alpine, again, Fedora, an older Fedora, openSUSE.
const BUNDLES: &[&str] = &[
    "etc/ssl/certs/ca-certificates.crt",
    "etc/ssl/cert.pem",
    "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/pki/tls/cert.pem",
    "etc/ssl/ca-bundle.pem",
    "var/lib/ca-certificates/ca-bundle.pem",
];
/// The same for Java.
const KEYSTORES: &[&str] = &["etc/ssl/certs/java/cacerts", "etc/pki/ca-trust/extracted/java/cacerts", "etc/pki/java/cacerts"];
/// A bundle has some hundred kilobytes.
const LARGEST_BUNDLE: u64 = 8 << 20;

/// Writes what is believed inside beside the steward's own files, and says where it is seen.
pub fn binds(blueprint: &Blueprint) -> Result<Vec<Bind>, String> {
    let Some(trusted) = &blueprint.trusted else { return Ok(Vec::new()) };
    let failed = |error: io::Error| format!("write down who is trusted inside: {error}");
    // What is seen as /etc, and what else there is of a root.
    let root = blueprint.image.as_ref().map_or(blueprint.skeleton.as_path(), |image| image.root.as_path());
    let mut bundle = bundle(root).or_else(|| bundle(&blueprint.skeleton)).unwrap_or_default();
    if !bundle.ends_with(b"\n") && !bundle.is_empty() {
        bundle.push(b'\n');
    }
    bundle.extend_from_slice(trusted.certificate.as_bytes());
    let write = |name: &str, bytes: &[u8]| {
        let path = blueprint.run.join(name);
        fs::write(&path, bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        Ok(path)
    };
    let authority = write("authority.crt", trusted.certificate.as_bytes()).map_err(failed)?;
    let store = write("cacerts", &keystore(&bundle)).map_err(failed)?;
    let bundle = write("ca-certificates.crt", &bundle).map_err(failed)?;
    let own = [(&bundle, TRUST_BUNDLE), (&authority, TRUST_AUTHORITY), (&store, TRUST_KEYSTORE)];
    let mut binds: Vec<Bind> = own.iter().map(|(source, target)| Bind::read_only(*source, *target)).collect();
    // A system of its own updates its bundle, and cannot while something lies over it.
    if blueprint.system.is_none() {
        let over = |paths: &[&str], source: &PathBuf| {
            let there = paths.iter().filter(|path| is_plain(root, path));
            there.map(|path| Bind::read_only(source, Path::new("/").join(path))).collect::<Vec<_>>()
        };
        binds.extend(over(BUNDLES, &bundle));
        binds.extend(over(KEYSTORES, &store));
    }
    Ok(binds)
}

/// A file, and no link on the way to it.
fn is_plain(root: &Path, path: &str) -> bool {
    let found = look(root, path, ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH);
    found.is_some_and(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()))
}

/// The first that there is; links lead nowhere but within the root.
fn bundle(root: &Path) -> Option<Vec<u8>> {
    BUNDLES.iter().find_map(|path| {
        let file = look(root, path, ResolveFlags::IN_ROOT)?;
        let metadata = file.metadata().ok()?;
        let mut bytes = Vec::new();
        (metadata.is_file() && metadata.len() > 0).then_some(())?;
        file.take(LARGEST_BUNDLE).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    })
}

fn look(root: &Path, path: &str, resolve: ResolveFlags) -> Option<File> {
    let root = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // Not to wait for whoever is at the other end of a pipe.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat2(&root, path, flags, Mode::empty(), resolve).ok().map(File::from)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn bundles_are_found_and_no_link_leads_out() {
        let above = tempfile::TempDir::new().unwrap();
        let root = above.path().join("root");
        fs::create_dir_all(root.join("etc/ssl/certs")).unwrap();
        fs::write(above.path().join("outside"), "outside").unwrap();
        symlink("../../../../outside", root.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
        assert_eq!(bundle(&root), None);
        symlink("/etc/pki/ca-bundle", root.join("etc/ssl/cert.pem")).unwrap();
        fs::create_dir_all(root.join("etc/pki")).unwrap();
        fs::write(root.join("etc/pki/ca-bundle"), "inside").unwrap();
        assert_eq!(bundle(&root).unwrap(), b"inside");
        assert!(!is_plain(&root, "etc/ssl/cert.pem") && is_plain(&root, "etc/pki/ca-bundle") && !is_plain(&root, "etc/pki"));
    }
}
