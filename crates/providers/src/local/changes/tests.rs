use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};
use stead_domain::changes::{ChangeKind, EntryType, RelativePath};
use tempfile::TempDir;

use super::*;

struct House {
    directory: TempDir,
}

impl House {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        fs::create_dir_all(directory.path().join("changes/upper")).unwrap();
        fs::create_dir(directory.path().join("workspace")).unwrap();
        Self { directory }
    }

    fn upper(&self, path: &str) -> PathBuf {
        self.directory.path().join("changes/upper").join(path)
    }

    fn lower(&self, path: &str) -> PathBuf {
        self.directory.path().join("workspace").join(path)
    }

    fn with<T>(&self, work: impl FnOnce(Layer<'_>) -> T) -> T {
        let (directory, workspace) = (self.directory.path().join("changes"), Stack::new([self.directory.path().join("workspace")]));
        work(Layer { directory: &directory, workspace: &workspace })
    }

    fn write(&self, path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// As the kernel leaves it where something was removed.
    fn whiteout(&self, path: &str) {
        let path = self.upper(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), makedev(0, 0)).unwrap();
    }

    fn opaque(&self, path: &str) {
        setxattr(self.upper(path), "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
    }

    fn listed(&self, below: Option<&str>) -> Vec<(String, ChangeKind)> {
        let below = below.map(path);
        let changes = self.with(|layer| list(layer, below.as_ref(), 0, 1000)).unwrap();
        changes.into_iter().map(|change| (change.path, change.kind)).collect()
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.lower(path)).unwrap()
    }
}

fn path(text: &str) -> RelativePath {
    RelativePath::parse("paths", text.as_bytes()).unwrap()
}

use ChangeKind::{Added, Deleted, Modified};

fn told(changes: &[(&str, ChangeKind)]) -> Vec<(String, ChangeKind)> {
    changes.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
}

/// One of everything.
fn busy_house() -> House {
    let house = House::new();
    house.write(house.lower("kept"), "as it was");
    house.write(house.lower("changed"), "before");
    house.write(house.lower("removed"), "away");
    house.write(house.lower("tree/inner/file"), "away too");
    house.write(house.lower("replaced/old"), "old");
    house.write(house.lower("replaced/both"), "old");
    house.write(house.upper("changed"), "after");
    house.write(house.upper("fresh/deep/file"), "new");
    house.opaque("fresh");
    house.whiteout("removed");
    house.whiteout("tree");
    house.write(house.upper("replaced/both"), "new");
    house.opaque("replaced");
    symlink("/etc/passwd", house.upper("link")).unwrap();
    house
}

