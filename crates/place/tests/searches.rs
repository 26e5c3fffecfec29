//! Searching and watching the files of real places.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use stead_domain::file_watch::FileNamed;
use stead_domain::files::{FileEvent, FileOrder, FileProblem, FileWord, FindOrder, GrepLine, GrepOrder};
use stead_domain::ids::EnvironmentId;
use stead_place::blueprint::Blueprint;
use stead_place::client::ErrandStream;
use stead_place::protocol::Errand;

mod house;

use house::House;
use house::said::{errand, path};

fn find(pattern: &str) -> FindOrder {
    FindOrder { path: path("."), pattern: Some(pattern.to_owned()), ignore_case: false, all: false, limit: 1000 }
}

fn grep(pattern: &str) -> GrepOrder {
    let pattern = pattern.to_owned();
    GrepOrder { path: path("."), pattern, fixed: false, ignore_case: false, globs: Vec::new(), all: false, context: 0, limit: 1000 }
}

async fn found(house: &House, blueprint: &Blueprint, order: FindOrder) -> (Vec<String>, bool) {
    let said = errand(house, blueprint, FileOrder::Find(order), None).await.unwrap();
    (said.entries.into_iter().map(|entry| entry.path).collect(), said.more)
}

/// Each line as `path:number:text`, in order, and the end.
async fn lines(house: &House, blueprint: &Blueprint, order: GrepOrder) -> (Vec<String>, GrepLine) {
    let said = errand(house, blueprint, FileOrder::Grep(order), None).await.unwrap();
    let mut lines: Vec<GrepLine> =
        said.bytes.split_inclusive(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).unwrap()).collect();
    let end = lines.pop().unwrap();
    let mut shown: Vec<String> = lines
        .iter()
        .map(|line| match line {
            GrepLine::Match(found) => format!("{}:{}:{}", found.path, found.line_number, found.text),
            GrepLine::Context(found) => format!("{}-{}-{}", found.path, found.line_number, found.text),
            GrepLine::End { .. } => panic!("it ends once"),
        })
        .collect();
    shown.sort();
    (shown, end)
}

#[tokio::test]
async fn files_are_found_by_name_and_by_content() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let workspace = house.data.join("workspace");
    for (name, content) in [
        ("a.rs", "fn main() {}\nlet x = 1;\n// MAIN\n"),
        ("src/b.rs", "one\ntwo\nthree main\nfour\r\nfive"),
        ("src/deep/c.txt", "nothing\n"),
        ("ignored/d.rs", "main\n"),
        (".hidden", "main\n"),
        (".gitignore", "ignored/\n"),
        ("binary", "main\n\0main\n"),
    ] {
        fs::create_dir_all(workspace.join(name).parent().unwrap()).unwrap();
        fs::write(workspace.join(name), content).unwrap();
    }
    fs::write(workspace.join(std::ffi::OsStr::from_bytes(b"odd\xff.rs")), b"main \xff\n").unwrap();
    std::os::unix::fs::symlink("/", workspace.join("root")).unwrap();
    let start = house.start("mkfifo pipe; chmod 0 src/deep/c.txt");
    house.stewards.start(&blueprint, &start).await.unwrap();
    house.until_over(blueprint.environment, start.process).await;
    assert_eq!(found(&house, &blueprint, find("*.rs")).await, (["a.rs", "odd\u{fffd}.rs", "src/b.rs"].map(str::to_owned).to_vec(), false));
    assert_eq!(found(&house, &blueprint, find("src/**/*.txt")).await.0, ["src/deep/c.txt"]);
    assert_eq!(found(&house, &blueprint, find("*.RS")).await.0, [""; 0]);
    assert_eq!(found(&house, &blueprint, FindOrder { ignore_case: true, ..find("A.RS") }).await.0, ["a.rs"]);
    let all = FindOrder { all: true, pattern: None, ..find("") };
    assert_eq!(found(&house, &blueprint, all.clone()).await.0.len(), 13);
    let (some, truncated) = found(&house, &blueprint, FindOrder { limit: 3, ..all }).await;
    assert!(some.len() == 3 && truncated);
    assert_eq!(found(&house, &blueprint, FindOrder { path: path("/workspace/src"), ..find("*.rs") }).await.0, ["/workspace/src/b.rs"]);
    assert_eq!(errand(&house, &blueprint, FileOrder::Find(find("[")), None).await.unwrap_err(), FileProblem::Pattern);

    let (shown, end) = lines(&house, &blueprint, grep("main")).await;
    assert_eq!(shown, ["a.rs:1:fn main() {}", "odd\u{fffd}.rs:1:main \u{fffd}", "src/b.rs:3:three main"]);
    assert!(matches!(end, GrepLine::End { matches: 3, files: 3, truncated: false, .. }), "{end:?}");
    let (shown, _) =
        lines(&house, &blueprint, GrepOrder { ignore_case: true, globs: vec!["*.rs".to_owned()], path: path("a.rs"), ..grep("MAIN") })
            .await;
    assert_eq!(shown, ["a.rs:1:fn main() {}", "a.rs:3:// MAIN"]);
    let (shown, _) = lines(&house, &blueprint, GrepOrder { fixed: true, context: 1, path: path("src"), ..grep("three m") }).await;
    assert_eq!(shown, ["src/b.rs-2-two", "src/b.rs-4-four", "src/b.rs:3:three main"]);
    let (shown, _) = lines(&house, &blueprint, GrepOrder { all: true, ..grep("^main$") }).await;
    assert_eq!(shown, [".hidden:1:main", "ignored/d.rs:1:main"]);
    let (shown, end) = lines(&house, &blueprint, GrepOrder { limit: 1, ..grep("main") }).await;
    assert!(shown.len() == 1 && matches!(end, GrepLine::End { matches: 1, truncated: true, .. }), "{end:?}");
    assert_eq!(errand(&house, &blueprint, FileOrder::Grep(grep("(")), None).await.unwrap_err(), FileProblem::Pattern);
    let elsewhere = GrepOrder { path: path("nothing"), ..grep("x") };
    assert_eq!(errand(&house, &blueprint, FileOrder::Grep(elsewhere), None).await.unwrap_err(), FileProblem::NotFound);
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

