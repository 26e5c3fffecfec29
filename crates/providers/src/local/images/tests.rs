//! Archives as tools write them, and as somebody writes them who means harm.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::*;

struct Desk {
    directory: tempfile::TempDir,
    images: Images,
}

impl Desk {
    fn new() -> Self {
        let directory = tempfile::TempDir::new().unwrap();
        fs::create_dir(directory.path().join("trash")).unwrap();
        let images = Images::open(directory.path().join("images"), directory.path().join("trash")).unwrap();
        Self { images, directory }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn archive(&self, bytes: &[u8]) -> PathBuf {
        let path = self.at("archive");
        fs::write(&path, bytes).unwrap();
        path
    }

    fn unpacked(&self, bytes: &[u8]) -> PathBuf {
        self.images.prepare(&self.archive(bytes), None, false).unwrap().root
    }

    /// Nothing is left of an archive that was refused.
    fn refused(&self, bytes: &[u8]) -> Trouble {
        let trouble = self.images.prepare(&self.archive(bytes), None, false).unwrap_err();
        assert_eq!(fs::read_dir(self.at("images")).unwrap().count(), 0, "{trouble}");
        trouble
    }
}

/// One entry: a name, a kind as `tar` writes it, a mode, a link and a content.
fn entry(name: &str, kind: u8, mode: u32, link: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(format!("{mode:07o}\0").as_bytes());
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    header[136..148].copy_from_slice(b"00000001750\0");
    header[156] = kind;
    header[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header[257..265].copy_from_slice(b"ustar\x0000");
    let mut entry = summed(header).to_vec();
    entry.extend_from_slice(content);
    entry.resize(entry.len().next_multiple_of(512), 0);
    entry
}

fn summed(mut header: [u8; 512]) -> [u8; 512] {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

fn file(name: &str, content: &str) -> Vec<u8> {
    entry(name, b'0', 0o644, "", content.as_bytes())
}

#[test]
fn what_tar_writes_is_unpacked_once_and_is_what_it_was() {
    let desk = Desk::new();
    let long = format!("usr/{}/{}", "deep".repeat(40), "name".repeat(40));
    fs::create_dir_all(desk.at("system").join(&long)).unwrap();
    fs::create_dir_all(desk.at("system/etc")).unwrap();
    fs::write(desk.at("system").join(&long).join("file"), "long").unwrap();
    fs::write(desk.at("system/usr/program"), "text").unwrap();
    fs::set_permissions(desk.at("system/usr/program"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(desk.at("system/usr/program"), desk.at("system/usr/same")).unwrap();
    symlink("usr", desk.at("system/bin")).unwrap();
    symlink("../run/resolv.conf", desk.at("system/etc/resolv.conf")).unwrap();
    for (format, options) in [("gnu", "-cf"), ("posix", "-cf"), ("gnu", "-czf")] {
        let path = desk.at(&format!("{format}{options}"));
        let mut tar = Command::new("tar");
        tar.arg(format!("--format={format}")).arg("-C").arg(desk.at("system")).arg(options).arg(&path).arg(".");
        assert!(tar.status().unwrap().success());
        let image = desk.images.prepare(&path, None, false).unwrap();
        let said = Command::new("sha256sum").arg(&path).output().unwrap().stdout;
        let digest = format!("sha256:{}", String::from_utf8_lossy(&said[..64]));
        assert_eq!((image.digest.as_deref(), image.unpacked), (Some(digest.as_str()), true));
        assert_eq!(fs::read_to_string(image.root.join(&long).join("file")).unwrap(), "long");
        let program = fs::metadata(image.root.join("usr/program")).unwrap();
        assert_eq!((program.mode() & 0o7777, program.nlink()), (0o755, 2), "no program becomes somebody else");
        assert_eq!(fs::read_link(image.root.join("bin")).unwrap(), Path::new("usr"));
        for name in ["resolv.conf", "hosts", "passwd", "group"] {
            assert!(fs::symlink_metadata(image.root.join("etc").join(name)).unwrap().is_file(), "{name}: ours is put over it");
        }
        // The same again is the same; and what was unpacked is there without the archive, for who had it before.
        assert_eq!(desk.images.prepare(&path, Some(&digest), false).unwrap(), image);
        fs::remove_file(&path).unwrap();
        assert_eq!(desk.images.prepare(&path, Some(&digest), true).unwrap(), image);
        assert!(desk.images.prepare(&path, Some(&digest), false).is_err());
    }
    assert_eq!(fs::read_dir(desk.at("images")).unwrap().count(), 3);
}

#[test]
fn another_digest_is_refused_with_both() {
    let desk = Desk::new();
    let declared = format!("sha256:{}", "0".repeat(64));
    let path = desk.archive(&file("file", "text"));
    let Err(Trouble::Different { declared: said, found }) = desk.images.prepare(&path, Some(&declared), false) else { panic!() };
    assert!(said == declared && found.len() == 71);
    assert_eq!(fs::read_dir(desk.at("images")).unwrap().count(), 0);
    desk.images.prepare(&path, Some(&found.to_uppercase().replace("SHA", "sha")), false).unwrap();
    // A file that is another one by now, under the same name.
    fs::write(&path, file("file", "tixt")).unwrap();
    assert!(matches!(desk.images.prepare(&path, Some(&found), false), Err(Trouble::Different { .. })));
}

#[test]
fn nothing_is_written_outside() {
    let desk = Desk::new();
    let outside = desk.at("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    let leads_out = outside.display().to_string();
    let link = |name: &str, target: &str| entry(name, b'2', 0o777, target, b"");
    for (archive, entry_named) in [
        (file("../escaped", "x"), "../escaped"),
        (file("a/../../escaped", "x"), "a/../../escaped"),
        ([link("link", &leads_out), file("link/escaped", "x")].concat(), "link/escaped"),
        ([link("link", "."), link("link/up", &leads_out), file("link/up/escaped", "x")].concat(), "link/up"),
        ([link("link", &leads_out), entry("link", b'5', 0o777, "", b""), file("link/x", "x")].concat(), "link"),
        (entry("hard", b'1', 0o644, "../outside/secret", b""), "hard"),
        (entry("hard", b'1', 0o644, &format!("{leads_out}/secret"), b""), "hard"),
        ([link("link", &leads_out), entry("hard", b'1', 0o644, "link/secret", b"")].concat(), "hard"),
        ([file("file", "x"), file("file/below", "x")].concat(), "file/below"),
        ([entry("d", b'5', 0o755, "", b""), file("d", "x")].concat(), "d"),
        (entry("odd", b'S', 0o644, "", b""), "odd"),
    ] {
        match desk.refused(&archive) {
            Trouble::Entry { entry, .. } => assert_eq!(entry, entry_named),
            other => panic!("{entry_named}: {other}"),
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{entry_named}");
    }
    // A link itself is kept as it is, and a file in its place replaces it and not what it leads to.
    let root = desk.unpacked(&[link("link", &format!("{leads_out}/secret")), file("link", "own"), file("/absolute", "in")].concat());
    assert_eq!(
        (fs::read_to_string(root.join("link")).unwrap().as_str(), fs::read_to_string(root.join("absolute")).unwrap().as_str()),
        ("own", "in")
    );
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret");
    assert_eq!(fs::metadata(outside.join("secret")).unwrap().nlink(), 1);
}

#[test]
fn devices_are_left_out_and_nonsense_is_refused() {
    let desk = Desk::new();
    let root = desk.unpacked(&[entry("dev/mem", b'3', 0o666, "", b""), entry("disk", b'4', 0o666, "", b""), file("file", "")].concat());
    assert!(!root.join("dev/mem").exists() && !root.join("disk").exists() && root.join("file").exists());
    fs::remove_dir_all(root).unwrap();

    let mut huge: [u8; 512] = file("huge", "")[..512].try_into().unwrap();
    huge[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let huge = summed(huge);
    assert!(matches!(desk.refused(&huge), Trouble::Entry { entry, why } if entry == "huge" && why.contains("free")));
    let mut overflowing: [u8; 512] = huge;
    overflowing[124..136].fill(0xff);
    assert!(matches!(desk.refused(&summed(overflowing)), Trouble::Entry { .. }));
    let whole = file("file", &"x".repeat(5000));
    for cut in [100, 600, 5000] {
        assert!(matches!(desk.refused(&whole[..cut]), Trouble::Unreadable(_) | Trouble::Entry { .. }), "{cut}");
    }
    for nonsense in [&b""[..], b"not a tar", &[7; 4096], b"\x28\xb5\x2f\xfd....", b"\x1f\x8b\x08\0\0\0\0\0"] {
        assert!(matches!(desk.refused(nonsense), Trouble::Unreadable(_) | Trouble::Io(_)), "{nonsense:?}");
    }
    assert!(desk.refused(&file("oci-layout", "{}")).to_string().contains("podman export"));
    let pax = entry("pax", b'x', 0o644, "", b"999 path=x\n");
    assert!(matches!(desk.refused(&[pax, file("file", "x")].concat()), Trouble::Entry { .. }));
}

#[test]
fn a_directory_is_used_as_it_is_and_held_to_its_digest() {
    let desk = Desk::new();
    let system = desk.at("system");
    fs::create_dir_all(system.join("etc")).unwrap();
    let plain = desk.images.prepare(&system, None, false).unwrap();
    assert_eq!(plain, Image { root: system.clone(), digest: None, unpacked: false });
    let digest = tree_digest::digest(&system).unwrap();
    for _ in 0..2 {
        assert_eq!(desk.images.prepare(&system, Some(&digest), true).unwrap().digest.as_deref(), Some(digest.as_str()));
    }
    fs::write(system.join("etc/new"), "").unwrap();
    assert!(matches!(desk.images.prepare(&system, Some(&digest), true), Err(Trouble::Different { found, .. }) if found != digest));
    symlink(&system, desk.at("link")).unwrap();
    assert!(desk.images.prepare(&desk.at("link"), None, false).is_err());
}

#[test]
fn unfinished_ones_go_and_two_at_once_make_one() {
    let desk = Desk::new();
    fs::create_dir_all(desk.at("images/.unpacking-1-0/usr")).unwrap();
    let images = Images::open(desk.at("images"), desk.at("trash")).unwrap();
    assert_eq!(fs::read_dir(desk.at("images")).unwrap().count(), 0);
    let path = desk.archive(&file("file", "text"));
    std::thread::scope(|scope| {
        // Two that know nothing of each other, as two servers would.
        for images in [&images, &desk.images] {
            for _ in 0..4 {
                scope.spawn(|| images.prepare(&path, None, false).unwrap());
            }
        }
    });
    assert_eq!(fs::read_dir(desk.at("images")).unwrap().count(), 1);
}

#[test]
fn what_is_used_or_new_stays() {
    let desk = Desk::new();
    let root = desk.unpacked(&file("file", "text"));
    let digest = format!("sha256:{}", root.file_name().unwrap().display());
    assert!(desk.images.unwanted_lately().unwrap().is_empty());
    File::open(&root).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(desk.images.unwanted_lately().unwrap(), std::slice::from_ref(&digest));
    let used = File::open(&root).unwrap();
    flock(&used, FlockOperation::NonBlockingLockShared).unwrap();
    assert!(!desk.images.remove(&digest).unwrap() && root.is_dir());
    drop(used);
    // Wanted again between being listed and being removed.
    desk.images.prepare(&desk.at("archive"), Some(&digest), true).unwrap();
    assert!(!desk.images.remove(&digest).unwrap() && root.is_dir());
    File::open(&root).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert!(desk.images.remove(&digest).unwrap() && !root.exists());
    // And between being removed and being used: it is unpacked once more.
    assert!(desk.images.prepare(&desk.at("archive"), Some(&digest), true).is_ok() && root.is_dir());
    File::open(&root).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert!(desk.images.remove(&digest).unwrap());
    assert!(!desk.images.remove(&digest).unwrap());
}
