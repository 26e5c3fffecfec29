use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, makedev, mknodat, setxattr};
use tempfile::TempDir;

use super::super::layer::{merge_layers, parts};
use super::super::merge::{Below, merge};
use super::super::{Stack, Trouble};
use super::mount::{House, phantoms, shown};
use super::{random, views};

static GO: AtomicBool = AtomicBool::new(false);

/// Any run of layers that follow each other may be made into one, and the kernel shows what it showed before.
#[test]
fn merged_layers_show_what_they_showed() {
    if House::new().mount().is_none() {
        return;
    }
    let cases = if std::env::var_os("STEAD_PROVE").is_some() { 200 } else { 30 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&random::rounds(), |rounds| {
        let mut house = House::new();
        for round in rounds {
            let mount = house.mount().unwrap();
            round.iter().for_each(|operation| operation.run(&mount.path()));
            drop(mount);
            house.seal();
        }
        let layers = house.sealed.layers.clone();
        let expected = shown(&house.sealed).unwrap();
        for first in 0..layers.len() {
            for end in first + 1..=layers.len() {
                let into = house.directory.path().join(format!("merged-{first}-{end}"));
                let (upper, rest) = (&layers[..first], &layers[end..]);
                let lower = Stack::new(rest);
                let below = if rest.is_empty() { Below::Nothing } else { Below::Layers(&lower) };
                merge(&Stack::new(&layers[first..end]), below, &into, &GO).unwrap();
                let whole = Stack::new(upper.iter().chain([&into]).chain(rest));
                prop_assert_eq!(&shown(&whole).unwrap(), &expected, "{} to {}", first, end);
                prop_assert_eq!(phantoms(&whole).unwrap(), Vec::<PathBuf>::new());
                if rest.is_empty() {
                    let directories = |(path, _): &(PathBuf, Vec<u8>)| into.join(path).is_dir();
                    prop_assert_eq!(views::marks(&into).iter().filter(|mark| directories(mark) || mark.1.is_empty()).count(), 0);
                }
            }
        }
        prop_assert_eq!(shown(&house.sealed).unwrap(), expected, "what was merged is as it was");
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn whiteout(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), makedev(0, 0)).unwrap();
}

fn attribute(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

/// A whiteout that hides nothing any more would be listed inside, and nobody could remove it.
#[test]
fn only_what_hides_something_stays() {
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    whiteout(&layer("one/made-here/gone"));
    write(&layer("two/made-here/gone"), "");
    whiteout(&layer("one/kept/gone"));
    write(&layer("three/kept/gone"), "");
    whiteout(&layer("one/closed/gone"));
    write(&layer("two/closed/gone"), "");
    attribute(&layer("two/closed"), "user.overlay.opaque", b"y");
    write(&layer("three/closed/gone"), "");
    write(&layer("one/hidden/new"), "");
    whiteout(&layer("two/hidden"));
    write(&layer("three/hidden/old"), "");
    write(&layer("one/planted/new"), "");
    attribute(&layer("one/planted"), "user.overlay.redirect", b"/kept");
    attribute(&layer("one/planted"), "user.colour", b"red");
    // As tools write it that may make no devices.
    write(&layer("one/kept/written"), "");
    attribute(&layer("one/kept/written"), "user.overlay.whiteout", b"y");
    write(&layer("three/kept/written"), "");
    let (upper, lower) = (Stack::new([layer("one"), layer("two")]), Stack::new([layer("three")]));
    merge(&upper, Below::Layers(&lower), &layer("merged"), &GO).unwrap();
    let merged = Stack::new([layer("merged"), layer("three")]);
    let whole = Stack::new([layer("one"), layer("two"), layer("three")]);
    assert_eq!(views::of_stack(&merged), views::of_stack(&whole));
    let there = |name: &str| fs::symlink_metadata(layer("merged").join(name)).is_ok();
    assert!(!there("made-here/gone") && there("kept/gone") && !there("closed/gone"));
    assert!(fs::symlink_metadata(layer("merged/kept/written")).unwrap().mode() & 0o170_000 == 0o020_000);
    let has = |name: &str, attribute: &str| getxattr(layer("merged").join(name), attribute, &mut [0; 16]).is_ok();
    assert!(has("closed", "user.overlay.opaque") && has("hidden", "user.overlay.opaque") && !has("kept", "user.overlay.opaque"));
    assert!(has("planted", "user.colour") && !has("planted", "user.overlay.redirect"));
    if let Some(listed) = phantoms(&merged) {
        assert_eq!(listed, Vec::<PathBuf>::new());
    }
}

#[test]
fn files_are_linked_and_not_copied() {
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    write(&layer("one/a/file"), "content");
    fs::hard_link(layer("one/a/file"), layer("one/other")).unwrap();
    write(&layer("two/a/below"), "content");
    merge(&Stack::new([layer("one"), layer("missing"), layer("two")]), Below::Nothing, &layer("merged"), &GO).unwrap();
    let number = |name: &str| fs::metadata(layer(name)).unwrap().ino();
    assert_eq!(number("merged/a/file"), number("one/a/file"));
    assert_eq!(number("merged/other"), number("one/a/file"));
    assert_eq!(number("merged/a/below"), number("two/a/below"));
    let stopped = merge(&Stack::new([layer("one")]), Below::Nothing, &layer("stopped"), &AtomicBool::new(true));
    assert!(matches!(stopped, Err(Trouble::Stopped)));
    assert!(merge(&Stack::new([layer("one")]), Below::Nothing, &layer("merged"), &GO).is_err(), "it must be a new one");
}

/// A file system gives one file only so many names. The rest are names of one copy, and not a copy each.
#[test]
fn a_file_with_more_names_than_can_be_is_copied_once() {
    const NAMES: usize = 40_000;
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    write(&layer("one/0"), "content");
    attribute(&layer("one/0"), "user.colour", b"red");
    for index in 1..NAMES {
        if let Err(error) = fs::hard_link(layer("one/0"), layer("one").join(index.to_string())) {
            println!("skipped: {index} names are the most here: {error}");
            return;
        }
    }
    whiteout(&layer("one/gone"));
    merge(&Stack::new([layer("one")]), Below::Nothing, &layer("merged"), &GO).unwrap();
    let numbers: std::collections::BTreeSet<u64> =
        fs::read_dir(layer("merged")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().ino()).collect();
    assert!(numbers.len() <= 2, "{}", numbers.len());
    for entry in fs::read_dir(layer("merged")).unwrap().step_by(997) {
        let path = entry.unwrap().path();
        assert_eq!(fs::read_to_string(&path).unwrap(), "content");
        assert!(getxattr(&path, "user.colour", &mut [0; 16]).is_ok());
    }
}

#[test]
fn every_part_of_a_layer_is_merged_over_what_it_lies_on() {
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    write(&layer("one/workspace/file"), "new");
    write(&layer("two/workspace/file"), "old");
    whiteout(&layer("one/workspace/gone"));
    whiteout(&layer("one/system/usr/upper/gone"));
    write(&layer("two/system/usr/upper/bin/tool"), "");
    write(&layer("two/system/image-abc/upper/etc/file"), "");
    write(&layer("host/gone"), "of the host");
    let below = |part: &Path| Some(if part.starts_with("system/usr") { Stack::new([layer("host")]) } else { Stack::default() });
    assert!(merge_layers(&[layer("one"), layer("two")], &below, &layer("merged"), &GO).unwrap());
    let names: Vec<_> = parts(&layer("merged")).unwrap().into_iter().map(|part| part.display().to_string()).collect();
    assert_eq!(names, ["system/image-abc/upper", "system/usr/upper", "workspace"]);
    assert_eq!(fs::read_to_string(layer("merged/workspace/file")).unwrap(), "new");
    let there = |name: &str| fs::symlink_metadata(layer("merged").join(name)).is_ok();
    assert!(!there("workspace/gone") && there("system/usr/upper/gone") && there("system/usr/upper/bin/tool"));
    let unknown = |part: &Path| (!part.starts_with("system/image-abc")).then(Stack::default);
    assert!(!merge_layers(&[layer("one"), layer("two")], &unknown, &layer("not-merged"), &GO).unwrap());
}

/// What lies below a system is the host's own, and is another one after its next upgrade.
#[test]
fn what_was_removed_stays_so_when_the_host_has_it_later() {
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    for path in ["one/shared/gone", "one/own/gone", "one/gone"] {
        whiteout(&layer(path));
    }
    for path in ["two/shared/gone", "two/own/gone", "two/gone", "host/shared/other", "host/other"] {
        write(&layer(path), "");
    }
    let (upper, host) = (Stack::new([layer("one"), layer("two")]), Stack::new([layer("host")]));
    merge(&upper, Below::Layers(&host), &layer("merged"), &GO).unwrap();
    let merged = Stack::new([layer("merged"), layer("host")]);
    let seen = |stack: &Stack| views::of_stack(stack);
    let before = seen(&merged);
    assert_eq!(before, seen(&Stack::new([layer("one"), layer("two"), layer("host")])));
    if let Some(listed) = phantoms(&merged) {
        assert_eq!(listed, Vec::<PathBuf>::new());
    }
    write(&layer("host/shared/gone"), "");
    write(&layer("host/gone"), "");
    assert_eq!(seen(&merged), before);
}

#[test]
fn a_deep_tree_is_merged_on_a_small_stack() {
    const DEPTH: usize = 5_000;
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    for name in ["one", "two"] {
        fs::create_dir(layer(name)).unwrap();
        super::hostile::deep(&layer(name), DEPTH);
    }
    let (stack, into) = (Stack::new([layer("one"), layer("two")]), layer("merged"));
    let work = move || merge(&stack, Below::Nothing, &into, &GO).unwrap();
    std::thread::Builder::new().stack_size(128 * 1024).spawn(work).unwrap().join().unwrap();
    let same = super::super::page(&Stack::new([layer("one")]), &Stack::new([layer("merged")]), None, 10, &GO).unwrap();
    assert_eq!(same.items, []);
    for name in ["one", "two", "merged"] {
        assert_eq!(crate::local::removal::empty(&layer(name), &GO).count, 0);
    }
}

/// Whoever is not root merges what belongs to them, and would rather not merge than lose what may not be looked into.
#[test]
fn an_ordinary_user_merges_everything_or_nothing() {
    if !super::hostile::is_ordinary("local::stack::tests::merging::an_ordinary_user_merges_everything_or_nothing") {
        return;
    }
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    write(&layer("one/tree/file"), "content");
    whiteout(&layer("one/tree/gone"));
    write(&layer("one/written/gone"), "");
    attribute(&layer("one/written/gone"), "user.overlay.whiteout", b"y");
    write(&layer("one/secret"), "not even its owner may read it");
    let mode = |name: &str, mode: u32| fs::set_permissions(layer(name), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode("one/secret", 0o000);
    mode("one/tree", 0o500);
    write(&layer("two/tree/gone"), "");
    write(&layer("two/written/gone"), "");
    let (upper, lower) = (Stack::new([layer("one")]), Stack::new([layer("two")]));
    merge(&upper, Below::Layers(&lower), &layer("merged"), &GO).unwrap();
    for name in ["merged/tree/gone", "merged/written/gone"] {
        assert_eq!(fs::symlink_metadata(layer(name)).unwrap().mode() & 0o170_000, 0o020_000, "{name}");
    }
    assert_eq!(fs::symlink_metadata(layer("merged/secret")).unwrap().ino(), fs::symlink_metadata(layer("one/secret")).unwrap().ino());
    assert_eq!(fs::symlink_metadata(layer("merged/tree")).unwrap().mode() & 0o777, 0o500);
    fs::create_dir(layer("one/closed")).unwrap();
    mode("one/closed", 0o000);
    let refused = merge(&upper, Below::Layers(&lower), &layer("refused"), &GO);
    assert!(matches!(&refused, Err(Trouble::At(path, _)) if path.to_string() == "closed"), "{refused:?}");
    for (name, open) in [("one/closed", 0o700), ("one/tree", 0o700), ("merged/tree", 0o700)] {
        mode(name, open);
    }
}
