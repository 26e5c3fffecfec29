//! `stead run` and `stead exec`: a command inside as if it ran here.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::desk::{Desk, told};

fn environments(desk: &Desk) -> Vec<String> {
    let list = desk.json(&["env", "list"]);
    let mut names: Vec<String> = list["items"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn output_goes_where_it_belongs_and_the_exit_code_comes_back() {
    let desk = Desk::new();
    insta::assert_snapshot!(desk.run(&["run", "--", "sh", "-c", "echo out; echo err >&2; pwd; id -un; exit 3"]), @r"
    exit code: 3
    --- stdout ---
    out
    /workspace
    stead
    --- stderr ---
    err
    ");
    // Without the dashes too, and everything after the program is the program's.
    insta::assert_snapshot!(desk.run(&["run", "sh", "-c", "echo $0 $1", "--json", "--rm"]), @r"
    exit code: 0
    --- stdout ---
    --json --rm
    ");
    insta::assert_snapshot!(desk.run(&["exec", "local-default", "-e", "A=b c", "--dir", "/tmp", "--", "sh", "-c", "echo $A; pwd"]), @r"
    exit code: 0
    --- stdout ---
    b c
    /tmp
    ");
}

#[test]
fn codes_tell_a_program_from_stead() {
    let desk = Desk::new();
    desk.write("plain.txt", "no program");
    for (command, code) in [
        (&["run", "--", "true"][..], 0),
        (&["run", "--", "sh", "-c", "exit 255"], 255),
        (&["run", "--", "sh", "-c", "kill -9 $$"], 137),
        (&["run", "--timeout", "200ms", "--", "sleep", "60"], 124),
        (&["run", "--", "/workspace/plain.txt"], 126),
        (&["run", "--", "nonesuch"], 127),
        (&["run", "--dir", "/nowhere", "--", "true"], 125),
        (&["exec", "nobody", "--", "true"], 125),
        (&["run", "--env", "nobody", "--", "true"], 125),
        (&["shell", "nobody"], 125),
        (&["run", "--nonsense"], 2),
    ] {
        assert_eq!(desk.code(command), code, "{command:?}: {}", desk.run(command));
    }
    insta::assert_snapshot!(desk.run(&["run", "--timeout", "200ms", "--", "sleep", "60"]), @r"
    exit code: 124
    --- stderr ---
    warning: it ran for longer than 200ms and was ended (timeout)
    ");
    assert_eq!(desk.error(&["exec", "nobody", "--json", "--", "true"])["code"], "not_found");
}

#[test]
fn stdin_arrives_byte_for_byte_and_ends() {
    let desk = Desk::new();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut child = desk.command(&["run", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    assert!(output.stdout == bytes, "{} bytes of {} came back", output.stdout.len(), bytes.len());
    // The desk's stdin is /dev/null, which ends at once.
    assert_eq!(desk.done(&["run", "--", "wc", "-c"]), "0\n");
    // A program that does not read its stdin does not wait for it.
    let mut idle = desk.command(&["run", "--", "true"]).stdin(Stdio::piped()).spawn().unwrap();
    let _held = idle.stdin.take();
    assert!(idle.wait().unwrap().success());
}

#[test]
fn a_program_that_stops_reading_harms_nobody() {
    let desk = Desk::new();
    let neighbour = desk.done(&["run", "--detach", "--", "sleep", "60"]).trim().to_owned();
    for _ in 0..3 {
        let mut child = desk.command(&["run", "--", "head", "-c", "2"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || while stdin.write_all(&[b'y'; 65536]).is_ok() {});
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"yy"[..]));
    }
    assert_eq!(desk.done(&["ps", "--quiet"]).trim(), neighbour, "what runs beside it goes on");
    // What keeps the environment bears a broken pipe; what runs inside dies of one, as everywhere.
    assert_eq!(desk.done(&["run", "--", "sed", "-n", "s/^SigIgn:\\t//p", "/proc/self/status"]), "0000000000000000\n");
}

#[test]
fn the_directory_is_the_workspace_and_keeps_its_environment() {
    let desk = Desk::new();
    desk.write("repo/.git/HEAD", "ref: refs/heads/main\n");
    desk.write("repo/deep/down/note.txt", "hello\n");
    let run = |below: &str, command: &[&str]| {
        let output = desk.command(&[&["run", "--"], command].concat()).current_dir(desk.work().join(below)).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run("repo/deep/down", &["sh", "-c", "pwd; cat note.txt; echo made > made.txt"]), "/workspace/deep/down\nhello\n");
    assert_eq!(desk.read("repo/deep/down/made.txt"), "made\n");
    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!(owner(&desk.work().join("repo/deep/down/made.txt")), owner(&desk.work()), "what is made inside is the user's");
    assert_eq!(run("repo", &["pwd"]), "/workspace\n");
    let names = environments(&desk);
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[1].starts_with("repo-"), "{names:?}");
    // Another directory is another environment, and so is another posture of the same.
    run(".", &["true"]);
    desk.done(&["run", "--network", "disabled", "--", "true"]);
    assert_eq!(environments(&desk).len(), 4);
    // Hosts are part of it, in whatever order they are named.
    let listed = |hosts: [&str; 2]| {
        desk.done(&["run", "--network", "allowlist", "--allow-host", hosts[0], "--allow-host", hosts[1], "--", "true"]);
        let all = environments(&desk);
        let made = all.iter().find(|name| name.contains("-network-allowlist-")).unwrap();
        (all.len(), desk.json(&["env", "view", made])["spec"]["sandbox"]["allowed_hosts"].clone())
    };
    assert_eq!(listed(["a.example", "b.example:8443"]), (5, serde_json::json!(["a.example", "b.example:8443"])));
    assert_eq!(listed(["b.example:8443", "a.example"]).0, 5);
    assert_eq!(desk.code(&["run", "--allow-host", "a.example", "--", "true"]), 2, "without a list it would say nothing");
    let tags = &desk.json(&["env", "view", &names[1]])["tags"];
    assert_eq!(tags["directory"], desk.work().join("repo").display().to_string());
}

#[test]
fn several_at_once_make_one_environment() {
    let desk = Desk::new();
    let children: Vec<_> = (0..6).map(|number| desk.command(&["run", "--", "echo", &number.to_string()]).spawn().unwrap()).collect();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    assert_eq!(environments(&desk).len(), 2);
}

#[test]
fn what_is_to_be_removed_is() {
    let desk = Desk::new();
    assert_eq!(desk.code(&["run", "--rm", "--", "sh", "-c", "exit 4"]), 4);
    assert_eq!(desk.done(&["run", "--rm", "--scratch", "--", "sh", "-c", "ls; echo a > b; ls"]), "b\n");
    assert_eq!(environments(&desk), ["local-default"]);
    assert_eq!(desk.code(&["run", "--rm", "--", "nonesuch"]), 127);
    assert_eq!(environments(&desk), ["local-default"]);
    // Also when it is interrupted.
    let mut child = desk.command(&["run", "--rm", "--", "sh", "-c", "touch begun; sleep 60"]).spawn().unwrap();
    until("it has begun", || desk.work().join("begun").exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(environments(&desk), ["local-default"]);
    let sandboxes = fs::read_dir(desk.data().join("sandboxes")).unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert_eq!(sandboxes.filter(|name| name.starts_with("sbx_")).count(), 1);
}

#[test]
fn signals_reach_the_program_and_the_third_interruption_leaves_it() {
    let desk = Desk::new();
    let script = "trap 'echo int' INT; trap 'echo term; exit 9' TERM; touch begun; while :; do sleep 0.05; done";
    let child = desk.command(&["run", "--", "sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it has begun", || desk.work().join("begun").exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()), (Some(9), "int\nterm\n".to_owned()));

    fs::remove_file(desk.work().join("begun")).unwrap();
    let stubborn = "trap '' INT; touch begun; sleep 1; echo still here; sleep 60";
    let mut child = desk.command(&["run", "--", "sh", "-c", stubborn]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it has begun", || desk.work().join("begun").exists());
    // Two that come at once count as one.
    until("it leaves", || {
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        std::thread::sleep(Duration::from_millis(100));
        child.try_wait().unwrap().is_some()
    });
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let command = said.split("come back with: stead ").nth(1).unwrap_or_else(|| panic!("{said}")).trim();
    let process = command.split_whitespace().nth(1).unwrap();
    until("it goes on", || desk.done(&["logs", process]).contains("still here"));
    // As it was told, and from where it was left.
    let child = desk.command(&command.split_whitespace().collect::<Vec<_>>()).stdout(Stdio::piped()).spawn().unwrap();
    desk.done(&["kill", process, "KILL"]);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(137), &b"still here\n"[..]));
}

#[test]
fn a_reader_that_goes_ends_the_program() {
    let desk = Desk::new();
    let mut child = desk.command(&["run", "--", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

#[test]
fn a_home_directory_is_never_the_workspace() {
    let desk = Desk::new();
    let at = |directory: &Path| told(&desk.command(&["run", "--", "true"]).current_dir(directory).output().unwrap());
    insta::assert_snapshot!(at(desk.home()), @r"
    exit code: 125
    --- stderr ---
    error: [HOME] is your home directory, or holds it, and everything in it would be seen inside (usage)
    hint: change to a directory of its own, or use --scratch for an empty workspace
    ");
    assert!(at(Path::new("/")).contains("--scratch"), "{}", at(Path::new("/")));
    // Nor one that the server refuses.
    let data = told(&desk.command(&["run", "--", "true"]).current_dir(desk.data()).output().unwrap());
    assert!(data.contains("exit code: 125") && data.contains("data directory"), "{data}");
    let scratch = desk.command(&["run", "--scratch", "--", "pwd"]).current_dir(desk.home()).output().unwrap();
    assert_eq!(String::from_utf8(scratch.stdout).unwrap(), "/workspace\n");
}

#[test]
fn a_program_that_is_only_here_comes_with_the_command_that_mounts_it() {
    let desk = Desk::new();
    let tool = desk.home().join("tools/bin/greet");
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    fs::write(&tool, "#!/bin/sh\necho hello from a tool\n").unwrap();
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let search = format!("{}:{}", tool.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let run = || desk.command(&["run", "--", "greet"]).env("PATH", &search).output().unwrap();
    let before = run();
    let name = environments(&desk).into_iter().find(|name| name.starts_with("work-")).unwrap();
    let said = String::from_utf8_lossy(&before.stderr).into_owned();
    assert_eq!(before.status.code(), Some(127), "{said}");
    assert!(said.contains(&format!("`greet` is {} here", tool.display())), "{said}");
    let hint = said.lines().find_map(|line| line.strip_prefix("hint: stead ")).unwrap();
    let tools = desk.home().join("tools");
    assert!(hint.starts_with(&format!("env update {name} --mount host:{0}:{0}:ro ", tools.display())), "{hint}");
    desk.done(&hint.split_whitespace().collect::<Vec<_>>());
    let after = run();
    assert_eq!(String::from_utf8_lossy(&after.stdout), "hello from a tool\n", "{}", told(&after));
}

#[test]
fn a_definition_of_the_directory_is_what_it_is_made_from() {
    let desk = Desk::new();
    desk.write(
        ".stead/environments/default.json",
        r#"{"id": "default", "env": {"A": "1"}, "workspace_mount_defaults": {"workspace_path": "/here"}}"#,
    );
    assert_eq!(desk.done(&["run", "--", "sh", "-c", "echo $A; pwd"]), "1\n/here\n");
    desk.write(".stead/environments/default.json", r#"{"id": "default", "env": {"A": "2"}}"#);
    assert_eq!(desk.done(&["run", "--", "sh", "-c", "echo $A; pwd"]), "2\n/workspace\n");
    assert_eq!(environments(&desk).len(), 2, "the same environment was changed");
}

/// Everybody else's machine: as root this test becomes somebody else, and for all others every test here is this one.
#[test]
fn an_ordinary_user_runs_commands_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const USER: u32 = 5001;
    let home = tempfile::Builder::new().prefix("stead-user-").tempdir().unwrap();
    let (program, work) = (home.path().join("stead"), home.path().join("work"));
    fs::copy(env!("CARGO_BIN_EXE_stead"), &program).unwrap();
    fs::create_dir(&work).unwrap();
    for path in [home.path(), &work] {
        std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
    }
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=5001", "--regid=5001", "--clear-groups"]).arg(&program).args(arguments).current_dir(&work);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path()).env("STEAD_LISTEN", "127.0.0.1:0").stdin(Stdio::null());
        command.output().unwrap()
    };
    let first = run(&["run", "--", "sh", "-c", "echo out; echo err >&2; echo made > made.txt; exit 6"]);
    let owner = fs::metadata(work.join("made.txt")).map(|it| it.uid());
    let homes = run(&["run", "--", "ls", "/home"]);
    let removed = run(&["run", "--rm", "--scratch", "--network", "disabled", "--", "true"]);
    let stopped = run(&["down", "--all"]);
    assert_eq!((first.status.code(), first.stdout.as_slice()), (Some(6), &b"out\n"[..]), "{}", told(&first));
    assert!(first.stderr.ends_with(b"err\n"), "{}", told(&first));
    assert_eq!(owner.unwrap(), USER);
    assert_eq!(homes.stdout, b"stead\n", "{}", told(&homes));
    assert!(removed.status.success(), "{}", told(&removed));
    assert!(stopped.status.success(), "{}", told(&stopped));
}

pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
