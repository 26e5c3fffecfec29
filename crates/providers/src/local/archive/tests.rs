//! Layers through an archive and back, and archives that nobody should have made.

use std::fs;
use std::io::Cursor as Bytes;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};

use super::entry::{ATTRIBUTE, Entry, Kind};
use super::*;
use crate::local::stack::attributes;

static GO: AtomicBool = AtomicBool::new(false);

fn packed(layers: &[PathBuf]) -> Vec<u8> {
    let found = |number: usize| Ok(layers[number].clone());
    let mut whole = Vec::new();
    let mut sink = |piece: Vec<u8>| {
        whole.extend(piece);
        Ok(())
    };
    let measured = pack(b"{}", layers.len(), &found, None, &GO).unwrap();
    let length = pack(b"{}", layers.len(), &found, Some(&mut sink), &GO).unwrap();
    assert_eq!((measured, whole.len() as u64), (length, length));
    whole
}

fn unpacked(archive: &[u8], into: &[PathBuf]) -> Result<()> {
    let mut tape = Tape::new(Bytes::new(archive));
    let (_, digest) = tape.manifest()?;
    let targets: Vec<Target> = into.iter().map(|directory| Target { directory: directory.clone(), counted: true }).collect();
    unpack(&mut tape, digest, &Wanted { targets: &targets, over_host: true, most: None }).map(drop)
}

/// What there is below a directory, as one line for each: how the kernel tells it, and what it holds.
fn told(directory: &Path) -> String {
    let script =
        r"find . -printf '%p|%y|%m|%U:%G|%s|%T@|%l|%n\n' | LC_ALL=C sort; find . -type f -size -100k -exec sha256sum {} + | LC_ALL=C sort";
    let output = Command::new("sh").args(["-c", script]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut marks = Vec::new();
    attributes_below(directory, directory, &mut marks);
    marks.sort();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), marks.join("\n"))
}

fn attributes_below(top: &Path, at: &Path, found: &mut Vec<String>) {
    let metadata = fs::symlink_metadata(at).unwrap();
    if !metadata.is_dir() && !metadata.is_file() {
        return;
    }
    attributes::each(fs::File::open(at).unwrap().as_fd(), |name, value| {
        found.push(format!("{:?} {} {value:?}", at.strip_prefix(top).unwrap(), String::from_utf8_lossy(name)));
        Ok(())
    })
    .unwrap();
    if metadata.is_dir() {
        fs::read_dir(at).unwrap().for_each(|entry| attributes_below(top, &entry.unwrap().path(), found));
    }
}

fn layer(at: &Path) -> PathBuf {
    let layer = at.join("layer");
    let workspace = layer.join("workspace");
    fs::create_dir_all(workspace.join("deep/er/still")).unwrap();
    fs::write(workspace.join("deep/er/still/file"), "text").unwrap();
    fs::write(workspace.join("one"), vec![7; 300_000]).unwrap();
    fs::hard_link(workspace.join("one"), workspace.join("deep/two")).unwrap();
    fs::hard_link(workspace.join("one"), workspace.join("a-third")).unwrap();
    fs::write(workspace.join(std::ffi::OsStr::from_bytes(b"no\xff\xfetext\n")), "").unwrap();
    fs::write(workspace.join("n".repeat(255)), "long").unwrap();
    fs::write(workspace.join("deep").join("m".repeat(200)), "long").unwrap();
    symlink("/etc/passwd", workspace.join("link")).unwrap();
    symlink("x".repeat(3000), workspace.join("long-link")).unwrap();
    let node = |name: &str, kind| mknodat(CWD, workspace.join(name), kind, Mode::from_raw_mode(0o640), makedev(0, 0)).unwrap();
    node("gone", FileType::CharacterDevice);
    node("pipe", FileType::Fifo);
    node("socket", FileType::Socket);
    fs::create_dir(workspace.join("opaque")).unwrap();
    let mark = |path: &str, name: &str, value: &[u8]| setxattr(workspace.join(path), name, value, XattrFlags::empty()).unwrap();
    mark("opaque", "user.overlay.opaque", b"y");
    mark("one", "user.note", b"\0binary\n=");
    fs::write(workspace.join("empty"), "").unwrap();
    mark("empty", "user.overlay.whiteout", b"y");
    let sparse = fs::File::create(workspace.join("sparse")).unwrap();
    sparse.set_len(1 << 34).unwrap();
    sparse.write_all_at(b"middle", 1 << 33).unwrap();
    fs::set_permissions(workspace.join("deep/er"), fs::Permissions::from_mode(0o1711)).unwrap();
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o750)).unwrap();
    layer
}

