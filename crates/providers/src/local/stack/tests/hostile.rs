//! Trees that were shaped to hurt whoever walks them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat};
use tempfile::TempDir;

use super::super::diff::Differences;
use super::super::{Stack, page};

static GO: AtomicBool = AtomicBool::new(false);

/// Directories in each other, with a file in the last.
pub fn deep(directory: &Path, levels: usize) {
    let mut at = rustix::fs::open(directory, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..levels {
        match mkdirat(&at, "d", Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => panic!("{error}"),
        }
        at = openat(&at, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
}

#[test]
fn depth_costs_neither_stack_nor_open_files() {
    const DEPTH: usize = 5_000;
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    for (name, levels) in [("lower", DEPTH - 1), ("middle", 2), ("upper", DEPTH)] {
        fs::create_dir(layer(name)).unwrap();
        deep(&layer(name), levels);
    }
    let (before, after) = (Stack::new([layer("middle"), layer("lower")]), Stack::new([layer("upper"), layer("middle"), layer("lower")]));
    let work = move || {
        let mut differences = Differences::open(&before, &after, &GO).unwrap();
        let mut depths = Vec::new();
        while let Some((path, _)) = differences.next().unwrap() {
            depths.push(path.parts().count());
        }
        // And once more, from where a page would have ended in the depth.
        let last = page(&after, &Stack::default(), None, DEPTH, &GO).unwrap().next.unwrap();
        (depths, page(&after, &Stack::default(), Some(&last), 10, &GO).unwrap().items.len())
    };
    let thread = std::thread::Builder::new().stack_size(128 * 1024).spawn(work).unwrap();
    let (depths, rest) = thread.join().unwrap();
    assert_eq!(depths, [DEPTH, DEPTH + 1]);
    assert_eq!(rest, 3, "three files beside the directories");
    for name in ["lower", "upper"] {
        assert_eq!(crate::local::removal::empty(&layer(name), &GO).count, 0);
    }
}

#[test]
fn a_directory_of_a_hundred_thousand_names_is_told_whole_and_in_order() {
    const COUNT: usize = 100_000;
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    for name in ["lower", "upper"] {
        fs::create_dir_all(layer(name).join("many")).unwrap();
    }
    let mut expected = BTreeSet::new();
    for index in 0..COUNT {
        let name = format!("{:08x}", (index as u32).wrapping_mul(2_654_435_761));
        fs::write(layer("lower/many").join(&name), "").unwrap();
        if index % 10 == 0 {
            fs::write(layer("upper/many").join(&name), "written").unwrap();
        }
        expected.insert(format!("many/{name}"));
    }
    let (lower, both) = (Stack::new([layer("lower")]), Stack::new([layer("upper"), layer("lower")]));
    let mut differences = Differences::open(&Stack::default(), &both, &GO).unwrap();
    assert_eq!(differences.next().unwrap().unwrap().1.path, "many");
    let mut found = Vec::new();
    while let Some((_, difference)) = differences.next().unwrap() {
        found.push(difference.path);
    }
    assert!(found.iter().eq(&expected));
    assert_eq!(page(&lower, &both, None, COUNT, &GO).unwrap().items.len(), COUNT / 10);
}

#[test]
fn nothing_is_followed_and_nothing_waits() {
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), "outside").unwrap();
    for name in ["one", "two"] {
        fs::create_dir(layer(name)).unwrap();
        for thing in ["pipe", "was-a-file"] {
            mknodat(CWD, layer(name).join(thing), FileType::Fifo, Mode::RUSR, 0).unwrap();
        }
        drop(std::os::unix::net::UnixListener::bind(layer(name).join("socket")).unwrap());
        fs::write(layer(name).join(OsStr::from_bytes(b"\xfe\xff")), name).unwrap();
        symlink(outside.path(), layer(name).join("way")).unwrap();
        symlink(outside.path().join("secret"), layer(name).join("file")).unwrap();
    }
    fs::remove_file(layer("two/way")).unwrap();
    symlink("..", layer("two/way")).unwrap();
    let found = page(&Stack::new([layer("one")]), &Stack::new([layer("two"), layer("one")]), None, 100, &GO).unwrap().items;
    let told: Vec<_> = found.iter().map(|(_, found)| (found.path.as_str(), found.path_bytes.as_deref())).collect();
    assert_eq!(told, [("way", None), ("\u{fffd}\u{fffd}", Some("feff"))]);
}

/// Somebody swaps directories for links, files for pipes and moves what is being walked, all the time.
#[test]
fn whoever_changes_the_tree_meanwhile_leads_nobody_out() {
    const ROUNDS: usize = 400;
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    let outside = TempDir::new().unwrap();
    fs::create_dir_all(outside.path().join("inner")).unwrap();
    fs::write(outside.path().join("inner/secret"), "outside").unwrap();
    for name in ["lower/a/inner", "upper/a/inner", "upper/b/inner", "elsewhere"] {
        fs::create_dir_all(layer(name)).unwrap();
        fs::write(layer(name).join("file"), name).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::rename(layer("upper/a"), layer("elsewhere/a"));
                let _ = symlink(outside.path(), layer("upper/a"));
                let _ = fs::remove_file(layer("upper/a"));
                let _ = mknodat(CWD, layer("upper/a"), FileType::Fifo, Mode::RUSR, 0);
                let _ = fs::remove_file(layer("upper/a"));
                let _ = fs::rename(layer("elsewhere/a"), layer("upper/a"));
                let _ = fs::rename(layer("upper/a/inner"), layer("upper/b/moved"));
                let _ = fs::rename(layer("upper/b/moved"), layer("upper/a/inner"));
            }
        });
        // Also when something is found that must not be: whoever changes the tree ends then as well.
        let _end = EndOf(&done);
        let mut whole = 0;
        for _ in 0..ROUNDS {
            let (before, after) = (Stack::new([layer("lower")]), Stack::new([layer("upper"), layer("lower")]));
            match page(&before, &after, None, 100, &GO) {
                Ok(page) => {
                    whole += 1;
                    assert!(page.items.iter().all(|(_, found)| !found.path.contains("secret")), "{:?}", page.items);
                }
                Err(trouble) => assert!(trouble.to_string().contains("meanwhile"), "{trouble}"),
            }
        }
        assert!(whole > 0);
    });
}

