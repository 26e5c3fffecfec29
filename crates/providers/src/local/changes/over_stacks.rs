//! Changes over a workspace that is a stack itself, with the kernel as the witness.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, makedev, mknodat, setxattr};
use stead_domain::changes::RelativePath;

use super::*;
use crate::local::stack::tests::mount::{House, Mount, phantoms, shown};
use crate::local::stack::tests::views::View;
use crate::local::stack::tests::{random, views};

/// A workspace of some layers, and what was done over it.
struct Changed {
    house: House,
    before: View,
    after: View,
}

impl Changed {
    fn new(rounds: &[Vec<random::Operation>]) -> Self {
        let mut house = House::new();
        let (changes, rounds) = rounds.split_last().unwrap();
        for (index, round) in rounds.iter().enumerate() {
            if index > 0 {
                house.seal();
            }
            let mount = house.mount().unwrap();
            round.iter().for_each(|operation| operation.run(&mount.path()));
        }
        let (upper, work) = (house.directory.path().join("changes/upper"), house.directory.path().join("changes/work"));
        fs::create_dir_all(&upper).unwrap();
        fs::create_dir_all(&work).unwrap();
        let mount = Mount::new(&house.stack(), &upper, &work).unwrap();
        let before = views::of_tree(&mount.path());
        changes.iter().for_each(|operation| operation.run(&mount.path()));
        let after = views::of_tree(&mount.path());
        drop(mount);
        Self { house, before, after }
    }

    fn with<T>(&self, work: impl FnOnce(Layer<'_>) -> T) -> T {
        let (directory, workspace) = (self.house.directory.path().join("changes"), self.house.stack());
        work(Layer { directory: &directory, workspace: &workspace })
    }

    /// Whether the workspace is now as it was seen through the layer.
    fn check(&self, expected: &View) -> Result<(), TestCaseError> {
        let stack = self.house.stack();
        prop_assert_eq!(views::differences(expected, &shown(&stack).unwrap()), []);
        prop_assert_eq!(phantoms(&stack).unwrap(), Vec::<PathBuf>::new());
        prop_assert_eq!(self.with(|layer| list(layer, None, 0, usize::MAX)).unwrap(), []);
        prop_assert!(views::marks(&self.house.upper()).iter().all(|(path, _)| !path.ends_with(workspace::UNFINISHED)));
        Ok(())
    }
}

fn check(cases: u32, test: impl Fn(Changed) -> Result<(), TestCaseError>) {
    if House::new().mount().is_none() {
        return;
    }
    let cases = if std::env::var_os("STEAD_PROVE").is_some() { cases * 20 } else { cases };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&random::rounds(), |rounds| test(Changed::new(&rounds)));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn what_is_kept_is_the_stack_afterwards() {
    check(40, |changed| {
        let sealed = shown(&changed.house.sealed).unwrap();
        changed.with(keep_all).unwrap();
        changed.check(&changed.after)?;
        prop_assert_eq!(shown(&changed.house.sealed).unwrap(), sealed, "what is sealed is as it was");
        Ok(())
    });
}

#[test]
fn whoever_is_cut_off_begins_again_over_a_stack() {
    check(20, |changed| {
        for _ in 0..2 {
            // Carried over, once more and once more, and the layer was never emptied.
            changed.with(|layer| {
                let mut pair = pair::Pair::open(layer).unwrap().unwrap();
                let mut copying = copy::Copying::into_workspace(&rustix::fs::fstat(pair.lower.written().unwrap().as_fd()).unwrap());
                let names = pair.upper.names().unwrap();
                apply::apply(&mut pair, &mut copying, names).unwrap();
            });
        }
        changed.with(keep_all).unwrap();
        changed.check(&changed.after)
    });
}

#[test]
fn what_is_kept_one_by_one_is_the_same_in_the_end() {
    check(20, |changed| {
        let names: std::collections::BTreeSet<Vec<u8>> =
            changed.before.keys().chain(changed.after.keys()).map(|path| path[0].clone()).collect();
        for name in names {
            let path = RelativePath::parse("paths", &name).unwrap();
            changed.with(|layer| keep_some(layer, &[path])).unwrap();
        }
        changed.check(&changed.after)
    });
}

#[test]
fn what_is_dropped_never_was_in_a_stack() {
    check(10, |changed| {
        changed.with(drop_all).unwrap();
        changed.check(&changed.before)
    });
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn whiteout(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), makedev(0, 0)).unwrap();
}

