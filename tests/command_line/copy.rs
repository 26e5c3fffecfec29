//! `stead cp` in, out and between, also while the server dies.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use super::desk::{Desk, told};
use super::run::until;
use crate::support::Server;

fn same(left: &Path, right: &Path) -> bool {
    Command::new("diff").args(["-r", "--no-dereference"]).arg(left).arg(right).status().unwrap().success()
}

fn workspace(desk: &Desk) -> std::path::PathBuf {
    let sandbox = desk.json(&["env", "view", "local-default"])["sandbox_id"].as_str().unwrap().to_owned();
    desk.data().join("sandboxes").join(sandbox).join("workspace")
}

#[test]
fn files_and_directories_go_in_out_and_between() {
    let desk = Desk::new();
    desk.write("src/a.txt", "one");
    desk.write("src/deep/b.txt", "two");
    symlink("deep/b.txt", desk.work().join("src/link")).unwrap();
    fs::set_permissions(desk.work().join("src/a.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    insta::assert_snapshot!(desk.run(&["cp", "src", "local-default:"]), @r"
    exit code: 0
    --- stderr ---
    copied to local-default:src (5 entries, 6 B)
    ");
    // Into what is there under its own name, else under the name that was given; or only what it holds.
    assert_eq!(desk.done(&["cp", "src", "local-default:src", "--quiet"]), "src/src\n");
    assert_eq!(desk.done(&["cp", "src/.", "local-default:other", "--quiet"]), "other\n");
    assert_eq!(desk.done(&["cp", "src/a.txt", "local-default:new/dir/", "--quiet"]), "new/dir/a.txt\n");
    assert_eq!(desk.done(&["cp", "src/a.txt", "local-default:new/b.txt", "--quiet"]), "new/b.txt\n");
    assert_eq!(desk.json(&["files", "stat", "local-default", "new/b.txt"])["mode"], "0600");
    desk.done(&["cp", "local-default:other", "back"]);
    assert!(same(&desk.work().join("src"), &desk.work().join("back")));
    assert_eq!(desk.done(&["cp", "local-default:src/deep/b.txt", ".", "--quiet"]), "./b.txt\n");
    assert_eq!(desk.read("b.txt"), "two");
    let copied = desk.json(&["cp", "local-default:src/a.txt", "made/up/c.txt"]);
    assert_eq!((&copied["size"], &copied["to"]), (&3.into(), &"made/up/c.txt".into()));
    desk.done(&["env", "create", "second"]);
    desk.done(&["cp", "local-default:other", "second:"]);
    desk.done(&["cp", "local-default:src/a.txt", "second:x.txt"]);
    desk.done(&["cp", "second:other", "third"]);
    assert!(same(&desk.work().join("src"), &desk.work().join("third")));
    assert_eq!(desk.done(&["files", "cat", "second", "x.txt"]), "one");
    for (arguments, code) in [
        (["cp", "a", "b"], 2),
        (["cp", "nothing", "local-default:"], 1),
        (["cp", "local-default:nothing", "."], 4),
        (["cp", "nobody:x", "."], 4),
        (["cp", "src", "local-default:new/b.txt"], 3),
    ] {
        assert_eq!(desk.code(&arguments), code, "{arguments:?}");
    }
    let left: Vec<_> = fs::read_dir(desk.work()).unwrap().map(|found| found.unwrap().file_name()).collect();
    assert_eq!(left.len(), 5, "nothing unfinished is left: {left:?}");
    desk.done(&["env", "delete", "second", "--yes"]);
}

#[test]
fn an_environment_cannot_make_a_copy_write_elsewhere() {
    let desk = Desk::new();
    // What a process inside can put into a directory that somebody copies out.
    desk.done(&["exec", "local-default", "--", "sh", "-c", "mkdir t; ln -s ../../outside t/up; ln -s / t/root; mkfifo t/pipe"]);
    desk.write("outside/keep", "keep");
    desk.done(&["cp", "local-default:t", "t"]);
    assert!(desk.work().join("t/root").is_symlink());
    // Copied again over what is there, it goes through none of the links.
    desk.done(&["exec", "local-default", "--", "sh", "-c", "rm t/up; mkdir t/up; echo x > t/up/new"]);
    let error = desk.error(&["cp", "local-default:t/.", "t"]);
    assert!(error["message"].as_str().unwrap().contains("t/up") || error["message"].as_str().unwrap().contains("up"), "{error}");
    assert_eq!(fs::read_dir(desk.work().join("outside")).unwrap().count(), 1);
}

#[test]
fn copies_survive_a_server_that_is_killed() {
    let mut desk = Desk::new();
    let content: Vec<u8> = (0..40_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(desk.work().join("large"), &content).unwrap();
    fs::create_dir(desk.work().join("tree")).unwrap();
    for number in 0..50 {
        fs::write(desk.work().join(format!("tree/{number}")), &content[..2_000_000]).unwrap();
    }
    let workspace = workspace(&desk);
    let size =
        |path: &Path| fs::read_dir(path).map_or(0, |found| found.flatten().map(|found| found.metadata().map_or(0, |it| it.len())).sum());
    let work = desk.work();
    let copies: [(&[&str], &Path); 4] = [
        (&["cp", "large", "local-default:large"], &workspace),
        (&["cp", "local-default:large", "back"], &work),
        (&["cp", "tree", "local-default:"], &workspace.join("tree")),
        (&["cp", "local-default:tree", "tree-back"], &work.join("tree-back")),
    ];
    for (arguments, grows) in copies {
        let before: u64 = size(grows);
        let child = desk.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("it is under way", || size(grows) > before);
        let directory = desk.server().directory();
        desk.server_mut().kill();
        *desk.server_mut() = Server::builder().on(directory).start();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
    }
    assert!(fs::read(workspace.join("large")).unwrap() == content);
    assert!(fs::read(work.join("back")).unwrap() == content);
    assert!(same(&work.join("tree"), &workspace.join("tree")));
    assert!(same(&work.join("tree"), &work.join("tree-back")));
    let names: Vec<_> = fs::read_dir(&workspace).unwrap().map(|found| found.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_copy_that_was_ended_goes_on_where_it_was() {
    let desk = Desk::new();
    let content: Vec<u8> = (0..30_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(desk.work().join("large"), &content).unwrap();
    let workspace = workspace(&desk);
    let part = || fs::read_dir(&workspace).unwrap().flatten().find(|found| found.file_name().to_string_lossy().ends_with(".part"));
    let mut child = desk.command(&["cp", "large", "local-default:large"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("a part is there", || {
        part().is_some_and(|part| part.metadata().is_ok_and(|part| part.len() > 0)) || workspace.join("large").exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    // The name of the part stays the same, and so does what it holds.
    if let Some(part) = part() {
        let reached = part.metadata().unwrap().len();
        desk.done(&["cp", "large", "local-default:large"]);
        assert!(reached <= content.len() as u64);
    }
    assert!(fs::read(workspace.join("large")).unwrap() == content && part().is_none());
    // The same the other way, with a part that was left.
    let mut child = desk.command(&["cp", "local-default:large", "down"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let left = || fs::read_dir(desk.work()).unwrap().flatten().find(|found| found.file_name().to_string_lossy().ends_with(".part"));
    until("a part is here", || left().is_some() || desk.work().join("down").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    desk.done(&["cp", "local-default:large", "down"]);
    assert!(fs::read(desk.work().join("down")).unwrap() == content && left().is_none());
}