#[test]
fn every_change_is_listed_once_and_in_order() {
    let house = busy_house();
    let all = told(&[
        ("changed", Modified),
        ("fresh", Added),
        ("fresh/deep", Added),
        ("fresh/deep/file", Added),
        ("link", Added),
        ("removed", Deleted),
        ("replaced/both", Modified),
        ("replaced/old", Deleted),
        ("tree", Deleted),
    ]);
    assert_eq!(house.listed(None), all);
    let pages: Vec<_> = (0..5).flat_map(|page| house.with(|layer| list(layer, None, page * 2, 2)).unwrap()).collect();
    assert_eq!(pages.len(), all.len());
    assert_eq!(house.listed(Some("fresh/deep")), told(&[("fresh/deep", Added), ("fresh/deep/file", Added)]));
    assert_eq!(house.listed(Some("replaced/old")), told(&[("replaced/old", Deleted)]));
    assert_eq!(house.listed(Some("kept")), []);
    assert_eq!(house.listed(Some("tree/inner")), []);
    let removed = house.with(|layer| list(layer, Some(&path("tree")), 0, 1)).unwrap();
    assert_eq!(removed[0].r#type, EntryType::Directory);
}

#[test]
fn what_is_kept_is_the_workspace_afterwards() {
    let house = busy_house();
    assert_eq!(house.with(keep_all).unwrap(), 9);
    assert_eq!(house.read("kept"), "as it was");
    assert_eq!(house.read("changed"), "after");
    assert_eq!(house.read("fresh/deep/file"), "new");
    assert_eq!(house.read("replaced/both"), "new");
    assert!(!house.lower("removed").exists() && !house.lower("tree").exists() && !house.lower("replaced/old").exists());
    assert_eq!(fs::read_link(house.lower("link")).unwrap(), PathBuf::from("/etc/passwd"));
    assert_eq!(house.listed(None), []);
    assert_eq!(house.with(keep_all).unwrap(), 0, "again");
    assert_eq!(fs::read_dir(house.directory.path().join("changes/gone")).unwrap().count(), 0);
}

#[test]
fn whoever_is_cut_off_begins_again() {
    let house = busy_house();
    // All of it was carried over, and the layer was not emptied.
    house
        .with(|layer| {
            let mut pair = pair::Pair::open(layer).unwrap().unwrap();
            let mut copying = copy::Copying::into_workspace(&rustix::fs::fstat(pair.lower.written().unwrap().as_fd()).unwrap());
            let names = pair.upper.names().unwrap();
            apply::apply(&mut pair, &mut copying, names)
        })
        .unwrap();
    // And the next one was cut off in the middle of a file.
    house.write(house.lower(workspace::UNFINISHED), "half");
    fs::remove_file(house.lower("replaced/both")).unwrap();
    house.with(keep_all).unwrap();
    assert_eq!(house.read("replaced/both"), "new");
    assert_eq!(house.read("fresh/deep/file"), "new");
    assert!(!house.lower(workspace::UNFINISHED).exists());
}

#[test]
fn a_part_is_kept_and_the_rest_stays() {
    let house = busy_house();
    let keep = |paths: &[&str]| {
        let paths: Vec<RelativePath> = paths.iter().map(|text| path(text)).collect();
        house.with(|layer| keep_some(layer, &paths))
    };
    assert_eq!(keep(&["fresh/deep/file", "tree", "tree/inner"]).unwrap(), 2);
    assert_eq!(house.read("fresh/deep/file"), "new");
    assert!(!house.lower("tree").exists());
    assert_eq!(
        house.listed(None),
        told(&[("changed", Modified), ("link", Added), ("removed", Deleted), ("replaced/both", Modified), ("replaced/old", Deleted)])
    );
    assert_eq!(keep(&["fresh/deep/file"]).unwrap(), 0, "again");
    for inner in ["replaced/both", "replaced/old"] {
        assert!(matches!(keep(&[inner]), Err(Obstacle::Replaced(whole)) if whole == path("replaced")));
    }
    assert_eq!(house.read("replaced/both"), "old");
    assert_eq!(keep(&["replaced"]).unwrap(), 2);
    assert_eq!(house.read("replaced/both"), "new");
    assert!(!house.lower("replaced/old").exists());
}

#[test]
fn what_is_dropped_never_was() {
    let house = busy_house();
    let drop = |name: &str| house.with(|layer| drop_some(layer, &[path(name)]));
    assert_eq!(drop("removed").unwrap(), 1);
    assert_eq!(drop("fresh").unwrap(), 3);
    assert_eq!(drop("kept").unwrap(), 0);
    assert!(matches!(drop("replaced/old"), Err(Obstacle::Replaced(_))));
    assert_eq!(house.listed(Some("removed")), []);
    assert_eq!(house.with(drop_all).unwrap(), 5);
    assert_eq!(house.listed(None), []);
    assert_eq!(house.read("changed"), "before");
    assert_eq!(house.read("replaced/old"), "old");
}

#[test]
fn no_link_leads_out() {
    let house = House::new();
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("file"), "untouched").unwrap();
    // The workspace's name leads elsewhere, and the layer has a directory there.
    symlink(outside.path(), house.lower("way")).unwrap();
    house.write(house.upper("way/file"), "written");
    symlink(outside.path(), house.lower("removed")).unwrap();
    house.whiteout("removed");
    // The layer's name leads elsewhere, and the workspace has a directory there.
    house.write(house.lower("other/file"), "mine");
    symlink(outside.path(), house.upper("other")).unwrap();
    assert!(matches!(house.with(|layer| keep_some(layer, &[path("way/file")])), Err(Obstacle::Replaced(_))));
    assert_eq!(house.listed(Some("other/file")), []);
    house.with(keep_all).unwrap();
    assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "untouched");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(house.read("way/file"), "written");
    assert!(fs::symlink_metadata(house.lower("way")).unwrap().is_dir());
    assert!(fs::symlink_metadata(house.lower("other")).unwrap().is_symlink());
}

