//! `stead env export --archive` and `stead env import`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use insta::assert_snapshot;

use super::desk::{Desk, told};
use super::run::until;
use crate::support::Server;

#[test]
fn an_environment_goes_into_a_file_and_comes_out_of_it() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web", "--network", "disabled"]);
    desk.done(&["exec", "web", "--", "sh", "-c", "echo text > file"]);
    desk.done(&["checkpoint", "create", "web", "one"]);
    desk.done(&["exec", "web", "--", "sh", "-c", "echo more > more"]);
    assert_snapshot!(desk.run(&["env", "export", "web", "--archive", "web.tar"]), @r"
    exit code: 0
    --- stderr ---
    wrote web.tar ([SIZE])
    on another machine: stead env import --archive web.tar
    ");
    assert_eq!(fs::metadata(desk.work().join("web.tar")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_snapshot!(desk.run(&["env", "export", "web", "--archive", "web.tar"]), @r"
    exit code: 3
    --- stderr ---
    error: web.tar is there already (already_exists)
    hint: choose another name, or remove the file first
    ");
    assert_snapshot!(desk.run(&["env", "import", "--archive", "web.tar"]), @r"
    exit code: 3
    --- stderr ---
    error: the name `web` is taken (already_exists)
    hint: choose another name, or delete the environment that has it
    ");
    assert_snapshot!(desk.run(&["env", "import", "--archive", "web.tar", "--name", "second"]), @r"
    exit code: 0
    --- stdout ---
    second
    --- stderr ---
    hint: its checkpoints: stead checkpoint list second
    ");
    assert_eq!(desk.done(&["exec", "second", "--", "cat", "file", "more"]), "text\nmore\n");
    let rows = desk.json(&["checkpoint", "list", "second"]);
    assert_eq!(rows["items"].as_array().unwrap().len(), 2);
    desk.done(&["checkpoint", "restore", "second", "one", "--yes"]);
    assert_eq!(desk.done(&["exec", "second", "--", "ls"]), "file\n");
    let exported = desk.json(&["env", "export", "second", "--archive", "third.tar"]);
    assert_eq!(exported["archive"], "third.tar");
    assert_eq!(exported["size"], fs::metadata(desk.work().join("third.tar")).unwrap().len());
    assert!(exported["checkpoint_id"].as_str().unwrap().starts_with("ckp_"), "{exported}");
    assert_eq!(desk.json(&["env", "import", "--archive", "third.tar", "--name", "third"])["name"], "third");
    for (arguments, code) in [
        (&["env", "export", "web", "--archive", "nowhere/web.tar"][..], 1),
        (&["env", "export", "nobody", "--archive", "new.tar"], 4),
        (&["env", "export", "web", "--archive", "new.tar", "--output", "new.json"], 2),
        (&["env", "export", "web", "--stop"], 2),
        (&["env", "import", "--archive", "nothing.tar"], 1),
        (&["env", "import"], 2),
    ] {
        assert_eq!(desk.code(arguments), code, "{arguments:?}");
    }
    let whole = fs::read(desk.work().join("web.tar")).unwrap();
    fs::write(desk.work().join("cut.tar"), &whole[..whole.len() - 2000]).unwrap();
    assert_snapshot!(desk.run(&["env", "import", "--archive", "cut.tar", "--name", "cut"]), @r"
    exit code: 2
    --- stderr ---
    error: the archive ends before its end: it was cut off (invalid_archive)
    hint: export it again with `stead env export ENVIRONMENT --archive FILE`, and send all of it
    ");
    let left: Vec<_> = fs::read_dir(desk.work()).unwrap().map(|found| found.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "nothing unfinished is left: {left:?}");
}

#[test]
fn an_archive_goes_through_a_pipe() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web", "--network", "disabled"]);
    desk.done(&["exec", "web", "--", "sh", "-c", "head -c 5000000 /dev/urandom > big; sha256sum big > sum"]);
    let mut export = desk.command(&["env", "export", "web", "--archive", "-"]).stdout(Stdio::piped()).spawn().unwrap();
    let archive = export.stdout.take().unwrap();
    let import =
        desk.command(&["env", "import", "--archive", "-", "--name", "piped"]).stdin(archive).stdout(Stdio::piped()).output().unwrap();
    assert!(import.status.success() && export.wait().unwrap().success(), "{}", told(&import));
    assert_eq!(String::from_utf8_lossy(&import.stdout), "piped\n");
    assert_eq!(desk.done(&["exec", "piped", "--", "sha256sum", "-c", "sum"]), "big: OK\n");
    assert_eq!(desk.code(&["env", "export", "web", "--archive", "-", "--json"]), 2);
    // Whoever stops reading is not told that something went wrong.
    let mut export =
        desk.command(&["env", "export", "web", "--archive", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(export.stdout.take());
    assert!(export.wait().unwrap().success());
}

#[test]
fn what_runs_is_in_the_way_of_an_archive_or_is_stopped() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web", "--network", "disabled"]);
    desk.done(&["exec", "web", "--detach", "--", "sleep", "600"]);
    assert_eq!(desk.code(&["env", "export", "web", "--archive", "web.tar"]), 3);
    desk.done(&["env", "export", "web", "--archive", "web.tar", "--stop"]);
}

#[test]
fn directories_of_ones_own_are_mounted_only_for_who_says_so() {
    let desk = Desk::new();
    desk.write("tool/bin", "x");
    let mount = format!("host:{}:/tool:ro", desk.work().join("tool").display());
    desk.done(&["env", "create", "web", "--network", "disabled", "--mount", &mount]);
    desk.done(&["env", "export", "web", "--archive", "web.tar"]);
    let error = desk.error(&["env", "import", "--archive", "web.tar", "--name", "second"]);
    assert_eq!(error["code"], "forbidden");
    assert!(error["details"]["suggestion"].as_str().unwrap().contains("--allow-mounts"), "{error}");
    desk.done(&["env", "import", "--archive", "web.tar", "--name", "second", "--allow-mounts"]);
    assert_eq!(desk.done(&["exec", "second", "--", "cat", "/tool/bin"]), "x");
}

#[test]
fn archives_survive_a_server_that_is_killed() {
    let mut desk = Desk::new();
    desk.done(&["env", "create", "web", "--network", "disabled"]);
    desk.done(&["exec", "web", "--", "sh", "-c", "head -c 30000000 /dev/urandom > big; sha256sum big > sum"]);
    let (work, layers) = (desk.work(), desk.data().join("layers"));
    let is_part = |name: &str| name.ends_with(".part") || name.starts_with(".importing-");
    let begun = |directory: &std::path::Path| {
        fs::read_dir(directory).unwrap().flatten().any(|found| {
            is_part(&found.file_name().to_string_lossy()) && (found.metadata().is_ok_and(|it| it.is_dir() || it.len() > 100_000))
        })
    };
    for (arguments, directory) in [
        (&["env", "export", "web", "--archive", "web.tar"][..], &work),
        (&["env", "import", "--archive", "web.tar", "--name", "second"], &layers),
    ] {
        let child = desk.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("it is under way", || begun(directory));
        let data = desk.server().directory();
        desk.server_mut().kill();
        *desk.server_mut() = Server::builder().on(data).start();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
    }
    assert_eq!(desk.done(&["exec", "second", "--", "sha256sum", "-c", "sum"]), "big: OK\n");
    assert!(!begun(&work) && !begun(&layers));
}
