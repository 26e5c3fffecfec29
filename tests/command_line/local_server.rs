//! `up`, `down`, `status`, and the server that commands start for themselves.

use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;

use super::desk::Desk;

#[test]
fn up_starts_one_server_and_down_ends_it() {
    let desk = Desk::alone();
    assert_snapshot!(desk.run(&["status"]), @"
    exit code: 1
    --- stderr ---
    error: no server answers at [HOME]/data/stead.sock (unreachable)
    hint: stead up
    ");
    assert_snapshot!(desk.run(&["up"]), @"
    exit code: 0
    --- stdout ---
    http://127.0.0.1:[PORT]
    --- stderr ---
    starting the local server
    started: stead [VERSION] with sqlite in [HOME]/data
    hint: the API's reference is at http://127.0.0.1:[PORT]/docs/
    hint: stead env list
    ");
    assert_snapshot!(desk.run(&["up"]), @"
    exit code: 0
    --- stdout ---
    http://127.0.0.1:[PORT]
    --- stderr ---
    already running: stead [VERSION] with sqlite in [HOME]/data
    hint: the API's reference is at http://127.0.0.1:[PORT]/docs/
    hint: stead env list
    ");
    assert_snapshot!(desk.run(&["status"]), @"
    exit code: 0
    --- stdout ---
    address     http://127.0.0.1:[PORT]
    reached at  unix:[HOME]/data/stead.sock
    ports       http://PORT-ENVIRONMENT.localhost:[PORT]
    version     [VERSION]
    store       sqlite
    data        [HOME]/data
    uptime      [AGE]
    ");
    assert_snapshot!(desk.run(&["status", "--quiet"]), @"
    exit code: 0
    --- stdout ---
    http://127.0.0.1:[PORT]
    ");
    let status = desk.json(&["status"]);
    assert_eq!(status["address"].as_str(), Some(std::fs::read_to_string(desk.data().join("address")).unwrap().trim()));
    assert_snapshot!(desk.run(&["down"]), @"
    exit code: 0
    --- stderr ---
    the local server has stopped
    ");
    assert_snapshot!(desk.run(&["down"]), @"
    exit code: 0
    --- stderr ---
    the local server is not running
    ");
    assert!(!desk.data().join("address").exists() && !desk.data().join("stead.sock").exists());
}

#[test]
fn a_command_starts_the_server_that_it_needs() {
    let desk = Desk::alone();
    assert_snapshot!(desk.run(&["env", "list"]), @"
    exit code: 0
    --- stdout ---
    NAME           STATUS  HELD BY  LEFT  PROVIDER  PURPOSE  AGE  ID
    local-default  ready                  local              [AGE]  env_[ID]
    --- stderr ---
    starting the local server
    ");
    let pid = std::fs::read_to_string(desk.data().join("lock")).unwrap();
    desk.done(&["env", "list"]);
    assert_eq!(std::fs::read_to_string(desk.data().join("lock")).unwrap(), pid, "the second command uses the first one's server");
    assert_snapshot!(desk.run(&["down", "--all"]), @"
    exit code: 0
    --- stderr ---
    the local server has stopped
    ");
    assert_snapshot!(desk.run(&["down", "--json"]), @r#"
    exit code: 0
    --- stdout ---
    {
      "stopped": false,
      "running": []
    }
    "#);
}

#[test]
fn many_commands_at_once_start_one_server() {
    let desk = Desk::alone();
    let children: Vec<_> = (0..6)
        .map(|number| {
            let name = format!("web-{number}");
            desk.command(&["env", "create", &name, "--quiet"]).stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    assert_eq!(desk.json(&["env", "list"])["items"].as_array().unwrap().len(), 7);
    desk.done(&["down"]);
}

#[test]
fn down_lets_go_of_everything_before_it_returns() {
    let desk = Desk::alone();
    for _ in 0..3 {
        desk.done(&["up"]);
        desk.done(&["down"]);
        // A server that is still ending would hold this lock, and the next one would be refused.
        let free = std::process::Command::new("flock").arg("--nonblock").arg(desk.data().join("lock")).arg("true").status().unwrap();
        assert!(free.success());
    }
}

#[test]
fn nobody_starts_a_server_who_was_told_not_to() {
    let desk = Desk::alone();
    assert_snapshot!(desk.run(&["env", "list", "--no-start"]), @"
    exit code: 1
    --- stderr ---
    error: no server answers at [HOME]/data/stead.sock (unreachable)
    hint: stead up
    ");
    assert_eq!(desk.command(&["env", "list"]).env("STEAD_NO_START", "1").output().unwrap().status.code(), Some(1));
    assert!(!desk.data().exists());
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let desk = Desk::alone();
    std::fs::write(desk.data(), "in the way").unwrap();
    assert_snapshot!(desk.run(&["up"]), @"
    exit code: 1
    --- stderr ---
    error: no server answers at unix:[HOME]/data/stead.sock: Not a directory (os error 20) (unreachable)
    hint: check the address with `stead config show`, or run `stead doctor`
    ");
    std::fs::remove_file(desk.data()).unwrap();
    std::fs::create_dir(desk.data()).unwrap();
    std::fs::write(desk.data().join("host.id"), "nonsense").unwrap();
    assert_snapshot!(desk.run(&["up"]), @"
    exit code: 1
    --- stderr ---
    starting the local server
    error: the local server did not start: it ended with exit status: 1 (unreachable)
      error: [HOME]/data/host.id does not hold a host id: `nonsense` is not an id of the form hst_ and 32 hexadecimal digits (local_file)
      hint: put back the file that was there
    hint: read [HOME]/data/server.log or run `stead doctor`
    ");
    assert_eq!(desk.error(&["up"])["details"]["log"], desk.data().join("server.log").display().to_string());
}

#[test]
fn a_second_server_on_one_data_directory_is_refused() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["serve", "--listen", "127.0.0.1:0"]), @"
    exit code: 3
    --- stderr ---
    error: another server uses [DATA] (process [PID]) (store_in_use)
    hint: use that one (`stead status --data-dir [DATA]`), end it with `stead down --data-dir [DATA]`, or choose another --data-dir
    ");
}

#[test]
fn a_store_of_a_newer_version_is_refused_with_both_versions() {
    let desk = Desk::alone();
    desk.done(&["up"]);
    desk.done(&["down"]);
    let script = "import sqlite3, sys; store = sqlite3.connect(sys.argv[1]); store.execute(\"INSERT INTO schema_migrations VALUES (999, '0999_future')\"); store.commit()";
    let changed = std::process::Command::new("python3").args(["-c", script]).arg(desk.data().join("stead.db")).status().unwrap();
    assert!(changed.success());
    assert_snapshot!(desk.run(&["serve"]), @"
    exit code: 3
    --- stderr ---
    error: the store has schema version 999, and this stead ([VERSION]) knows versions up to 7 (store_too_new)
    hint: install the newer stead that wrote this store, or restore a backup that this one made
    ");
    assert_snapshot!(desk.run(&["env", "list"]), @"
    exit code: 1
    --- stderr ---
    starting the local server
    error: the local server did not start: it ended with exit status: 3 (unreachable)
      error: the store has schema version 999, and this stead ([VERSION]) knows versions up to 7 (store_too_new)
      hint: install the newer stead that wrote this store, or restore a backup that this one made
    hint: read [HOME]/data/server.log or run `stead doctor`
    ");
    assert_eq!(desk.code(&["backup", "stead.backup"]), 3);
}

#[test]
fn settings_that_the_server_cannot_use_are_named() {
    let desk = Desk::alone();
    assert_snapshot!(desk.run(&["serve", "--listen", "0.0.0.0:0"]), @"
    exit code: 2
    --- stderr ---
    error: 0.0.0.0:0 is not loopback, and keys would cross the network unencrypted (usage)
    hint: give --tls-cert and --tls-key, or say --insecure-http behind a proxy that does TLS
    ");
    assert_snapshot!(desk.run(&["serve", "--listen", "nowhere"]), @"
    exit code: 1
    --- stderr ---
    error: nowhere cannot be listened on: invalid socket address (local_file)
    hint: choose another --listen address; port 0 picks a free one
    ");
    assert_snapshot!(desk.run(&["serve", "--tls-cert", "cert.pem"]), @"
    exit code: 2
    --- stderr ---
    error: the following required arguments were not provided:
      --tls-key <FILE>

    Usage: stead serve --tls-cert <FILE> --tls-key <FILE> --data-dir <DIR> --listen <ADDRESS:PORT>

    For more information, try '--help'.
    ");
    assert_snapshot!(desk.run(&["serve", "--tls-cert", "cert.pem", "--tls-key", "key.pem"]), @"
    exit code: 1
    --- stderr ---
    error: cert.pem cannot be used for TLS: I/O error: No such file or directory (os error 2) (local_file)
    hint: give a certificate chain and its key in PEM
    ");
    assert_snapshot!(desk.run(&["serve", "--provider-alias", "sprites=mars"]), @"
    exit code: 2
    --- stderr ---
    error: `sprites=mars` is not an alias such as sprites=local (usage)
    ");
    assert_snapshot!(desk.run(&["serve", "--keep-audit", "long"]), @"
    exit code: 2
    --- stderr ---
    error: keep_audit: `long` is not a duration such as 90d, 12h or 1h30m (usage)
    ");
    desk.write("stead.toml", "listen = '127.0.0.1:0'\ncolour = 'green'\n");
    assert_snapshot!(desk.run(&["serve", "--config", "stead.toml"]), @"
    exit code: 2
    --- stderr ---
    error: the configuration stead.toml at line 2, column 1: unknown field `colour`, expected one of `data_dir`, `listen`, `ports_listen`, `ports_domain`, `socket`, `database`, `tls_cert`, `tls_key`, `insecure_http`, `provider_alias`, `allow_unsandboxed`, `allow_host_path`, `egress_allow`, `egress_roots`, `key_command`, `github_app_id`, `github_app_private_key`, `github_app_client_id`, `github_app_client_secret`, `github_url`, `github_api_url`, `github_ca`, `github_permissions`, `secret_sources`, `rate_limit`, `log_format`, `keep_audit`, `keep_tombstones`, `keep_logs`, `keep_process_log`, `keep_environment_logs` (usage)
    hint: `stead serve --help` lists the settings
    ");
    assert_snapshot!(desk.run(&["serve", "--config", "none.toml"]), @"
    exit code: 1
    --- stderr ---
    error: the configuration none.toml cannot be read: No such file or directory (os error 2) (local_file)
    hint: check the path
    ");
}

#[test]
fn only_the_local_server_is_stopped_from_here() {
    let desk = Desk::new();
    let address = desk.server().address.clone();
    assert_snapshot!(desk.run(&["down", "--url", &address]), @"
    exit code: 2
    --- stderr ---
    error: http://127.0.0.1:[PORT] is not the local server, and this command stops only that one (usage)
    hint: stead down --profile local
    ");
    desk.done(&["status"]);
}

#[test]
fn what_the_server_keeps_is_its_owners_alone() {
    let desk = Desk::new();
    std::fs::set_permissions(desk.data(), std::fs::Permissions::from_mode(0o755)).unwrap();
    desk.done(&["env", "create", "web"]);
    let mut found = 0;
    for entry in std::fs::read_dir(desk.data()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?} has mode {mode:o}", entry.file_name());
        found += 1;
    }
    assert!(found > 6, "the store, the keys, the socket and the rest");
}

#[test]
fn a_socket_of_another_user_is_not_taken_for_a_server_that_is_not_there() {
    // Only root can become somebody else, and for root every socket is open.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let desk = Desk::new();
    let socket = desk.data().join("stead.sock");
    std::fs::set_permissions(desk.data(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = env!("CARGO_BIN_EXE_stead");
    let copy = tempfile::Builder::new().prefix("stead-bin-").tempdir().unwrap();
    std::fs::set_permissions(copy.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(program, copy.path().join("stead")).unwrap();
    let as_nobody = |arguments: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy.path().join("stead")).args(arguments);
        command.env_clear().env("HOME", "/nonexistent").env("STEAD_DATA_DIR", desk.data()).env("STEAD_NO_START", "1").current_dir("/");
        super::desk::told(&command.output().unwrap())
    };
    assert_snapshot!(as_nobody(&["env", "list"]), @"
    exit code: 5
    --- stderr ---
    error: unix:[DATA]/stead.sock may not be used by this user (forbidden)
    hint: run as the user who runs the server, or give its address and a key: --url URL --key-file FILE
    ");
    let checks = as_nobody(&["doctor"]);
    assert!(checks.contains("SD05  fail  socket") && checks.contains("run as the user"), "{checks}");
    assert!(socket.exists());
}
