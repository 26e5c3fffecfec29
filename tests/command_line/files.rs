//! Files of environments from the command line.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use super::desk::{Desk, squeezed, told};

/// Where the workspace of `local-default` lies on the host.
fn workspace(desk: &Desk) -> std::path::PathBuf {
    let sandbox = desk.json(&["env", "view", "local-default"])["sandbox_id"].as_str().unwrap().to_owned();
    desk.data().join("sandboxes").join(sandbox).join("workspace")
}

#[test]
fn files_are_written_listed_read_and_removed() {
    let desk = Desk::new();
    insta::assert_snapshot!(desk.run(&["files", "ls", "local-default"]), @r"
    exit code: 0
    --- stderr ---
    the directory is empty
    ");
    insta::assert_snapshot!(desk.run_fed(&["files", "put", "local-default", "a/notes.txt"], "one\ntwo\n"), @r"
    exit code: 0
    --- stderr ---
    wrote 8 B to `a/notes.txt` in local-default
    ");
    desk.write("tool", "#!/bin/sh\n");
    assert_eq!(desk.json(&["files", "put", "local-default", "a/tool", "--file", "tool", "--mode", "0750"])["size"], 10);
    assert_eq!(desk.done(&["files", "cat", "local-default", "/workspace/a/notes.txt"]), "one\ntwo\n");
    insta::assert_snapshot!(squeezed(&desk.run(&["files", "ls", "local-default", "-r"])), @r"
    exit code: 0
    --- stdout ---
    MODE  SIZE  MODIFIED  PATH
    0755  directory  [SECOND]  a
    0644  8 B  [SECOND]  a/notes.txt
    0750  10 B  [SECOND]  a/tool
    ");
    assert_eq!(desk.done(&["files", "ls", "local-default", "a", "--quiet"]), "a/notes.txt\na/tool\n");
    let listed = desk.json(&["files", "ls", "local-default", "-r", "--limit", "2"]);
    assert_eq!((listed["items"].as_array().unwrap().len(), &listed["has_more"]), (2, &true.into()));
    insta::assert_snapshot!(desk.run(&["files", "stat", "local-default", "a/tool"]), @r"
    exit code: 0
    --- stdout ---
    path      a/tool
    type      file
    size      10 B (10 bytes)
    mode      0750
    modified  [TIME]
    ");
    assert_eq!(desk.json(&["files", "stat", "local-default", "a"])["type"], "directory");
    desk.done(&["files", "mkdir", "local-default", "b/c", "--parents"]);
    desk.done(&["files", "mv", "local-default", "a/tool", "b/c/tool"]);
    desk.done(&["files", "cp", "local-default", "b", "d"]);
    assert_eq!(desk.done(&["files", "ls", "local-default", "d", "-r", "--quiet"]), "d/c\nd/c/tool\n");
    insta::assert_snapshot!(desk.run(&["files", "cp", "local-default", "a/notes.txt", "d/c/tool"]), @r"
    exit code: 3
    --- stderr ---
    error: `d/c/tool` is there already (file_exists)
    hint: say `overwrite` to put this in its place, or choose another name
    ");
    assert_eq!(desk.done(&["files", "cp", "local-default", "a/notes.txt", "d/c/tool", "-f", "--quiet"]), "d/c/tool\n");
    insta::assert_snapshot!(desk.run(&["files", "rm", "local-default", "d", "-r"]), @r"
    exit code: 2
    --- stderr ---
    error: this needs a yes, and there is no terminal to ask on: Remove `d` and everything in it from local-default? (usage)
    hint: say --yes to go ahead
    ");
    assert_eq!(desk.code(&["files", "rm", "local-default", "d"]), 3);
    insta::assert_snapshot!(desk.run(&["files", "rm", "local-default", "d", "b", "-r", "--yes"]), @r"
    exit code: 0
    --- stderr ---
    removed 2 paths from local-default
    ");
    assert_eq!(desk.done(&["files", "rm", "local-default", "a/notes.txt", "--quiet"]), "a/notes.txt\n");
    assert_eq!(desk.code(&["files", "cat", "local-default", "a/notes.txt"]), 4);
    assert_eq!(fs::read_dir(workspace(&desk)).unwrap().count(), 1);
}

#[test]
fn names_of_any_bytes_go_in_and_come_out() {
    let desk = Desk::new();
    let name = std::ffi::OsStr::from_bytes(b"odd \xff \x1b[2J");
    let mut put = desk.command(&["files", "put", "local-default"]);
    let output = put.arg(name).args(["--file", "content"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    desk.write("content", "inside");
    let output = desk.command(&["files", "put", "local-default"]).arg(name).args(["--file", "content", "--quiet"]).output().unwrap();
    assert_eq!(output.stdout, b"odd \xff \x1b[2J\n", "{}", told(&output));
    assert_eq!(desk.output(&["files", "ls", "local-default", "--quiet"]).stdout, b"odd \xff \x1b[2J\n");
    let shown = desk.done(&["files", "ls", "local-default"]);
    assert!(shown.contains(r"odd � \u{1b}[2J"), "{shown}");
    assert_eq!(desk.command(&["files", "cat", "local-default"]).arg(name).output().unwrap().stdout, b"inside");
    let removed = desk.command(&["files", "rm", "local-default"]).arg(name).output().unwrap();
    assert!(removed.status.success(), "{}", told(&removed));
}

#[test]
fn what_is_longer_than_any_buffer_passes_through() {
    let desk = Desk::new();
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(desk.work().join("big"), &content).unwrap();
    desk.done(&["files", "put", "local-default", "big", "--file", "big"]);
    let mut from_pipe = desk.command(&["files", "put", "local-default", "piped"]);
    let output = from_pipe.stdin(fs::File::open(desk.work().join("big")).unwrap()).stdout(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    for name in ["big", "piped"] {
        assert!(desk.output(&["files", "cat", "local-default", name]).stdout == content, "{name}");
    }
    // Refused in the middle, and the reason arrives all the same.
    let error = desk.error(&["files", "put", "local-default", "/usr/big", "--file", "big"]);
    assert_eq!(error["code"], "file_denied");
}

#[test]
fn files_are_found_by_name_and_by_content() {
    let desk = Desk::new();
    desk.done(&[
        "exec",
        "local-default",
        "--",
        "sh",
        "-c",
        "mkdir src; printf 'one\\ntwo main\\nthree\\n' > src/a.rs; echo main > .hidden; echo b > src/b.txt",
    ]);
    assert_eq!(desk.done(&["files", "find", "local-default", "*.rs", "--quiet"]), "src/a.rs\n");
    insta::assert_snapshot!(squeezed(&desk.run(&["files", "find", "local-default", "src/*.txt"])), @r"
    exit code: 0
    --- stdout ---
    MODE  SIZE  MODIFIED  PATH
    0644  2 B  [SECOND]  src/b.txt
    ");
    insta::assert_snapshot!(desk.run(&["files", "find", "local-default", "*.go"]), @r"
    exit code: 0
    --- stderr ---
    nothing fits `*.go`; --all also shows what is hidden or ignored
    ");
    insta::assert_snapshot!(desk.run(&["files", "grep", "local-default", "main", "-C", "1"]), @r"
    exit code: 0
    --- stdout ---
    src/a.rs-1-one
    src/a.rs:2:two main
    src/a.rs-3-three
    ");
    assert_eq!(desk.done(&["files", "grep", "local-default", "main", "--all", "-g", ".hid*", "--quiet"]), ".hidden\n");
    let lines = desk.done(&["files", "grep", "local-default", "-F", "o m", "--json"]);
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["text"], &lines[0]["ranges"][0]), (&"two main".into(), &serde_json::json!([2, 5])));
    assert_eq!((&lines[1]["type"], &lines[1]["matches"], lines.len()), (&"end".into(), &1.into(), 2));
    assert_eq!(desk.run(&["files", "grep", "local-default", "nowhere"]), "exit code: 1\n");
    assert_eq!(desk.error(&["files", "grep", "local-default", "("])["code"], "invalid_field");
}

#[test]
fn what_changes_is_shown_also_after_the_server_was_gone() {
    use std::io::BufRead;
    let mut desk = Desk::new();
    let workspace = workspace(&desk);
    let mut child = desk.command(&["files", "watch", "local-default", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until = |wanted: &str| {
        let is_there = lines.by_ref().any(|line| line.unwrap() == wanted);
        assert!(is_there, "it ended before {wanted}");
    };
    // The watch begins with its answer, and nothing says here when that was: so there are many changes.
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let changing = std::thread::spawn(move || {
        while stopped.try_recv().is_err() {
            let _ = fs::create_dir(workspace.join("dir"));
            let _ = fs::remove_dir(workspace.join("dir"));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    until(r#"{"type":"created","path":"dir","directory":true}"#);
    let directory = desk.server().directory();
    desk.server_mut().kill();
    *desk.server_mut() = crate::support::Server::builder().on(directory).start();
    until(r#"{"type":"overflow"}"#);
    until(r#"{"type":"removed","path":"dir","directory":true}"#);
    stop.send(()).unwrap();
    changing.join().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}
