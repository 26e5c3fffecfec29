//! Manners: data on stdout and everything else on stderr, the API's own JSON, exit codes, and nothing that could harm a terminal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::desk::{Desk, told};

#[test]
fn json_is_the_apis_own_shape() {
    let desk = Desk::new();
    let web = desk.json(&["env", "create", "web", "--repo", "acme/web"]);
    desk.done(&["env", "update", "web", "--set", "idle_timeout=1h"]);
    let http = desk.server().http();
    let below = |path: &str| format!("/v1/projects/default/{path}");
    let id = web["id"].as_str().unwrap();
    let sandbox = web["sandbox_id"].as_str().unwrap();
    for (arguments, path) in [
        (&["env", "list"][..], below("environments?limit=50")),
        (&["env", "list", "--limit", "1"], below("environments?limit=1")),
        (&["env", "view", "web"], below(&format!("environments/{id}"))),
        (&["env", "history", "web"], below(&format!("environments/{id}/versions?limit=50"))),
        (&["env", "history", "web", "--diff", "1", "2"], below(&format!("environments/{id}/versions/diff?from=1&to=2"))),
        (&["project", "list"], "/v1/projects".to_owned()),
        (&["project", "members", "list"], below("members")),
        (&["sandbox", "list"], below("sandboxes")),
        (&["sandbox", "view", sandbox], below(&format!("sandboxes/{sandbox}"))),
        (&["provider", "list"], below("providers")),
        (&["audit"], below("audit?limit=50")),
        (&["system", "df"], "/v1/system/usage".to_owned()),
        (&["status"], "/v1/system".to_owned()),
    ] {
        let (mut shown, mut answered) = (desk.json(arguments), http.get(&path).json());
        // Counted at different moments.
        for value in [&mut shown, &mut answered] {
            if arguments == ["system", "df"] {
                value["items"].as_array_mut().unwrap().retain(|item| item["what"] != "idempotency records");
            }
        }
        assert_eq!(shown, answered, "{arguments:?}");
    }
    let keys = |value: Value| value["items"].as_array().unwrap().iter().map(|key| key["id"].clone()).collect::<Vec<_>>();
    assert_eq!(keys(desk.json(&["key", "list"])), keys(http.get(&below("api-keys")).json()));
}

