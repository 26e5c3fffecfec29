//! Trees that go in and out of real places as archives, and archives that nobody should trust.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use stead_domain::files::{FileOrder, FileProblem, FileWord};
use stead_domain::ids::EnvironmentId;
use stead_place::Warrant;
use stead_place::blueprint::Blueprint;
use stead_place::protocol::Errand;
use tar::{EntryType, Header};

mod house;

use house::House;
use house::said::{carried_out, errand, path};

fn unpack(directory: &str) -> FileOrder {
    FileOrder::Unpack { path: path(directory) }
}

fn pack(directory: &str) -> FileOrder {
    FileOrder::Pack { path: path(directory) }
}

/// One entry of an archive, with names that no library would write.
fn entry(kind: EntryType, name: &[u8], link: &[u8], mode: u32, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(981_173_106);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(content.len() as u64);
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    let mut bytes = [header.as_bytes().as_slice(), content].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &str, content: &str) -> Vec<u8> {
    entry(EntryType::Regular, name.as_bytes(), b"", 0o644, content.as_bytes())
}

fn ended(entries: &[Vec<u8>]) -> Vec<u8> {
    [entries.concat(), vec![0; 1024]].concat()
}

#[tokio::test]
async fn a_tree_comes_back_as_it_was() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let tree = house.data.join("workspace/tree");
    let long = "n".repeat(200);
    fs::create_dir_all(tree.join("deep").join(&long)).unwrap();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(tree.join("deep").join(&long).join(&long), &content).unwrap();
    fs::write(tree.join("empty"), "").unwrap();
    fs::write(tree.join(std::ffi::OsStr::from_bytes(b"odd \xff\n")), "odd").unwrap();
    fs::hard_link(tree.join("deep").join(&long).join(&long), tree.join("z-hard")).unwrap();
    symlink("does//not/./matter", tree.join("link")).unwrap();
    symlink(format!("/{long}/{long}"), tree.join("long-link")).unwrap();
    fs::set_permissions(tree.join("empty"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(tree.join("deep"), fs::Permissions::from_mode(0o750)).unwrap();
    let start = house.start("cd tree; mkfifo -m 600 pipe; touch -h -d 2001-02-03T04:05:06Z deep empty link; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'");
    house.stewards.start(&blueprint, &start).await.unwrap();
    house.until_over(blueprint.environment, start.process).await;
    let archive = errand(&house, &blueprint, pack("tree"), None).await.unwrap().bytes;
    errand(&house, &blueprint, unpack("/tmp/new/place"), Some(&archive)).await.unwrap();
    let again = errand(&house, &blueprint, pack("/tmp/new/place"), None).await.unwrap().bytes;
    // The names are sorted and the times have no fraction: what is the same is the same archive.
    assert!(again == archive, "{} and {} bytes", again.len(), archive.len());
    // And it is what everybody else understands.
    let read = house.data.join("read");
    fs::create_dir(&read).unwrap();
    fs::write(house.data.join("archive"), &archive).unwrap();
    let status = std::process::Command::new("tar").arg("-xpf").arg(house.data.join("archive")).arg("-C").arg(&read).status();
    assert!(status.unwrap().success());
    assert_eq!(fs::read(read.join("z-hard")).unwrap(), content);
    assert_eq!(fs::metadata(read.join("z-hard")).unwrap().nlink(), 2);
    assert_eq!(fs::read_link(read.join("link")).unwrap(), Path::new("does//not/./matter"));
    let names = fs::read_dir(&read).unwrap().count();
    assert_eq!(names, 7, "the socket is left out");
    assert_eq!(fs::metadata(read.join("deep")).unwrap().mtime(), 981_173_106);
    // A file alone.
    let one = errand(&house, &blueprint, pack("tree/empty"), None).await.unwrap().bytes;
    assert_eq!((one.len(), &one[..5]), (1536, b"empty".as_slice()));
    assert_eq!(errand(&house, &blueprint, pack("nothing"), None).await.unwrap_err(), FileProblem::NotFound);
    assert_eq!(errand(&house, &blueprint, pack("tree/pipe"), None).await.unwrap_err(), FileProblem::NotAFile);
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

/// What must not change, wherever an archive would like to write.
struct Outside<'h> {
    house: &'h House,
    blueprint: &'h Blueprint,
}

impl Outside<'_> {
    async fn is_untouched(&self, what: &str) {
        let workspace = self.house.data.join("workspace");
        assert_eq!(fs::read_to_string(workspace.join("outside/keep")).unwrap(), "keep", "{what}");
        assert_eq!(fs::read_dir(workspace.join("outside")).unwrap().count(), 1, "{what}");
        let mut names: Vec<_> = fs::read_dir(&workspace).unwrap().map(|found| found.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["outside", "target"], "{what}");
        let listed = FileOrder::List { path: path("/tmp"), recursive: true, after: None, limit: 10 };
        assert!(errand(self.house, self.blueprint, listed, None).await.unwrap().entries.is_empty(), "{what}");
    }
}