async fn watch(house: &House, blueprint: &Blueprint, start: &str, recursive: bool) -> ErrandStream {
    let order = Errand { directory: "/workspace".into(), order: FileOrder::Watch { path: path(start), recursive } };
    let mut stream = house.stewards.errand(blueprint, None, &order).await.unwrap();
    assert_eq!(stream.next().await.unwrap().0, FileWord::Begun);
    stream
}

/// What is told until this event.
async fn until(stream: &mut ErrandStream, last: &FileEvent) -> Vec<FileEvent> {
    let mut told = Vec::new();
    while told.last() != Some(last) {
        match tokio::time::timeout(Duration::from_secs(30), stream.next()).await {
            Ok(Ok((FileWord::Events { events }, _))) => told.extend(events),
            other => panic!("{other:?} after {told:?}"),
        }
    }
    told
}

fn named(name: &str, directory: bool) -> FileNamed {
    FileNamed::new(&path(name), directory)
}

#[tokio::test]
async fn what_changes_is_told_also_in_directories_that_are_new() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let workspace = house.data.join("workspace");
    fs::create_dir_all(workspace.join("old/er")).unwrap();
    fs::create_dir_all(workspace.join("elsewhere")).unwrap();
    let mut whole = watch(&house, &blueprint, ".", true).await;
    let mut shallow = watch(&house, &blueprint, "old", false).await;
    fs::write(workspace.join("old/er/file"), "x").unwrap();
    let created = FileEvent::Created(named("old/er/file", false));
    assert_eq!(until(&mut whole, &FileEvent::Modified(named("old/er/file", false))).await[0], created);
    fs::rename(workspace.join("old/er"), workspace.join("elsewhere/er")).unwrap();
    let moved = FileEvent::Moved { from: named("old/er", true), to: named("elsewhere/er", true) };
    until(&mut whole, &moved).await;
    // Who watches only the one directory saw it go.
    until(&mut shallow, &FileEvent::Removed(named("old/er", true))).await;
    // Under its new name.
    fs::remove_file(workspace.join("elsewhere/er/file")).unwrap();
    until(&mut whole, &FileEvent::Removed(named("elsewhere/er/file", false))).await;
    // Made faster than anybody can look: at once with everything in it.
    fs::create_dir_all(workspace.join("new/and/deep")).unwrap();
    fs::write(workspace.join("new/and/deep/file"), "x").unwrap();
    let told = until(&mut whole, &FileEvent::Created(named("new/and/deep/file", false))).await;
    for directory in ["new", "new/and", "new/and/deep"] {
        assert!(told.contains(&FileEvent::Created(named(directory, true))), "{directory}: {told:?}");
    }
    // From elsewhere, and a link that leads elsewhere is not followed.
    std::os::unix::fs::symlink("/tmp", workspace.join("new/link")).unwrap();
    until(&mut whole, &FileEvent::Created(named("new/link", false))).await;
    fs::remove_dir_all(workspace.join("old")).unwrap();
    until(&mut shallow, &FileEvent::Removed(named("old", false))).await;
    assert!(matches!(shallow.next().await.unwrap().0, FileWord::Done { .. }), "there is nothing left to watch");
    let missing = FileOrder::Watch { path: path("nothing"), recursive: true };
    assert_eq!(errand(&house, &blueprint, missing, None).await.unwrap_err(), FileProblem::NotFound);
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

#[tokio::test]
async fn who_does_not_keep_up_is_told_so() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let workspace = house.data.join("workspace");
    let mut stream = watch(&house, &blueprint, ".", true).await;
    let most: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    // More than the kernel and both ends of the stream hold, while nobody reads.
    for number in 0..most * 2 {
        let name = workspace.join(format!("{}-{number}", "n".repeat(200)));
        fs::write(&name, "").unwrap();
        fs::remove_file(&name).unwrap();
    }
    until(&mut stream, &FileEvent::Overflow).await;
    fs::write(workspace.join("after"), "").unwrap();
    until(&mut stream, &FileEvent::Created(named("after", false))).await;
    // Nobody listens any more: it ends by itself, and the place has nothing left that runs.
    drop(stream);
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}