#[test]
fn a_layer_is_the_same_behind_an_archive() {
    let directory = tempfile::TempDir::new().unwrap();
    let layer = layer(directory.path());
    let (archive, again) = (packed(std::slice::from_ref(&layer)), directory.path().join("again"));
    assert!(archive.len() < 2 << 20, "holes are not carried: {}", archive.len());
    unpacked(&archive, std::slice::from_ref(&again)).unwrap();
    assert_eq!(told(&again.join("workspace")), told(&layer.join("workspace")));
    let sparse = fs::metadata(again.join("workspace/sparse")).unwrap();
    assert!(sparse.len() == 1 << 34 && sparse.blocks() < 1000);
    assert!(!again.join("links").exists());
    // And what was unpacked is packed to the same bytes.
    assert!(packed(&[again]) == archive);
    // Others read it as well.
    let file = directory.path().join("archive.tar");
    fs::write(&file, &archive).unwrap();
    let listed = Command::new("tar").arg("tf").arg(&file).output().unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains("layers/0/workspace/deep/er/still/file"), "{listed:?}");
}

#[test]
fn several_layers_come_in_order_and_what_the_kernel_keeps_for_itself_stays() {
    let directory = tempfile::TempDir::new().unwrap();
    let layers: Vec<PathBuf> = (0..3).map(|number| directory.path().join(number.to_string())).collect();
    for (number, layer) in layers.iter().enumerate() {
        fs::create_dir_all(layer.join("workspace/d")).unwrap();
        fs::write(layer.join("workspace/d/number"), number.to_string()).unwrap();
        setxattr(layer.join("workspace/d"), "user.overlay.origin", b"handle", XattrFlags::empty()).unwrap();
        setxattr(layer.join("workspace/d"), "user.overlay.impure", b"y", XattrFlags::empty()).unwrap();
        fs::set_permissions(layer.join("workspace/d/number"), fs::Permissions::from_mode(0o6755)).unwrap();
    }
    let into: Vec<PathBuf> = (0..3).map(|number| directory.path().join(format!("again-{number}"))).collect();
    unpacked(&packed(&layers), &into).unwrap();
    for (number, layer) in into.iter().enumerate() {
        let file = layer.join("workspace/d/number");
        assert_eq!(fs::read_to_string(&file).unwrap(), number.to_string());
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o755, "nothing runs as somebody else");
        assert!(!told(layer).contains("overlay"), "{}", told(layer));
    }
}

#[test]
fn every_cut_and_every_changed_byte_is_noticed() {
    let directory = tempfile::TempDir::new().unwrap();
    let layer = directory.path().join("layer");
    fs::create_dir_all(layer.join("workspace/d")).unwrap();
    fs::write(layer.join("workspace/d/file"), "some text").unwrap();
    let archive = packed(&[layer]);
    let mut number = 0;
    let mut attempt = |bytes: &[u8]| {
        number += 1;
        unpacked(bytes, &[directory.path().join(format!("again-{number}"))])
    };
    attempt(&archive).unwrap();
    for length in (0..archive.len()).step_by(97).chain([archive.len() - 1, archive.len() - 512]) {
        attempt(&archive[..length]).expect_err("a part is not the whole");
    }
    for at in (0..archive.len()).step_by(31) {
        let mut changed = archive.clone();
        changed[at] ^= 0x20;
        attempt(&changed).expect_err("every byte counts");
    }
    attempt(&[archive.as_slice(), &[0]].concat()).expect_err("nothing comes after the end");
}

/// An archive with one layer of these entries, each with what it holds, and digests that are right.
fn forged(entries: &[(Entry, &[u8])]) -> Vec<u8> {
    let mut whole = Vec::new();
    let mut add = |entry: &Entry, content: &[u8], hash: Option<&mut Sha256>| {
        let mut blocks = entry.write();
        blocks.extend(content);
        blocks.resize(blocks.len().next_multiple_of(512), 0);
        if let Some(hash) = hash {
            hash.update(&blocks);
        }
        whole.extend(blocks);
    };
    add(&Entry::plain(MANIFEST, 2), b"{}", None);
    let mut hash = Sha256::new();
    for (entry, content) in entries {
        add(entry, content, Some(&mut hash));
    }
    let digests = [written(Sha256::new_with_prefix(b"{}")), written(hash)];
    add(&Entry::plain(&digest_name(0), digests[1].len()), digests[1].as_bytes(), None);
    let end = end(&digests);
    add(&Entry::plain(END, end.len()), end.as_bytes(), None);
    whole.extend([0; 1024]);
    whole
}

fn directory_entry(path: &str) -> Entry {
    Entry::new(path.as_bytes(), Kind::Directory, 0o755)
}

fn file_entry(path: &str) -> Entry {
    Entry { size: 4, ..Entry::new(path.as_bytes(), Kind::File, 0o644) }
}