#[tokio::test]
async fn whatever_an_archive_says_it_stays_below_its_directory() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let workspace = house.data.join("workspace");
    fs::create_dir(workspace.join("outside")).unwrap();
    fs::write(workspace.join("outside/keep"), "keep").unwrap();
    let outside = Outside { house: &house, blueprint: &blueprint };
    let link = |kind, name: &str, to: &str| entry(kind, name.as_bytes(), to.as_bytes(), 0o777, b"");
    let directory = |name: &str| entry(EntryType::Directory, name.as_bytes(), b"", 0o755, b"");
    let mut huge_name = entry(EntryType::GNULongName, b"././@LongLink", b"", 0, b"");
    huge_name[124..136].copy_from_slice(b"77777777777\0");
    let mut header = Header::from_byte_slice(&huge_name[..512].try_into().map(|block: [u8; 512]| block).unwrap()).clone();
    header.set_cksum();
    let huge_name = header.as_bytes().to_vec();
    let pax = |text: &str| entry(EntryType::XHeader, b"pax", b"", 0o644, text.as_bytes());
    let cases: Vec<(&str, Vec<Vec<u8>>, &str)> = vec![
        ("up", vec![file("../outside/new", "x")], "../outside/new"),
        ("up from below", vec![file("a/../../outside/new", "x")], "a/../../outside/new"),
        ("absolute", vec![file("/tmp/new", "x")], "/tmp/new"),
        ("absolute in an extension", vec![pax("17 path=/tmp/new\n"), file("fine", "x")], "/tmp/new"),
        ("through a link", vec![link(EntryType::Symlink, "l", "../outside"), file("l/new", "x")], "l/new"),
        ("through an absolute link", vec![link(EntryType::Symlink, "m", "/tmp"), file("m/new", "x")], "m/new"),
        ("a directory through a link", vec![link(EntryType::Symlink, "n", "/tmp"), directory("n/new")], "n/new"),
        ("a directory in place of a link", vec![link(EntryType::Symlink, "o", "/tmp"), directory("o"), file("o/new", "x")], "o"),
        ("a link through a link", vec![link(EntryType::Symlink, "p", "/tmp"), link(EntryType::Symlink, "p/q", "x")], "p/q"),
        ("hard, to outside", vec![link(EntryType::Link, "h", "../outside/keep")], "h"),
        ("hard, absolute", vec![link(EntryType::Link, "i", "/workspace/outside/keep")], "i"),
        ("hard, through a link", vec![link(EntryType::Symlink, "r", "../outside"), link(EntryType::Link, "s", "r/keep")], "s"),
        ("hard, to a link", vec![link(EntryType::Symlink, "t", "../outside/keep"), link(EntryType::Link, "u", "t")], "u"),
        ("a device", vec![entry(EntryType::Char, b"null", b"", 0o666, b"")], "null"),
        ("a disk", vec![entry(EntryType::Block, b"sda", b"", 0o666, b"")], "sda"),
        ("sparse", vec![entry(EntryType::GNUSparse, b"sparse", b"", 0o666, b"")], "sparse"),
        ("a name without end", vec![huge_name], "target"),
        ("over a directory", vec![directory("dir"), file("dir", "x")], "dir"),
    ];
    for (what, entries, named) in cases {
        let failure = carried_out(&house, &blueprint, unpack("target"), Some(&ended(&entries))).await.unwrap_err();
        let is_refused = matches!(failure.why, FileProblem::Archive | FileProblem::NotADirectory | FileProblem::IsADirectory);
        assert!(is_refused && failure.path == path(named), "{what}: {failure:?}");
        outside.is_untouched(what).await;
    }
    for (what, bytes) in [
        ("nothing at all", Vec::new()),
        ("no archive", vec![b'x'; 2048]),
        ("compressed", [&[0x1f, 0x8b], vec![0; 1024].as_slice()].concat()),
        ("cut off in a header", file("cut", "x")[..300].to_vec()),
        ("cut off in a file", file("cut", &"x".repeat(1000))[..600].to_vec()),
        ("without an end", file("complete", "x")),
    ] {
        assert_eq!(errand(&house, &blueprint, unpack("target"), Some(&bytes)).await.unwrap_err(), FileProblem::Archive, "{what}");
        outside.is_untouched(what).await;
    }
    assert!(!workspace.join("target/cut").exists());
    // A link that is there is replaced and never written through; nobody becomes somebody else by a file.
    fs::remove_dir_all(workspace.join("target")).unwrap();
    fs::create_dir(workspace.join("target")).unwrap();
    symlink("../outside/keep", workspace.join("target/keep")).unwrap();
    let suid = entry(EntryType::Regular, b"suid", b"", 0o6755, b"x");
    errand(&house, &blueprint, unpack("target"), Some(&ended(&[file("keep", "other"), suid]))).await.unwrap();
    outside.is_untouched("a link that was there").await;
    assert_eq!(fs::read_to_string(workspace.join("target/keep")).unwrap(), "other");
    assert_eq!(fs::metadata(workspace.join("target/suid")).unwrap().mode() & 0o7777, 0o755);
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

