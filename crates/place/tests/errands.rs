//! Files of real places, reached by processes inside them, while other processes there do their worst.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{Mode, OFlags, mkdirat, openat};
use stead_domain::changes::EntryType;
use stead_domain::files::{FileEntry, FileOrder, FileProblem};
use stead_domain::ids::EnvironmentId;
use stead_place::Warrant;
use stead_place::blueprint::WorkspaceKind;
use stead_place::client::Trouble;
use stead_place::protocol::{Answer, Call, Errand, Refusal};

mod house;

use house::House;
use house::said::{Said, errand, path};

fn read(name: impl AsRef<[u8]>) -> FileOrder {
    FileOrder::Read { path: path(name), offset: 0, length: None }
}

fn write(name: impl AsRef<[u8]>) -> FileOrder {
    FileOrder::Write { path: path(name), mode: None, parents: false }
}

fn names(said: &Said) -> Vec<&str> {
    said.entries.iter().map(|entry| entry.path.as_str()).collect()
}

#[tokio::test]
async fn files_are_written_read_listed_and_removed() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let workspace = house.data.join("workspace");
    // Larger than a piece, and with every byte.
    let content: Vec<u8> = (0..700_000_u32).flat_map(|number| number.to_le_bytes()).collect();
    let made = FileOrder::Write { path: path("new/deep/file"), mode: Some(0o750), parents: true };
    assert_eq!(errand(&house, &blueprint, made, Some(&content)).await.unwrap().size, content.len() as u64);
    assert_eq!(std::fs::read(workspace.join("new/deep/file")).unwrap(), content);
    let said = errand(&house, &blueprint, read("/workspace/new/deep/file"), None).await.unwrap();
    assert!(said.bytes == content && said.size == content.len() as u64);
    assert_eq!((said.entries[0].mode.as_str(), said.entries[0].r#type), ("0750", EntryType::File));
    let part = FileOrder::Read { path: path("new/deep/file"), offset: 999_999, length: Some(300_001) };
    assert_eq!(errand(&house, &blueprint, part, None).await.unwrap().bytes, content[999_999..1_300_000]);
    // Written again it keeps its mode, and a link is followed.
    symlink("new/deep/file", workspace.join("link")).unwrap();
    errand(&house, &blueprint, write("link"), Some(b"short")).await.unwrap();
    assert_eq!(std::fs::read(workspace.join("new/deep/file")).unwrap(), b"short");
    assert_eq!(std::fs::metadata(workspace.join("new/deep/file")).unwrap().permissions().mode() & 0o7777, 0o750);
    assert!(workspace.join("link").is_symlink());
    // Nothing is left of what was not finished.
    let listed = FileOrder::List { path: path("."), recursive: true, after: None, limit: 100 };
    let said = errand(&house, &blueprint, listed, None).await.unwrap();
    assert_eq!(names(&said), ["link", "new", "new/deep", "new/deep/file"]);
    assert_eq!(said.entries[0].target.as_deref(), Some("new/deep/file"));
    for (order, problem) in [
        (read("nothing"), FileProblem::NotFound),
        (read("new"), FileProblem::IsADirectory),
        (read("new/deep/file/x"), FileProblem::NotADirectory),
        (FileOrder::Remove { path: path("new"), recursive: false }, FileProblem::NotEmpty),
        (FileOrder::MakeDirectory { path: path("new"), mode: None, parents: false }, FileProblem::Exists),
        (FileOrder::Move { from: path("link"), to: path("new"), overwrite: false }, FileProblem::Exists),
        (FileOrder::Move { from: path("nothing"), to: path("x"), overwrite: false }, FileProblem::NotFound),
        (FileOrder::Copy { from: path("new"), to: path("new/deep/in"), overwrite: false }, FileProblem::Other),
        (FileOrder::Remove { path: path("."), recursive: true }, FileProblem::Denied),
    ] {
        assert_eq!(errand(&house, &blueprint, order.clone(), None).await.unwrap_err(), problem, "{order:?}");
    }
    for (order, problem) in
        [(write("new"), FileProblem::IsADirectory), (write("/usr/new"), FileProblem::ReadOnly), (write("a/b"), FileProblem::NotFound)]
    {
        assert_eq!(errand(&house, &blueprint, order.clone(), Some(&content)).await.unwrap_err(), problem, "{order:?}");
    }
    errand(&house, &blueprint, FileOrder::Copy { from: path("new"), to: path("copy"), overwrite: false }, None).await.unwrap();
    errand(&house, &blueprint, FileOrder::Move { from: path("copy/deep"), to: path("moved"), overwrite: false }, None).await.unwrap();
    // Between two file systems inside.
    errand(&house, &blueprint, FileOrder::Move { from: path("moved"), to: path("/tmp/moved"), overwrite: false }, None).await.unwrap();
    assert_eq!(errand(&house, &blueprint, read("/tmp/moved/file"), None).await.unwrap().bytes, b"short");
    assert!(!workspace.join("moved").exists());
    errand(&house, &blueprint, FileOrder::Remove { path: path("link"), recursive: true }, None).await.unwrap();
    errand(&house, &blueprint, FileOrder::Remove { path: path("new"), recursive: true }, None).await.unwrap();
    let said = errand(&house, &blueprint, FileOrder::Stat { path: path("copy") }, None).await.unwrap();
    assert_eq!((said.entries[0].r#type, std::fs::read_dir(&workspace).unwrap().count()), (EntryType::Directory, 1));
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

#[tokio::test]
async fn what_is_sent_again_is_written_once() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let append = |offset| FileOrder::Append { path: path("log"), offset, mode: None };
    assert_eq!(errand(&house, &blueprint, append(Some(0)), Some(b"first ")).await.unwrap().size, 6);
    for _ in 0..2 {
        assert_eq!(errand(&house, &blueprint, append(Some(6)), Some(b"second ")).await.unwrap().size, 13);
    }
    // One that overlaps, and one that leaves something out.
    assert_eq!(errand(&house, &blueprint, append(Some(10)), Some(b"nd third")).await.unwrap().size, 18);
    assert_eq!(errand(&house, &blueprint, append(Some(19)), Some(b"late")).await.unwrap_err(), FileProblem::WrongOffset);
    assert_eq!(errand(&house, &blueprint, append(None), Some(b"!")).await.unwrap().size, 19);
    assert_eq!(std::fs::read(house.data.join("workspace/log")).unwrap(), b"first second third!");
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

#[tokio::test]
async fn lists_come_in_pages_and_names_keep_every_byte() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let odd = b"odd \xff\xfe\n name".as_slice();
    errand(&house, &blueprint, write(odd), Some(b"odd")).await.unwrap();
    for name in ["b/1", "b/2", "b/c/3", "b.txt", "d"] {
        errand(&house, &blueprint, FileOrder::Write { path: path(name), mode: None, parents: true }, Some(b"")).await.unwrap();
    }
    for start in [".", "/workspace"] {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let order = FileOrder::List { path: path(start), recursive: true, after: after.clone(), limit: 2 };
            let said = errand(&house, &blueprint, order, None).await.unwrap();
            after = said.entries.last().map(FileEntry::exact_path).or(after);
            all.extend(said.entries);
            if !said.more {
                break;
            }
        }
        let prefix = if start == "." { "" } else { "/workspace/" };
        let seen: Vec<String> = all.iter().map(|entry| entry.path.strip_prefix(prefix).unwrap().to_owned()).collect();
        assert_eq!(seen, ["b", "b/1", "b/2", "b/c", "b/c/3", "b.txt", "d", "odd \u{fffd}\u{fffd}\n name"]);
        let last = all.pop().unwrap().exact_path();
        assert_eq!(errand(&house, &blueprint, read(last.as_bytes()), None).await.unwrap().bytes, b"odd");
    }
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

#[tokio::test]
async fn nothing_leads_out_and_nothing_special_is_waited_for() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let workspace = house.data.join("workspace");
    let outside = house.data.join("secret");
    std::fs::write(&outside, "of the host").unwrap();
    for (name, target) in
        [("shadow", "/etc/shadow".into()), ("up", "../../../../secret".into()), ("host", outside), ("loop", "loop".into())]
    {
        symlink(target, workspace.join(name)).unwrap();
    }
    let script =
        "mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")' || true; mkdir closed; chmod 0 closed";
    let start = house.start(script);
    house.stewards.start(&blueprint, &start).await.unwrap();
    house.until_over(blueprint.environment, start.process).await;
    for (name, problem) in [
        ("shadow", FileProblem::NotFound),
        ("up", FileProblem::NotFound),
        ("host", FileProblem::NotFound),
        ("../../../data/secret", FileProblem::NotFound),
        ("loop", FileProblem::NotADirectory),
        ("pipe", FileProblem::NotAFile),
        ("/dev/zero", FileProblem::NotAFile),
        ("/proc/1/environ", FileProblem::Denied),
        ("/proc/1/root/etc/passwd", FileProblem::Denied),
    ] {
        assert_eq!(errand(&house, &blueprint, read(name), None).await.unwrap_err(), problem, "{name}");
    }
    for name in ["pipe", "/dev/null", "host/x"] {
        errand(&house, &blueprint, write(name), Some(b"x")).await.unwrap_err();
    }
    assert_eq!(std::fs::read_to_string(house.data.join("secret")).unwrap(), "of the host");
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

#[tokio::test]
async fn what_may_not_be_written_inside_may_not_be_written_from_outside_either() {
    let house = House::new();
    let mut blueprint = house.blueprint(EnvironmentId::new(&house.context));
    blueprint.workspace.access = WorkspaceKind::ReadOnly;
    std::fs::write(house.data.join("workspace/file"), "as it is").unwrap();
    assert_eq!(errand(&house, &blueprint, write("file"), Some(b"x")).await.unwrap_err(), FileProblem::ReadOnly);
    let remove = FileOrder::Remove { path: path("file"), recursive: false };
    assert_eq!(errand(&house, &blueprint, remove, None).await.unwrap_err(), FileProblem::ReadOnly);
    assert_eq!(errand(&house, &blueprint, read("file"), None).await.unwrap().bytes, b"as it is");
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

#[tokio::test]
async fn an_errand_that_is_cut_off_leaves_nothing() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let workspace = house.data.join("workspace");
    std::fs::write(workspace.join("file"), "before").unwrap();
    let order = Errand { directory: "/workspace".into(), order: write("file") };
    // Whoever sends goes away.
    let mut stream = house.stewards.errand(&blueprint, Some(Warrant::default()), &order).await.unwrap();
    stream.send(&[7; 300_000]).await.unwrap();
    drop(stream);
    // Or the environment is stopped.
    let mut stream = house.stewards.errand(&blueprint, Some(Warrant::default()), &order).await.unwrap();
    stream.send(&[7; 300_000]).await.unwrap();
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
    assert!(matches!(stream.next().await, Err(Trouble::Gone)));
    assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "before");
    assert_eq!(std::fs::read_dir(&workspace).unwrap().count(), 1);
    // Who is older than the fence gets nothing.
    house.stewards.awaken(&blueprint).await.unwrap();
    house
        .stewards
        .call(blueprint.environment, stead_place::protocol::Call::Barrier { warrant: Warrant { fence: 5, lease: None }, stop: true }, &[])
        .await
        .unwrap();
    assert!(matches!(
        house.stewards.errand(&blueprint, Some(Warrant { fence: 4, lease: None }), &order).await,
        Err(Trouble::Refused(Refusal::Fenced))
    ));
    house.stewards.errand(&blueprint, Some(Warrant { fence: 5, lease: None }), &order).await.unwrap();
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

#[tokio::test]
async fn a_tree_that_is_too_deep_to_be_named_is_not_listed_in_part() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let name = "deep".repeat(60);
    let directory = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(house.data.join("workspace"), directory, Mode::empty()).unwrap();
    for _ in 0..20 {
        mkdirat(&at, &name, Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, &name, directory, Mode::empty()).unwrap();
    }
    let list = |recursive| FileOrder::List { path: path("."), recursive, after: None, limit: 1000 };
    assert_eq!(errand(&house, &blueprint, list(true), None).await.unwrap_err(), FileProblem::TooLong);
    assert_eq!(errand(&house, &blueprint, list(false), None).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn neither_init_nor_an_errand_tells_others_inside_of_the_host() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let watch = Errand { directory: "/workspace".into(), order: FileOrder::Watch { path: path("."), recursive: false } };
    let mut watching = house.stewards.errand(&blueprint, Some(Warrant::default()), &watch).await.unwrap();
    watching.next().await.unwrap();
    let look = house.start(
        "for d in /proc/[0-9]*; do name=$(tr '\\0' ' ' < $d/cmdline); cat $d/maps > /dev/null 2>&1 && how=open || how=closed; echo $how: $name; done",
    );
    house.stewards.start(&blueprint, &look).await.unwrap();
    house.until_over(environment, look.process).await;
    let seen = house.text(environment, look.process, None).await;
    assert!(seen.lines().any(|line| line == "closed: init") && seen.lines().any(|line| line == "closed: errand"), "{seen}");
    assert!(!seen.contains(&house.data.display().to_string()) && !seen.contains("skeleton"), "{seen}");
    // It is none of those that a command left behind, and those are counted.
    let left = house.start("sleep 1000 & sleep 1000 & exit 0");
    house.stewards.start(&blueprint, &left).await.unwrap();
    house.until_over(environment, left.process).await;
    let activity = house.stewards.call(environment, Call::Activity, &[]).await.unwrap();
    assert!(matches!(activity, Answer::Activity { processes: 0, background: 2, .. }), "{activity:?}");
    house.stewards.sleep(environment, true).await.unwrap();
}
