use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};

use super::super::Stack;
use super::mount::{House, shown};
use super::{random, views};

/// A stack is walked as the kernel shows it, whatever was done to it, and before and after each sealing.
#[test]
fn a_walk_sees_what_the_kernel_shows() {
    if House::new().mount().is_none() {
        return;
    }
    let cases = if std::env::var_os("STEAD_PROVE").is_some() { 1000 } else { 60 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&random::rounds(), |rounds| {
        let mut house = House::new();
        for round in rounds {
            let mount = house.mount().unwrap();
            round.iter().for_each(|operation| operation.run(&mount.path()));
            let shown: Vec<_> = views::of_tree(&mount.path()).into_iter().collect();
            prop_assert_eq!(&views::of_stack(&house.stack()), &shown);
            drop(mount);
            house.seal();
            prop_assert_eq!(&views::of_stack(&house.sealed), &shown);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

fn attribute(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn whiteout(path: &Path) {
    mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), makedev(0, 0)).unwrap();
}

/// A whiteout as tools write it that may make no devices.
fn written_whiteout(path: &Path) {
    fs::write(path, "").unwrap();
    attribute(path, "user.overlay.whiteout", b"y");
}

/// Marks that somebody planted while a directory was not yet a layer mean to us what they mean to the kernel.
#[test]
fn marks_that_somebody_planted_mean_what_they_mean_to_the_kernel() {
    let directory = tempfile::TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    let (upper, middle, lower) = (layer("upper"), layer("middle"), layer("lower"));
    for layer in [&upper, &middle, &lower] {
        for name in ["marked", "plain", "strange", "hidden", "closed"] {
            fs::create_dir_all(layer.join(name)).unwrap();
            fs::write(layer.join(name).join(format!("of-{}", layer.file_name().unwrap().display())), "").unwrap();
        }
    }
    for name in ["marked", "plain"] {
        for removed in ["written", "made", "at-the-top", "at-the-bottom"] {
            fs::write(lower.join(name).join(removed), "there").unwrap();
        }
        written_whiteout(&middle.join(name).join("written"));
        whiteout(&middle.join(name).join("made"));
        written_whiteout(&upper.join(name).join("at-the-top"));
        fs::remove_file(lower.join(name).join("at-the-bottom")).unwrap();
        written_whiteout(&lower.join(name).join("at-the-bottom"));
    }
    for layer in [&upper, &middle, &lower] {
        attribute(&layer.join("marked"), "user.overlay.opaque", b"x");
        attribute(layer, "user.overlay.opaque", b"y");
    }
    attribute(&middle.join("strange"), "user.overlay.opaque", b"yy");
    attribute(&middle.join("closed"), "user.overlay.opaque", b"y");
    // A directory over a name that the next layer removed hides the rest without a word of its own.
    fs::remove_dir_all(middle.join("hidden")).unwrap();
    whiteout(&middle.join("hidden"));
    // Not empty, and so a file like any other.
    fs::write(middle.join("plain/full"), "x").unwrap();
    attribute(&middle.join("plain/full"), "user.overlay.whiteout", b"y");
    // In a directory that no other layer has.
    fs::create_dir(middle.join("alone")).unwrap();
    whiteout(&middle.join("alone/made"));
    written_whiteout(&middle.join("alone/written"));
    let stack = Stack::new([upper, middle, lower]);
    let ours = views::of_stack(&stack);
    let Some(shown) = shown(&stack) else { return };
    assert_eq!(ours, shown.into_iter().collect::<Vec<_>>());
    let names: Vec<String> = ours.iter().map(|(path, _)| views::relative(path).to_string()).collect();
    assert!(names.contains(&"strange/of-lower".to_owned()) && !names.contains(&"closed/of-lower".to_owned()));
    assert!(!names.contains(&"hidden/of-lower".to_owned()) && !names.contains(&"plain/written".to_owned()));
}