#[tokio::test]
async fn an_archive_of_very_many_entries_needs_no_more_memory_than_another() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let count: u64 = if std::env::var_os("STEAD_PROVE").is_some() { 1_000_000 } else { 5_000 };
    let order = Errand { directory: "/workspace".into(), order: unpack("/tmp/many") };
    let mut stream = house.stewards.errand(&blueprint, Some(Warrant::default()), &order).await.unwrap();
    for number in 0..count {
        let piece = if number % 3 == 0 {
            entry(EntryType::Directory, format!("d{}/e{number}", number / 1000).as_bytes(), b"", 0o755, b"")
        } else {
            file(&format!("d{}/f{number}", number / 1000), "")
        };
        if stream.send(&piece).await.is_err() {
            break;
        }
    }
    let _ = stream.send(&[0; 1024]).await;
    let _ = stream.end().await;
    match stream.next().await.unwrap().0 {
        FileWord::Done { size: 0, more: false, count: done } => assert_eq!(done, count),
        // A million of them may be more than the environment has room for: its own limits hold.
        FileWord::Failed(failure) if count == 1_000_000 => assert_eq!(failure.why, FileProblem::Full),
        other => panic!("{other:?}"),
    }
    drop(stream);
    // They go in one order as they came.
    errand(&house, &blueprint, FileOrder::Remove { path: path("/tmp/many"), recursive: true }, None).await.unwrap();
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

#[tokio::test]
async fn what_is_cut_off_in_the_middle_is_not_there() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let workspace = house.data.join("workspace");
    let big = entry(EntryType::Regular, b"big", b"", 0o644, &vec![7; 3_000_000]);
    let archive = [file("first", "whole"), big].concat();
    let order = Errand { directory: "/workspace".into(), order: unpack("t") };
    for _ in 0..2 {
        let mut stream = house.stewards.errand(&blueprint, Some(Warrant::default()), &order).await.unwrap();
        for piece in archive[..2_000_000].chunks(100_000) {
            stream.send(piece).await.unwrap();
        }
        drop(stream);
        // The next errand comes after the end of that one only if it waits for it: the end of everything inside does.
        house.stewards.sleep(blueprint.environment, true).await.unwrap();
        let names: Vec<_> = fs::read_dir(workspace.join("t")).unwrap().map(|found| found.unwrap().file_name()).collect();
        assert_eq!(names, ["first"]);
    }
}

#[tokio::test]
async fn files_without_end_and_files_that_change_do_no_harm() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let workspace = house.data.join("workspace");
    let sparse = fs::File::create(workspace.join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let last = FileOrder::Read { path: path("sparse"), offset: (1 << 40) - 3, length: None };
    assert_eq!(errand(&house, &blueprint, last, None).await.unwrap().bytes, [0, 0, 0]);
    // Whoever has seen enough goes, and nobody reads on for them.
    let order = Errand { directory: "/workspace".into(), order: pack("sparse") };
    let mut stream = house.stewards.errand(&blueprint, Some(Warrant::default()), &order).await.unwrap();
    for _ in 0..10 {
        stream.next().await.unwrap();
    }
    drop(stream);
    drop(sparse);
    fs::remove_file(workspace.join("sparse")).unwrap();
    let start = house.start("while :; do head -c 2000000 /dev/zero > f; : > f; done");
    house.stewards.start(&blueprint, &start).await.unwrap();
    for _ in 0..20 {
        match errand(&house, &blueprint, FileOrder::Read { path: path("f"), offset: 0, length: None }, None).await {
            Ok(said) => assert!(said.bytes.len() <= 2_000_000),
            Err(problem) => assert_eq!(problem, FileProblem::NotFound),
        }
        let archive = errand(&house, &blueprint, pack("."), None).await.unwrap().bytes;
        assert!(archive.len().is_multiple_of(512) && archive.ends_with(&[0; 1024]), "as long as its headers say");
    }
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}