/// Changes of every kind, over a workspace of two layers.
fn busy() -> House {
    let mut house = House::new();
    for name in ["gone", "replaced/old", "tree/inner/file", "tree/other", "was/below", "both/one", "file/below"] {
        write(&house.upper().join(name), "sealed");
    }
    house.seal();
    write(&house.upper().join("own/file"), "mine");
    write(&house.upper().join("both/two"), "mine");
    whiteout(&house.upper().join("was"));
    let changes = house.directory.path().join("changes/upper");
    whiteout(&changes.join("gone"));
    whiteout(&changes.join("own"));
    whiteout(&changes.join("both"));
    write(&changes.join("file"), "no directory any more");
    write(&changes.join("tree/inner/file"), "changed");
    write(&changes.join("replaced/new"), "new");
    setxattr(changes.join("replaced"), "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
    // The kernel need not say that this one hides something: the workspace hides it already.
    write(&changes.join("was/new/deep"), "new");
    std::os::unix::fs::symlink("new", changes.join("was/link")).unwrap();
    house
}

fn keep(house: &Path, stack: &Stack) {
    keep_all(Layer { directory: &house.join("changes"), workspace: stack }).unwrap();
}

/// Each kind of change leaves in the topmost layer what says it, and no more.
#[test]
fn the_topmost_layer_says_what_was_kept() {
    let house = busy();
    // Somebody was cut off.
    fs::create_dir(house.upper().join(workspace::UNFINISHED)).unwrap();
    let stack = house.stack();
    keep(house.directory.path(), &stack);
    let mut names: Vec<String> = views::of_stack(&stack).iter().map(|(path, _)| views::relative(path).to_string()).collect();
    let replaced = ["file", "replaced", "replaced/new", "tree", "tree/inner", "tree/inner/file", "tree/other"];
    assert_eq!(names, [&replaced[..], &["was", "was/link", "was/new", "was/new/deep"]].concat());
    names = views::marks(&house.upper()).iter().map(|(path, mark)| format!("{} {}", path.display(), mark.escape_ascii())).collect();
    assert_eq!(names, ["both ", "gone ", "replaced user.overlay.opaquey", "was user.overlay.opaquey"]);
    assert!(!house.upper().join("own").exists() && !house.upper().join("tree/other").exists());
    assert!(getxattr(house.upper().join("tree"), "user.overlay.opaque", &mut [0; 8]).is_err());
}

const KILLED: &str = "STEAD_TEST_KEEPS_CHANGES_OF";

/// Killed before each single call that changes something, and the repetition ends where an undisturbed one would have.
#[test]
fn whoever_is_killed_between_any_two_steps_begins_again() {
    if let Some(house) = std::env::var_os(KILLED).map(PathBuf::from) {
        return keep(&house, &Stack::new([house.join("upper"), house.join("layer-1"), house.join("base")]));
    }
    let calls = [
        "mkdirat",
        "mkdir",
        "renameat",
        "renameat2",
        "rename",
        "unlinkat",
        "unlink",
        "rmdir",
        "mknodat",
        "fsetxattr",
        "symlinkat",
        "linkat",
        "fchmod",
        "fchmodat",
        "fchown",
        "fchownat",
        "utimensat",
        "copy_file_range",
        "syncfs",
    ];
    let mut killed = 0;
    for call in calls {
        let mut number = 1;
        loop {
            match keep_until(call, number) {
                None => return,
                Some(false) => break,
                Some(true) => (number, killed) = (number + 1, killed + 1),
            }
        }
    }
    println!("killed {killed} times");
    assert!(killed > 40, "{killed}");
}

/// Whether it was killed at so many calls of that name. None where nobody can do that.
fn keep_until(call: &str, number: usize) -> Option<bool> {
    let house = busy();
    let changes = house.directory.path().join("changes/upper");
    let expected: View = views::of_stack(&Stack::new([changes].into_iter().chain(house.stack().layers))).into_iter().collect();
    let output = std::process::Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &format!("inject={call}:signal=KILL:when={number}")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "local::changes::over_stacks::whoever_is_killed_between_any_two_steps_begins_again", "--quiet"])
        .env(KILLED, house.directory.path())
        .output();
    let Ok(output) = output else {
        println!("skipped: there is no strace here to kill it with: {output:?}");
        return None;
    };
    let is_killed = output.status.signal() == Some(9);
    assert!(is_killed || output.status.success(), "{output:?}");
    keep(house.directory.path(), &house.stack());
    let after: View = views::of_stack(&house.stack()).into_iter().collect();
    assert_eq!(views::differences(&expected, &after), [], "killed at {call} number {number}");
    let left = views::of_tree(&house.upper()).into_keys().any(|path| path.iter().any(|name| name == workspace::UNFINISHED.as_bytes()));
    assert!(!left, "killed at {call} number {number}");
    Some(is_killed)
}
