//! Looking after the server: `audit`, `doctor`, `system df`, `prune`, `config show`, `completion`.

use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;

use super::desk::{Desk, squeezed, told};

#[test]
fn the_audit_says_who_did_what_from_where() {
    let desk = Desk::new();
    let id = desk.done(&["env", "create", "web", "--quiet"]).trim().to_owned();
    desk.done(&["env", "update", "web", "--name", "site"]);
    desk.done(&["env", "delete", "site", "--yes"]);
    assert_snapshot!(desk.run(&["audit", "--target", &id]), @"
    exit code: 0
    --- stdout ---
    AT                           ACTION              TARGET                                BY                                    FROM
    [TIME]  environment.delete  env_[ID]  prn_[ID]  unix:uid=[UID],pid=[PID]
    [TIME]  environment.update  env_[ID]  prn_[ID]  unix:uid=[UID],pid=[PID]
    [TIME]  environment.create  env_[ID]  prn_[ID]  unix:uid=[UID],pid=[PID]
    ");
    assert_snapshot!(desk.run(&["audit", "--action", "environment.delete"]), @"
    exit code: 0
    --- stdout ---
    AT                           ACTION              TARGET                                BY                                    FROM
    [TIME]  environment.delete  env_[ID]  prn_[ID]  unix:uid=[UID],pid=[PID]
    ");
    assert_snapshot!(desk.run(&["audit", "--action", "nothing.happened"]), @"
    exit code: 0
    --- stderr ---
    nothing has been recorded that fits
    ");
    let record = &desk.json(&["audit", "--limit", "1"])["items"][0];
    assert_eq!((&record["action"], &record["target_id"]), (&"environment.delete".into(), &id.into()));
    assert!(record["request_id"].as_str().unwrap().starts_with("req_"));
}

#[test]
fn a_healthy_place_passes_every_check() {
    let desk = Desk::new();
    std::fs::set_permissions(desk.data(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let checks = desk.json(&["doctor"]);
    for check in checks["items"].as_array().unwrap() {
        assert_eq!(check["status"], "ok", "{check}");
    }
    let output = desk.output(&["doctor"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    for code in ["SD01", "SD02", "SD03", "SD04", "SD05", "SD06", "SD07", "SD08", "SD09", "SD11", "SD12"] {
        assert!(shown.lines().any(|line| line.starts_with(&format!("{code}  ok "))), "{code}: {shown}");
    }
    assert!(output.stderr.is_empty());
}

#[test]
fn the_doctor_finds_and_mends_and_asks_first() {
    let desk = Desk::new();
    let (key, directory) = (desk.data().join("owner.key"), desk.data());
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = desk.output(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout).unwrap();
    let failed: Vec<&str> = shown.lines().filter(|line| line.contains("fail") || line.contains("next:")).collect();
    assert_snapshot!(failed.join("\n"), @"
    SD02  fail  permissions       0755: others can reach into it
                next: chmod 0700 [DATA]
    SD08  fail  owner key         [DATA]/owner.key has mode 0644: others can use it
                next: chmod 0600 [DATA]/owner.key
    ");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "hint: `stead doctor --fix` mends what can be mended\n");
    assert_snapshot!(desk.run(&["doctor", "--fix"]), @"
    exit code: 2
    --- stderr ---
    chmod 0700 [DATA]
    chmod 0600 [DATA]/owner.key
    error: this needs a yes, and there is no terminal to ask on: Do this? (usage)
    hint: say --yes to go ahead
    ");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o644, "nothing is changed without a yes");
    assert_eq!(desk.code(&["doctor", "--fix", "--yes"]), 0);
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(directory).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn the_doctor_works_without_a_server_and_starts_none() {
    let desk = Desk::alone();
    let output = desk.output(&["doctor"]);
    assert_eq!(output.status.code(), Some(0));
    let shown = String::from_utf8(output.stdout).unwrap();
    let warned: Vec<&str> = shown.lines().filter(|line| line.contains("warn") || line.contains("next:")).collect();
    assert_snapshot!(warned.join("\n"), @"
    SD01  warn  data directory    [HOME]/data is not there yet
                next: stead up
    SD05  warn  socket            the local server is not running
                next: stead up
    ");
    assert!(!desk.data().exists());
}

#[test]
fn the_doctor_tells_of_files_that_cannot_be_read_and_goes_on() {
    let desk = Desk::new();
    std::fs::set_permissions(desk.data(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let directory = desk.home().join(".config/stead");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("config.toml"), "profile = 'work'\n[profiles.work]\nurl = = 'x'\n").unwrap();
    std::fs::write(directory.join("credentials.toml"), "[keys]\nwork = stk_secret\n").unwrap();
    std::fs::set_permissions(directory.join("credentials.toml"), std::fs::Permissions::from_mode(0o600)).unwrap();
    desk.write(".stead/config.toml", "project");
    let output = desk.output(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(!shown.contains("stk_secret"), "{shown}");
    let failed: Vec<&str> = shown.lines().filter(|line| line.contains(" fail ") || line.contains("next:")).collect();
    assert_snapshot!(failed.join("\n"), @"
    SD13  fail  configuration     [HOME]/.config/stead/config.toml at line 3, column 7: extra `=`, expected nothing
                next: mend the file, or move it away
    SD13  fail  configuration     [HOME]/.config/stead/credentials.toml at line 2, column 8: string values must be quoted, expected literal string
                next: mend the file, or move it away
    SD13  fail  configuration     [WORK]/.stead/config.toml at line 1, column 8: key with no value, expected `=`
                next: mend the file, or move it away
    ");
    // The rest is looked at all the same.
    for code in ["SD01", "SD02", "SD05", "SD06", "SD07", "SD11"] {
        assert!(shown.lines().any(|line| line.starts_with(&format!("{code}  ok "))), "{code}: {shown}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::remove_dir_all(desk.work().join(".stead")).unwrap();
    // A profile that is not there is told in the same way.
    let shown = told(&desk.output(&["doctor", "--profile", "nope"]));
    assert!(shown.contains("SD13  fail") && shown.contains("there is no profile `nope`"), "{shown}");
}

#[test]
fn a_socket_left_over_from_a_crash_is_swept_away() {
    let mut desk = Desk::new();
    desk.server_mut().kill();
    assert!(desk.data().join("stead.sock").exists());
    let shown = String::from_utf8(desk.output(&["doctor"]).stdout).unwrap();
    assert_snapshot!(shown.lines().filter(|line| line.contains("SD05")).collect::<String>(), @"SD05  warn  socket            [DATA]/stead.sock is left over from a server that has gone");
    desk.done(&["doctor", "--fix", "--yes"]);
    assert!(!desk.data().join("stead.sock").exists());
}

#[test]
fn what_takes_space_is_counted() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web"]);
    desk.done(&["env", "delete", "web", "--yes"]);
    assert_snapshot!(desk.run(&["system", "df"]), @"
    exit code: 0
    --- stdout ---
    WHAT                 COUNT  SIZE
    projects             1
    environments         1
    tombstones           1
    definition versions  2
    processes            0
    checkpoints          0
    audit records        3
    idempotency records  1
    workspaces                  [SIZE]
    layers                      [SIZE]
    images                      [SIZE]
    trash                       [SIZE]
    process output       0      0 B
    ");
    desk.done(&["run", "--scratch", "--", "head", "-c", "300000", "/dev/zero"]);
    let usage = desk.json(&["system", "df"]);
    let output = usage["items"].as_array().unwrap().iter().find(|item| item["what"] == "process output").unwrap();
    assert_eq!(output["count"], 1);
    assert!((300_000..400_000).contains(&output["bytes"].as_u64().unwrap()), "{output}");
}

#[test]
fn prune_says_what_would_go_before_it_goes() {
    let desk = Desk::beside(crate::support::Server::builder().with(&["--keep-audit", "0s", "--keep-tombstones", "0s"]));
    desk.done(&["env", "create", "web"]);
    desk.done(&["env", "delete", "web", "--yes"]);
    assert_snapshot!(desk.run(&["prune", "--dry-run"]), @"
    exit code: 0
    --- stdout ---
    WHAT                                             WOULD GO
    audit records                                    3
    tombstones                                       1
    idempotency records                              0
    processes                                        0
    images that no environment names                 0
    workspaces that a restore left without a record  0
    ");
    assert_eq!(desk.json(&["env", "list", "--include-destroyed"])["items"].as_array().unwrap().len(), 2);
    assert_snapshot!(desk.run(&["prune"]), @"
    exit code: 0
    --- stdout ---
    WHAT                                             REMOVED
    audit records                                    3
    tombstones                                       1
    idempotency records                              0
    processes                                        0
    images that no environment names                 0
    workspaces that a restore left without a record  0
    ");
    assert_eq!(desk.json(&["env", "list", "--include-destroyed"])["items"].as_array().unwrap().len(), 1);
    // What is left of it is the record of it.
    let audit = desk.json(&["audit"]);
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
    let record = &audit["items"][0];
    assert_eq!((&record["action"], &record["target_type"]), (&"system.prune".into(), &"project".into()));
    assert_eq!(record["details"], serde_json::json!({ "audit_records": 3, "tombstones": 1 }));
    assert_eq!(record["target_id"], record["project_id"]);
}

#[test]
fn each_setting_says_where_it_comes_from() {
    let desk = Desk::new();
    assert_snapshot!(squeezed(&desk.run(&["config", "show"])), @"
    exit code: 0
    --- stdout ---
    SETTING  VALUE  FROM
    server  local  STEAD_DATA_DIR
    data-dir  [DATA]  STEAD_DATA_DIR
    socket  [DATA]/stead.sock  STEAD_DATA_DIR
    project  default  default
    configuration  [HOME]/.config/stead/config.toml  default
    ");
    let address = desk.server().address.clone();
    let mut command = desk.command(&["config", "show", "--url", &address, "-p", "acme"]);
    command.env("STEAD_API_KEY", desk.server().owner_key());
    let shown = told(&command.output().unwrap());
    assert!(!shown.contains(&desk.server().owner_key()));
    assert_snapshot!(squeezed(&shown), @"
    exit code: 0
    --- stdout ---
    SETTING  VALUE  FROM
    url  http://127.0.0.1:[PORT]  --url
    key  stk_[KEY]…  STEAD_API_KEY
    project  acme  --project
    configuration  [HOME]/.config/stead/config.toml  default
    ");
    assert_snapshot!(desk.run(&["config", "show", "--profile", "nope"]), @"
    exit code: 2
    --- stderr ---
    error: there is no profile `nope`; known are local (usage)
    hint: stead login URL --key-file FILE --profile nope
    ");
}

#[test]
fn a_configuration_that_cannot_be_read_is_placed_and_holds_no_key_in_its_error() {
    let desk = Desk::new();
    let directory = desk.home().join(".config/stead");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("config.toml"), "profile = 'work'\n[profiles.work]\nurl = 'http://127.0.0.1:9'\n").unwrap();
    std::fs::write(directory.join("credentials.toml"), "[keys]\nwork = stk_secret\n").unwrap();
    let shown = desk.run(&["env", "list", "--profile", "work"]);
    assert!(!shown.contains("stk_secret"));
    assert_snapshot!(shown, @"
    exit code: 1
    --- stderr ---
    error: [HOME]/.config/stead/credentials.toml at line 2, column 8: string values must be quoted, expected literal string (local_file)
    hint: mend the file, or move it away
    ");
}

#[test]
fn each_shell_has_a_completion_script() {
    let desk = Desk::alone();
    for (shell, word) in [
        ("bash", "complete -o"),
        ("zsh", "#compdef stead"),
        ("fish", "complete --keep-order"),
        ("elvish", "edit:"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = desk.done(&["completion", shell]);
        assert!(script.contains(word) && script.contains("STEAD_COMPLETE"), "{shell}: {script}");
    }
    assert_eq!(desk.code(&["completion", "tcsh"]), 2);
    assert!(!desk.data().exists());
}

#[test]
fn completion_offers_live_names_and_starts_no_server() {
    let complete = |desk: &Desk, words: &[&str]| {
        let mut command = desk.command(&[&["--", "stead"], words].concat());
        command.env("STEAD_COMPLETE", "bash").env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        let output = command.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", told(&output));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let desk = Desk::new();
    desk.done(&["env", "create", "Web Site"]);
    desk.done(&["env", "create", "api"]);
    assert_eq!(complete(&desk, &["env", "view", "w"]), ["Web Site"]);
    assert!(complete(&desk, &["env", "delete", ""]).contains(&"api".to_owned()));
    assert_eq!(complete(&desk, &["project", "select", "d"]), ["default"]);
    assert!(complete(&desk, &["env", "create", "x", "--network", ""]).contains(&"allowlist".to_owned()));
    let without = Desk::alone();
    assert!(complete(&without, &["env", "view", "w"]).is_empty());
    assert!(!without.data().exists());
}

#[test]
fn the_doctor_shows_what_it_would_write_and_writes_nothing_without_a_yes() {
    let home = tempfile::tempdir().unwrap();
    // The setting is that of the new namespace: the machine's own stays as it is.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"";
    let plain = crate::support::stead();
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]).arg(plain.get_program()).args(["doctor", "--fix"]);
    command.env_clear().env("HOME", home.path()).env("STEAD_NO_START", "1").env("PATH", std::env::var("PATH").unwrap()).current_dir("/");
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    let path = "/etc/sysctl.d/60-stead-more-namespaces.conf";
    assert!(said.contains(&format!("write {path}:")) && said.contains("user.max_user_namespaces = 65536"), "{said}");
    assert!(said.contains(&format!("sysctl -p {path}")) && said.contains("say --yes to go ahead"), "{said}");
    assert!(!std::path::Path::new(path).exists());
}
