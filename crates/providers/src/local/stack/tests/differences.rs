use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::inotify;
use stead_domain::changes::{ChangeKind, RelativePath};
use stead_domain::checkpoint_diff::{ContentKind, FileDifference};
use tempfile::TempDir;

use super::super::diff::Differences;
use super::super::{Compared, Stack, Trouble, compare_text, page};
use super::mount::House;
use super::{random, views};

static GO: AtomicBool = AtomicBool::new(false);

fn all(before: &Stack, after: &Stack) -> Vec<FileDifference> {
    let page = page(before, after, None, usize::MAX, &GO).unwrap();
    assert_eq!((page.next, page.unreadable), (None, 0));
    page.items.into_iter().map(|(_, file)| file).collect()
}

/// Some at a time, each page behind the one before.
fn by_pages(before: &Stack, after: &Stack, limit: usize) -> Vec<FileDifference> {
    let mut found = Vec::new();
    let mut told: Option<RelativePath> = None;
    loop {
        let page = page(before, after, told.as_ref(), limit, &GO).unwrap();
        assert!(page.items.len() == limit || page.next.is_none());
        found.extend(page.items.into_iter().map(|(_, file)| file));
        match page.next {
            Some(next) => told = Some(next),
            None => return found,
        }
    }
}

#[test]
fn differences_are_those_between_two_copies() {
    if House::new().mount().is_none() {
        return;
    }
    let cases = if std::env::var_os("STEAD_PROVE").is_some() { 1000 } else { 60 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&random::rounds(), |rounds| {
        let mut house = House::new();
        let mut states = vec![(house.sealed.clone(), views::View::new())];
        for round in rounds {
            let mount = house.mount().unwrap();
            round.iter().for_each(|operation| operation.run(&mount.path()));
            let shown = views::of_tree(&mount.path());
            prop_assert_eq!(all(&states[0].0, &house.stack()), views::differences(&states[0].1, &shown));
            drop(mount);
            house.seal();
            states.push((house.sealed.clone(), shown));
        }
        for (index, (before, seen_before)) in states.iter().enumerate() {
            for (after, seen_after) in &states {
                let expected = views::differences(seen_before, seen_after);
                prop_assert_eq!(&all(before, after), &expected);
                prop_assert_eq!(&by_pages(before, after, index + 1), &expected);
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn path(text: &str) -> RelativePath {
    RelativePath::parse("path", text.as_bytes()).unwrap()
}

/// What both share is not even opened.
#[test]
fn what_both_share_is_not_read() {
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    for name in ["many/one", "many/deep/two", "changed/kept", "changed/other"] {
        write(&layer("lower").join(name), "before");
    }
    write(&layer("upper/changed/other"), "after!");
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    for name in ["lower", "lower/many", "lower/many/deep", "lower/changed", "lower/changed/kept"] {
        inotify::add_watch(&watch, layer(name), inotify::WatchFlags::OPEN | inotify::WatchFlags::ACCESS).unwrap();
    }
    let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4096];
    let mut events = |what: &str| {
        let mut reader = inotify::Reader::new(&watch, &mut buffer);
        let mut opened = Vec::new();
        while let Ok(event) = reader.next() {
            opened.push((event.wd(), event.file_name().map(|name| name.to_string_lossy().into_owned())));
        }
        println!("{what}: {opened:?}");
        opened
    };
    let (before, after) = (Stack::new([layer("lower")]), Stack::new([layer("upper"), layer("lower")]));
    let found = all(&before, &after);
    assert_eq!(found.iter().map(|found| found.path.as_str()).collect::<Vec<_>>(), ["changed/other"]);
    let opened = events("differences");
    let is_about = |name: &str| opened.iter().any(|(_, of)| of.as_deref() == Some(name));
    assert!(is_about("changed") && is_about("other"), "the watch sees what is opened");
    assert!(!is_about("many") && !is_about("deep") && !is_about("kept"));
}

#[test]
fn a_file_that_turned_into_a_directory_is_told_with_what_is_in_it() {
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    write(&layer("one/thing"), "file");
    write(&layer("one/tree/inner/file"), "file");
    write(&layer("two/thing/inner"), "file");
    write(&layer("two/tree"), "1234567");
    let (one, two) = (Stack::new([layer("one")]), Stack::new([layer("two"), layer("missing")]));
    let found = all(&one, &two);
    let told: Vec<_> = found.iter().map(|found| (found.path.as_str(), found.kind)).collect();
    use ChangeKind::{Added, Deleted, Modified};
    let expected = [("thing", Modified), ("thing/inner", Added), ("tree", Modified), ("tree/inner", Deleted), ("tree/inner/file", Deleted)];
    assert_eq!(told, expected);
    assert_eq!((found[0].type_before.map(|kind| kind.as_str()), found[0].r#type.as_str()), (Some("file"), "directory"));
    assert_eq!((found[2].size_before, found[2].size_after), (Some(0), Some(7)));
    assert!(matches!(Differences::open(&one, &two, &AtomicBool::new(true)).unwrap().next(), Err(Trouble::Stopped)));
}

#[test]
fn files_that_only_claim_to_be_long_are_compared_at_once() {
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    for name in ["one", "two", "three"] {
        write(&layer(name).join("file"), "begins");
        fs::File::options().write(true).open(layer(name).join("file")).unwrap().set_len(1 << 42).unwrap();
    }
    let file = fs::File::options().write(true).open(layer("three/file")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"!", (1 << 41) + 5).unwrap();
    let [one, two, three] = ["one", "two", "three"].map(|name| Stack::new([layer(name)]));
    assert_eq!(all(&one, &two), []);
    assert_eq!(all(&one, &three).len(), 1);
    assert_eq!(all(&three, &one).len(), 1);
}

#[test]
fn text_is_told_line_by_line_and_nothing_else_is() {
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    let (before, after) = (Stack::new([layer("one")]), Stack::new([layer("two")]));
    let lines =
        |changed: &str| (0..20).map(|line| if line == 10 { format!("{changed}\n") } else { format!("{line}\n") }).collect::<String>();
    for (name, one, two) in [
        ("text", lines("old").into_bytes(), lines("new").into_bytes()),
        ("end", b"a\r\nb".to_vec(), b"a\r\nb\n".to_vec()),
        ("odd\n+\"name", b"a\n".to_vec(), b"b\n".to_vec()),
        ("binary", b"a\0".to_vec(), b"b".to_vec()),
        ("latin", b"caf\xe9".to_vec(), b"caf\xc3\xa9".to_vec()),
        ("large", vec![b'a'; (1 << 20) + 1], b"b".to_vec()),
        ("same", b"same".to_vec(), b"same".to_vec()),
        (
            "noise",
            (0..300_000).map(|index: u32| b"ab\n"[(index.wrapping_mul(2_654_435_761) >> 20) as usize % 3]).collect(),
            b"x\na\n".repeat(9_000),
        ),
    ] {
        write(&layer("one").join(name), one);
        write(&layer("two").join(name), two);
    }
    write(&layer("two/added"), "new\n");
    write(&layer("one/removed"), "old\n");
    write(&layer("one/directory/file"), "");
    let told = |name: &str| match compare_text(&before, &after, &path(name), &GO).unwrap() {
        Compared::Different(found) => (found.content.unwrap(), found.unified.unwrap_or_default()),
        other => panic!("{name}: {other:?}"),
    };
    let unified = "--- a/text\n+++ b/text\n@@ -8,7 +8,7 @@\n 7\n 8\n 9\n-old\n+new\n 11\n 12\n 13\n";
    assert_eq!(told("text"), (ContentKind::Text, unified.to_owned()));
    assert_eq!(told("end").1, "--- a/end\n+++ b/end\n@@ -1,2 +1,2 @@\n a\r\n-b\n\\ No newline at end of file\n+b\n");
    assert!(told("odd\n+\"name").1.starts_with("--- \"a/odd\\n+\\\"name\"\n+++ \"b/odd\\n+\\\"name\"\n@@"));
    assert_eq!(told("added").1, "--- /dev/null\n+++ b/added\n@@ -0,0 +1 @@\n+new\n");
    assert_eq!(told("removed").1, "--- a/removed\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n");
    assert_eq!(told("binary").0, ContentKind::Binary);
    assert_eq!(told("latin").0, ContentKind::Binary);
    assert_eq!(told("large").0, ContentKind::TooLarge);
    assert_eq!(told("directory").0, ContentKind::None);
    assert!(told("noise").1.len() > 1000);
    assert_eq!(compare_text(&before, &after, &path("same"), &GO).unwrap(), Compared::Same);
    assert_eq!(compare_text(&before, &after, &path("missing"), &GO).unwrap(), Compared::Missing);
    assert_eq!(compare_text(&before, &after, &path("text/below"), &GO).unwrap(), Compared::Missing);
}