/// Says that it is done when it goes.
struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Root needs no permissions, so as root a test runs itself again as somebody else. Whether this is somebody else.
pub fn is_ordinary(name: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    let ordinary = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .current_dir("/")
        .env("TMPDIR", "/tmp")
        .output();
    match ordinary {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("running 1 test") => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        other => println!("skipped: no ordinary user can run this test here: {other:?}"),
    }
    false
}

#[test]
fn what_may_not_be_looked_into_is_counted_and_not_guessed() {
    if !is_ordinary("local::stack::tests::hostile::what_may_not_be_looked_into_is_counted_and_not_guessed") {
        return;
    }
    let directory = TempDir::new().unwrap();
    let layer = |name: &str| directory.path().join(name);
    for name in ["one/closed", "two/closed", "one/listed", "two/listed", "two/new", "one/opened", "two/opened"] {
        fs::create_dir_all(layer(name)).unwrap();
        fs::write(layer(name).join("file"), "text").unwrap();
    }
    fs::write(layer("one/file"), "1234").unwrap();
    fs::write(layer("two/file"), "1234").unwrap();
    fs::set_permissions(layer("one/file"), Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(layer("two/file"), Permissions::from_mode(0o000)).unwrap();
    let closed = [("one/closed", 0), ("two/closed", 0), ("one/listed", 0o444), ("two/listed", 0o444), ("two/new", 0), ("one/opened", 0)];
    for (name, mode) in closed {
        fs::set_permissions(layer(name), Permissions::from_mode(mode)).unwrap();
    }
    let page = page(&Stack::new([layer("one")]), &Stack::new([layer("two")]), None, 100, &GO).unwrap();
    for (name, _) in closed {
        fs::set_permissions(layer(name), Permissions::from_mode(0o700)).unwrap();
    }
    let told: Vec<_> = page.items.iter().map(|(_, found)| (found.path.as_str(), found.kind.as_str())).collect();
    assert_eq!(told, [("file", "modified"), ("new", "added"), ("opened", "modified")]);
    assert_eq!(page.unreadable, 5);
}