#[test]
fn odd_names_pipes_links_and_modes_survive() {
    let house = House::new();
    let odd = OsStr::from_bytes(b"\xff\n odd");
    fs::write(house.upper("").join(odd), "odd").unwrap();
    mknodat(CWD, house.upper("pipe"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    house.write(house.upper("one"), "shared");
    fs::hard_link(house.upper("one"), house.upper("two")).unwrap();
    house.write(house.upper("tool"), "#!/bin/sh");
    fs::set_permissions(house.upper("tool"), fs::Permissions::from_mode(0o4755)).unwrap();
    house.write(house.upper("closed/file"), "inside");
    fs::set_permissions(house.upper("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let changes = house.with(|layer| list(layer, None, 0, 100)).unwrap();
    assert!(changes.iter().any(|change| change.path_bytes.as_deref() == Some("ff0a206f6464")));
    house.with(keep_all).unwrap();
    assert_eq!(fs::read_to_string(house.lower("").join(odd)).unwrap(), "odd");
    assert_eq!(fs::metadata(house.lower("one")).unwrap().ino(), fs::metadata(house.lower("two")).unwrap().ino());
    assert_eq!(fs::metadata(house.lower("tool")).unwrap().mode() & 0o7777, 0o755, "it acts as nobody else");
    assert_eq!(fs::metadata(house.lower("closed")).unwrap().mode() & 0o777, 0);
    assert_eq!(fs::symlink_metadata(house.lower("pipe")).unwrap().mode() & 0o777, 0o640);
    fs::set_permissions(house.lower("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(house.read("closed/file"), "inside");
}

#[test]
fn depth_costs_neither_stack_nor_open_files() {
    const DEPTH: usize = 1500;
    let house = House::new();
    let mut at = rustix::fs::open(house.upper(""), rustix::fs::OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..DEPTH {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "d", rustix::fs::OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    let mut file = fs::File::from(rustix::fs::openat(&at, "file", flags, Mode::RUSR).unwrap());
    file.write_all(b"deep").unwrap();
    assert_eq!(house.listed(None).len(), 1000, "as many as were asked for");
    assert_eq!(house.with(keep_all).unwrap(), DEPTH as u64 + 1);
    assert_eq!(house.with(|layer| super::list::count(layer, None)).unwrap(), 0);
    // The next one is removed again, by a whiteout.
    fs::create_dir_all(house.upper("")).unwrap();
    house.whiteout("d");
    assert_eq!(house.with(keep_all).unwrap(), 1);
    assert!(!house.lower("d").exists());
}

#[test]
fn kept_files_belong_to_the_workspaces_owner() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let house = busy_house();
    std::os::unix::fs::chown(house.lower(""), Some(4321), Some(8765)).unwrap();
    house.with(keep_all).unwrap();
    for name in ["changed", "fresh", "fresh/deep", "fresh/deep/file", "link", "replaced/both"] {
        let metadata = fs::symlink_metadata(house.lower(name)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (4321, 8765), "{name}");
    }
}