#[test]
fn an_error_in_json_is_the_apis_own_error_on_stderr() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["env", "view", "env_00000000000000000000000000000000", "--json"]), @r#"
    exit code: 4
    --- stderr ---
    {"error":{"code":"not_found","message":"there is no environment `env_[ID]` here","details":{"suggestion":"`stead env list` shows those that are there","recoverable":false,"request_id":"req_[ID]"}}}
    "#);
    assert_snapshot!(desk.run(&["env", "view", "nope", "--json"]), @r#"
    exit code: 4
    --- stderr ---
    {"error":{"code":"not_found","message":"there is no environment `nope` here","details":{"suggestion":"`stead env list` shows what there is","recoverable":false}}}
    "#);
    assert_snapshot!(desk.run(&["env", "list", "--nonsense", "--json"]), @r#"
    exit code: 2
    --- stderr ---
    {"error":{"code":"usage","message":"unexpected argument '--nonsense' found","details":{"suggestion":"stead --help","recoverable":false}}}
    "#);
}

#[test]
fn each_exit_code_has_its_meaning() {
    let desk = Desk::new();
    let address = desk.server().address.clone();
    assert_eq!(desk.code(&["env", "list"]), 0);
    assert_eq!(desk.code(&["env", "list", "--url", "http://127.0.0.1:1"]), 1, "failed");
    assert_eq!(desk.code(&["env", "create", "a/b"]), 2, "usage");
    assert_eq!(desk.code(&["env", "create", "local-default"]), 3, "conflict");
    assert_eq!(desk.code(&["env", "view", "nope"]), 4, "not found");
    assert_eq!(desk.code(&["env", "list", "--url", &address]), 5, "not allowed");
    desk.done(&["project", "members", "add", "ada", "--role", "viewer"]);
    desk.done(&["key", "create", "ada", "--for", "ada", "-o", "ada.key"]);
    assert_eq!(desk.code(&["env", "list", "--url", &address, "--key-file", "ada.key"]), 0);
    assert_snapshot!(desk.run(&["env", "create", "web", "--url", &address, "--key-file", "ada.key"]), @"
    exit code: 5
    --- stderr ---
    error: this needs the role `member` in project `default`, and yours is `viewer` (forbidden)
    hint: ask an owner of `default` for it (`stead project members role`)
    ");
    assert_snapshot!(desk.run(&["env", "delete", "local-default", "--yes", "--url", &address, "--key-file", "ada.key"]), @"
    exit code: 5
    --- stderr ---
    error: this needs the role `owner` in project `default`, and yours is `viewer` (forbidden)
    hint: ask an owner of `default` for it (`stead project members role`)
    ");
    assert_snapshot!(desk.run(&["status", "--url", &address, "--key-file", "ada.key"]), @"
    exit code: 0
    --- stdout ---
    reached at  http://127.0.0.1:[PORT]
    status      ready
    version     [VERSION]
    you are     ada (prn_[ID])
    project     default
    ");
}

#[test]
fn a_server_that_does_not_answer_is_named() {
    let desk = Desk::alone();
    assert_snapshot!(desk.run(&["env", "list", "--url", "http://127.0.0.1:1"]), @"
    exit code: 1
    --- stderr ---
    error: no server answers at http://127.0.0.1:1: Connection refused (os error 111) (unreachable)
    hint: check the address with `stead config show`, or run `stead doctor --url http://127.0.0.1:1`
    ");
    assert_snapshot!(desk.run(&["env", "list", "--url", "ftp://example.org"]), @"
    exit code: 2
    --- stderr ---
    error: `ftp://example.org` is not an address of a server: it begins with http://, https:// or unix: (usage)
    hint: give an address such as http://127.0.0.1:[PORT]
    ");
    assert_snapshot!(desk.run(&["env", "list", "--url", "unix:/nowhere/stead.sock"]), @"
    exit code: 1
    --- stderr ---
    error: no server answers at unix:/nowhere/stead.sock: No such file or directory (os error 2) (unreachable)
    hint: check the address with `stead config show`, or run `stead doctor --url unix:/nowhere/stead.sock`
    ");
    let other = fake_server(200, "text/html", "<html>Hello</html>".to_owned());
    assert_snapshot!(desk.run(&["env", "list", "--url", &other]), @"
    exit code: 1
    --- stderr ---
    error: http://127.0.0.1:[PORT] answered with status 200 and text/html that this API does not send: <html>Hello</html> (unreachable)
    hint: the address may belong to another service: `stead config show`
    ");
    let newer = fake_server(200, "application/json", json!({ "items": [{ "colour": "green" }] }).to_string());
    assert_snapshot!(desk.run(&["env", "list", "--url", &newer]), @"
    exit code: 1
    --- stderr ---
    error: the reply of http://127.0.0.1:[PORT] is not of the shape that this version knows: missing field `id` at line 1 column 28 (unreachable)
    hint: the server may be of another version: `stead status --url http://127.0.0.1:[PORT]`
    ");
}

#[test]
fn a_reader_who_leaves_early_is_no_error() {
    let desk = Desk::new();
    for arguments in
        [&["env", "list"][..], &["env", "list", "--json"], &["http", "GET", "environments"], &["--help"], &["completion", "bash"]]
    {
        let mut child = desk.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(told(&output), "exit code: 0\n", "{arguments:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let desk = Desk::new();
    let output = desk.command(&["env", "list"]).stdout(std::fs::File::create("/dev/full").unwrap()).output().unwrap();
    assert_snapshot!(told(&output), @"
    exit code: 1
    --- stderr ---
    error: cannot write the output: No space left on device (os error 28) (local_file)
    ");
}

#[test]
fn a_servers_text_cannot_steer_the_terminal() {
    let desk = Desk::new();
    let mut web = desk.json(&["env", "create", "web"]);
    web["name"] = json!("web\u{1b}]0;title\u{7}\u{202e}\r\nerror: all is lost");
    web["last_error"] = json!("\u{9b}2J\u{1b}[31mred");
    let page = json!({ "items": [web], "has_more": false });
    let evil = fake_server(200, "application/json", page.to_string());
    assert_snapshot!(desk.run(&["env", "list", "--url", &evil]), @r"
    exit code: 0
    --- stdout ---
    NAME                                                  STATUS  HELD BY  LEFT  PROVIDER  PURPOSE  AGE  ID
    web\u{1b}]0;title\u{7}\u{202e}\r\nerror: all is lost  ready                  local              [AGE]  env_[ID]
    ");
    let shown = desk.json(&["env", "list", "--url", &evil]);
    assert_eq!(shown, page, "in JSON the same text, escaped");
    for arguments in [&["env", "list"][..], &["env", "list", "--json"], &["env", "list", "--quiet"], &["env", "view", "web"]] {
        let text = desk.run(&[arguments, &["--url", &evil]].concat());
        assert!(
            !text.chars().any(|character| character != '\n' && (character.is_control() || character == '\u{202e}')),
            "{arguments:?}: {text}"
        );
    }
    let error = json!({ "code": "no\u{1b}[2J", "message": "first\u{1b}[2J\nsecond\u{7}", "details": { "suggestion": "\u{1b}c" } });
    let wrong = fake_server(418, "application/json", json!({ "error": error }).to_string());
    assert_snapshot!(desk.run(&["project", "list", "--url", &wrong]), @r"
    exit code: 2
    --- stderr ---
    error: first\u{1b}[2J (no\u{1b}[2J)
      second\u{7}
    hint: \u{1b}c
    ");
}

#[test]
fn colour_is_for_terminals_and_never_the_only_sign() {
    let desk = Desk::new();
    let on_terminal = |no_color: bool| {
        let mut command = at_a_terminal(&desk, "env view nope");
        if no_color {
            command.env("NO_COLOR", "1");
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_snapshot!(on_terminal(false).replace('\u{1b}', "ESC"), @"
    ESC[1mESC[31merror:ESC[0m there is no environment `nope` here (not_found)
    ESC[1mESC[36mhint:ESC[0m `stead env list` shows what there is
    ");
    assert!(!on_terminal(true).contains('\u{1b}'));
    let piped = desk.command(&["env", "view", "nope"]).env_remove("NO_COLOR").env("TERM", "xterm").output().unwrap();
    assert!(!String::from_utf8(piped.stderr).unwrap().contains('\u{1b}'));
}

#[test]
fn at_a_terminal_a_deletion_is_asked_for() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web"]);
    let answer = |text: &str| {
        let mut child = at_a_terminal(&desk, "env delete web").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (mut shown, mut part, mut typed) = (String::new(), [0; 1024], false);
        loop {
            match output.read(&mut part).unwrap() {
                0 => return (child.wait().unwrap().code().unwrap(), shown),
                length => shown.push_str(&String::from_utf8_lossy(&part[..length])),
            }
            if !typed && shown.contains("everything in it?") {
                typed = input.write_all(text.as_bytes()).is_ok();
            }
        }
    };
    let (code, shown) = answer("n");
    assert!(code == 1 && shown.contains("Delete web and everything in it?") && shown.contains("nothing was changed"), "{code} {shown}");
    assert_eq!(desk.code(&["env", "view", "web"]), 0);
    let (code, shown) = answer("y");
    assert!(code == 0 && shown.contains("deleted environment web"), "{code} {shown}");
    assert_eq!(desk.code(&["env", "view", "web"]), 4);
}

/// The command in a terminal of its own, which `script` makes.
fn at_a_terminal(desk: &Desk, arguments: &str) -> Command {
    let plain = desk.command(&[]);
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command"]);
    command.arg(format!("{} {arguments}", plain.get_program().display())).arg("/dev/null");
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(desk.work()).env_remove("NO_COLOR").env("TERM", "xterm").stdin(Stdio::null());
    command
}

/// Something that listens and answers every request with this.
fn fake_server(status: u16, kind: &'static str, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let lines = BufReader::new(socket.try_clone().unwrap()).lines();
            let _ = lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).count();
            let head = format!("HTTP/1.1 {status} Answer\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
            let _ = write!(socket, "{head}Connection: close\r\n\r\n{body}");
        }
    });
    address
}