#[test]
fn what_no_archive_of_ours_holds_is_refused_by_name() {
    let directory = tempfile::TempDir::new().unwrap();
    let outside = directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    let workspace = || directory_entry("layers/0/workspace/");
    let link = |path: &str, target: &Path| Entry {
        target: target.as_os_str().as_bytes().to_vec(),
        ..Entry::new(path.as_bytes(), Kind::Symlink, 0o777)
    };
    let with = |entry: Entry, name: &str, value: &[u8]| Entry { attributes: vec![(name.as_bytes().to_vec(), value.to_vec())], ..entry };
    let inside = |name: &str| file_entry(&format!("layers/0/workspace/{name}"));
    let cases: Vec<(&str, Vec<Entry>)> = vec![
        ("a way up", vec![workspace(), inside("../../../outside/new")]),
        ("a name that is a way up", vec![workspace(), directory_entry("layers/0/workspace/../")]),
        ("a way up to the side", vec![workspace(), inside("..")]),
        ("an absolute name", vec![workspace(), file_entry("/etc/passwd")]),
        ("another layer", vec![workspace(), file_entry("layers/1/workspace/file")]),
        ("no part", vec![file_entry("layers/0/file")]),
        ("an unknown part", vec![workspace(), directory_entry("layers/0/work/")]),
        ("a part with a way up", vec![workspace(), directory_entry("layers/0/system/../upper/")]),
        ("a part twice", vec![workspace(), workspace()]),
        ("no workspace", vec![directory_entry("layers/0/system/image-aa/upper/")]),
        ("through a link", vec![workspace(), link("layers/0/workspace/l", &outside), inside("l/new")]),
        ("over a link", vec![workspace(), link("layers/0/workspace/l", &outside.join("kept")), inside("l")]),
        (
            "a directory over a link",
            vec![workspace(), link("layers/0/workspace/l", &outside), directory_entry("layers/0/workspace/l/"), inside("l/new")],
        ),
        ("a file twice", vec![workspace(), inside("a"), inside("a")]),
        ("a directory that was left", vec![workspace(), directory_entry("layers/0/workspace/d/"), inside("a"), inside("d/b")]),
        ("in a file", vec![workspace(), inside("a"), inside("a/b")]),
        ("in nothing", vec![workspace(), inside("a/b")]),
        ("a long name", vec![workspace(), inside(&"n".repeat(256))]),
        ("an empty name", vec![workspace(), inside("")]),
        ("a set-user-id bit", vec![workspace(), Entry { mode: 0o4755, ..inside("a") }]),
        ("a set-group-id bit", vec![workspace(), Entry { mode: 0o2755, ..inside("a") }]),
        ("a set-user-id directory", vec![workspace(), Entry { mode: 0o4755, ..directory_entry("layers/0/workspace/d/") }]),
        ("somebody's file", vec![workspace(), Entry { uid: 1, ..inside("a") }]),
        ("somebody's workspace", vec![Entry { gid: 1000, ..workspace() }]),
        ("an id that no system has", vec![workspace(), Entry { uid: 65_536, ..directory_entry("layers/0/system/etc/upper/") }]),
        (
            "a name of nothing",
            vec![workspace(), Entry { link: Some(3), size: 0, ..Entry::new(b"layers/0/workspace/a", Kind::Link, 0o644) }],
        ),
        ("a redirect", vec![workspace(), with(directory_entry("layers/0/workspace/d/"), "user.overlay.redirect", b"/etc")]),
        ("a metadata copy", vec![workspace(), with(inside("a"), "user.overlay.metacopy", b"")]),
        ("an origin", vec![workspace(), with(inside("a"), "user.overlay.origin", b"x")]),
        ("an opaque file", vec![workspace(), with(inside("a"), "user.overlay.opaque", b"y")]),
        ("a strange opaque mark", vec![workspace(), with(directory_entry("layers/0/workspace/d/"), "user.overlay.opaque", b"z")]),
        ("a whiteout that holds something", vec![workspace(), with(inside("a"), "user.overlay.whiteout", b"y")]),
        ("a trusted attribute", vec![workspace(), with(inside("a"), "trusted.overlay.opaque", b"y")]),
        ("a capability", vec![workspace(), with(inside("a"), "security.capability", b"x")]),
        ("an access list", vec![workspace(), with(inside("a"), "system.posix_acl_access", b"x")]),
        ("attributes of a pipe", vec![workspace(), with(Entry::new(b"layers/0/workspace/p", Kind::Fifo, 0o644), "user.a", b"")]),
        (
            "what a system knows itself by",
            vec![workspace(), directory_entry("layers/0/system/etc/upper/"), file_entry("layers/0/system/etc/upper/machine-id")],
        ),
        ("a whiteout that holds something", vec![workspace(), Entry { size: 4, ..Entry::new(b"layers/0/workspace/w", Kind::Whiteout, 0) }]),
        ("holes that are none", vec![workspace(), Entry { whole: Some(1 << 62), ..inside("a") }]),
    ];
    for (number, (what, entries)) in cases.iter().enumerate() {
        let content = |entry: &Entry| if entry.size > 0 { &b"text"[..] } else { b"" };
        let entries: Vec<(Entry, &[u8])> = entries.iter().map(|entry| (entry.clone(), content(entry))).collect();
        let archive = forged(&entries);
        let refused = unpacked(&archive, &[directory.path().join(number.to_string())]);
        assert!(matches!(refused, Err(Trouble::Entry { .. } | Trouble::Archive(_))), "{what}: {refused:?}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
    // The same with nothing wrong about it.
    let good = forged(&[
        (workspace(), b""),
        (inside("a"), b"text"),
        (with(directory_entry("layers/0/workspace/d/"), "user.overlay.opaque", b"y"), b""),
    ]);
    unpacked(&good, &[directory.path().join("good")]).unwrap();
}

#[test]
fn devices_and_records_that_nobody_knows_are_refused() {
    let directory = tempfile::TempDir::new().unwrap();
    let workspace = directory_entry("layers/0/workspace/");
    let good = forged(&[(workspace.clone(), b""), (Entry::new(b"layers/0/workspace/gone", Kind::Whiteout, 0), b"")]);
    let header = good.windows(23).position(|window| window == b"layers/0/workspace/gone").unwrap();
    let mended = |at: usize, value: &[u8]| {
        let mut archive = good.clone();
        archive[header + at..header + at + value.len()].copy_from_slice(value);
        archive[header + 148..header + 156].fill(b' ');
        let sum: u32 = archive[header..header + 512].iter().map(|byte| u32::from(*byte)).sum();
        archive[header + 148..header + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive
    };
    for (number, (at, value)) in
        [(329, &b"0000001"[..]), (337, b"0000003"), (156, b"4"), (156, b"7"), (156, b"g"), (345, b"prefix")].iter().enumerate()
    {
        let refused = unpacked(&mended(*at, value), &[directory.path().join(number.to_string())]);
        assert!(matches!(refused, Err(Trouble::Entry { .. } | Trouble::Archive(_))), "{at}: {refused:?}");
    }
    let strange = Entry { attributes: vec![(b"user.a".to_vec(), Vec::new())], ..file_entry("layers/0/workspace/a") };
    let archive = forged(&[(workspace, b""), (strange, b"text")]);
    let at = archive.windows(ATTRIBUTE.len()).position(|window| window == ATTRIBUTE).unwrap();
    let mut unknown = archive;
    unknown[at] = b'X';
    assert!(unpacked(&unknown, &[directory.path().join("unknown")]).is_err());
}

#[test]
fn a_tree_of_any_depth_is_carried_as_far_as_names_go() {
    let directory = tempfile::TempDir::new().unwrap();
    let layer = directory.path().join("layer");
    fs::create_dir_all(layer.join("workspace")).unwrap();
    let mut at = crate::local::cursor::Cursor::open(&layer.join("workspace")).unwrap();
    let mut deeper = |name: &str, levels: usize| {
        for _ in 0..levels {
            rustix::fs::mkdirat(at.as_fd(), name, Mode::RWXU).unwrap();
            at.enter(name.as_ref()).unwrap();
        }
    };
    deeper("d", 600);
    unpacked(&packed(std::slice::from_ref(&layer)), &[directory.path().join("again")]).unwrap();
    deeper(&"n".repeat(250), 300);
    let found = |_: usize| Ok(layer.clone());
    let error = PlaceError::from(pack(b"{}", 1, &found, None, &GO).unwrap_err());
    assert!(matches!(&error, PlaceError::InTheWay { message, .. } if message.contains("too deep")), "{error:?}");
    for left in ["layer", "again"] {
        let directory = directory.path().join(left);
        assert_eq!(crate::local::removal::empty(&directory, &GO).count, 0);
    }
}

#[test]
fn files_beyond_the_bound_of_the_disk_are_refused() {
    let directory = tempfile::TempDir::new().unwrap();
    let layer = layer(directory.path());
    let archive = packed(&[layer]);
    let into = directory.path().join("again");
    let mut tape = Tape::new(Bytes::new(&archive));
    let (_, digest) = tape.manifest().unwrap();
    let targets = [Target { directory: into, counted: true }];
    let refused = unpack(&mut tape, digest, &Wanted { targets: &targets, over_host: false, most: Some(200_000) });
    assert!(matches!(refused, Err(Trouble::Unsupported { .. })), "{refused:?}");
}

#[test]
fn what_is_compressed_is_named_so() {
    let gzip = [&[0x1f, 0x8b][..], &[0; 600]].concat();
    let error = Tape::new(Bytes::new(gzip)).manifest().unwrap_err();
    assert!(error.to_string().contains("compressed"), "{error}");
}
