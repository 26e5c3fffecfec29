//! The master key: what lies on the disk without it, which server starts with which, and another one while everything goes on.

use std::path::Path;

use serde_json::json;
use stead_testing::PrivatePostgres;

use super::{SECRETS, set};
use crate::api::world::{expect, refused};
use crate::support::{Http, Server, stead};

const VALUE: &str = "correct-horse-battery-staple-0123456789";

/// Every file of the directory that holds the value in one of the ways that it may be written in.
fn holding(directory: &Path, value: &str) -> Vec<String> {
    use base64::Engine;
    let plain = value.as_bytes();
    let mut forms: Vec<Vec<u8>> = vec![plain.to_vec(), plain.iter().rev().copied().collect()];
    forms.push(plain.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect());
    forms.push(plain.iter().flat_map(|byte| [*byte, 0]).collect());
    // In base64 wherever it stands among other bytes.
    for before in 0..3 {
        let padded = [vec![b'x'; before], plain.to_vec()].concat();
        let encoded = base64::engine::general_purpose::STANDARD.encode(padded);
        forms.push(encoded.as_bytes()[4..encoded.len() - 4].to_vec());
    }
    let (mut found, mut left) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(path) = left.pop() {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_file() {
                let content = std::fs::read(&path).unwrap();
                if forms.iter().any(|form| content.windows(form.len()).any(|window| window == form)) {
                    found.push(path.display().to_string());
                }
            }
        }
    }
    found
}

#[test]
fn a_copy_without_the_key_reveals_nothing() {
    let mut server = Server::start();
    let http = server.http();
    let put = |key: &str, value: &str| {
        let body = json!({ "value": value }).to_string();
        expect(
            &http.send("PUT", &format!("{SECRETS}/KEY"), &[("Idempotency-Key", key)], Some(body.as_bytes())),
            if key == "1" { 201 } else { 200 },
        );
    };
    put("1", VALUE);
    put("2", &format!("{VALUE}-next"));
    let backup = server.path().join("copy.backup");
    let done = server.command(&["backup", backup.to_str().unwrap()]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // As it lies there while it runs, write-ahead log and all, and after it has ended.
    assert_eq!(holding(server.path(), VALUE), Vec::<String>::new());
    let master = std::fs::read_to_string(server.path().join("master.key")).unwrap();
    assert_eq!(holding(server.path(), master.trim()), [server.path().join("master.key").display().to_string()]);
    assert!(!server.log().contains(VALUE) && !server.log().contains(master.trim()));
    server.terminate();
    assert_eq!(holding(server.path(), VALUE), Vec::<String>::new());
    // The search finds what there is to find.
    std::fs::write(server.path().join("planted"), format!("..{VALUE}..")).unwrap();
    assert_eq!(holding(server.path(), VALUE).len(), 1);
}

#[test]
fn a_server_without_the_right_key_says_what_to_do() {
    let mut server = Server::start();
    expect(&set(&server.http(), "KEY", VALUE), 201);
    server.terminate();
    let (directory, key) = (server.directory(), server.path().join("master.key"));
    let right = std::fs::read_to_string(&key).unwrap();
    let refusal = |arguments: &[&str]| match Server::builder().on(directory.clone()).with(arguments).try_start() {
        Ok(_) => panic!("it starts"),
        Err((code, said)) => (code, said.lines().rev().take(3).collect::<Vec<_>>().join(" ")),
    };
    std::fs::remove_file(&key).unwrap();
    let (code, said) = refusal(&[]);
    assert!(
        code == 3 && said.contains("master.key is not there") && said.contains("--abandon-secrets") && said.contains("1 secrets"),
        "{code} {said}"
    );
    assert!(!key.exists(), "no key is made where another one is needed");
    let other = "ab".repeat(32);
    let (code, said) = refusal(&["--key-command", &format!("echo {other}")]);
    assert!(code == 3 && said.contains("was sealed with") && !said.contains(&format!("key {other}")), "{code} {said}");
    let (code, said) = refusal(&["--key-command", "echo none; exit 4"]);
    assert!(code != 0 && said.contains("gave no master key") && said.contains("exit status: 4"), "{code} {said}");
    std::fs::write(&key, "short").unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert!(refusal(&[]).1.contains("not 64 hexadecimal digits"));
    std::fs::write(&key, &right).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    assert!(refusal(&[]).1.contains("may be read by others"));
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut back = Server::builder().on(directory.clone()).start();
    expect(&set(&back.http(), "KEY", VALUE), 200);
    back.terminate();
    // Given up on purpose: the names stay, the values are gone, and a new one can be set.
    std::fs::remove_file(&key).unwrap();
    let mut again = Server::builder().on(directory.clone()).with(&["--abandon-secrets"]).start();
    assert_eq!(expect(&again.http().get(&format!("{SECRETS}/KEY")), 200)["version"], 1);
    assert_eq!(expect(&set(&again.http(), "KEY", VALUE), 200)["version"], 2);
    again.terminate();
    drop(Server::builder().on(directory).start());
}

#[test]
fn a_key_is_changed_while_everything_goes_on_and_the_one_before_opens_nothing() {
    let mut server = Server::start();
    let http = server.http();
    for number in 0..3 {
        expect(&set(&http, &format!("KEY_{number}"), VALUE), 201);
    }
    let key = server.path().join("master.key");
    let before = std::fs::read_to_string(&key).unwrap();
    let rotated = expect(&http.send("POST", "/v1/system/rotate-key", &[], None), 200);
    assert_eq!((rotated["rewrapped"].as_u64(), rotated.get("warnings")), (Some(3), None));
    let after = std::fs::read_to_string(&key).unwrap();
    assert!(after.lines().count() == 1 && after != before, "only the new key is kept");
    assert_eq!(expect(&set(&http, "KEY_0", VALUE), 200)["version"], 1, "the value is still known");
    let audit = expect(&http.get("/v1/projects/default/audit"), 200);
    assert_eq!(audit["items"][0]["action"], "system.rotate_key", "{audit}");
    server.terminate();
    let directory = server.directory();
    // Cut off before the store was told: the key that was to come sealed nothing, and goes.
    std::fs::write(&key, format!("{}\n{after}", "cd".repeat(32))).unwrap();
    let mut next = Server::builder().on(directory.clone()).start();
    assert_eq!(std::fs::read_to_string(&key).unwrap(), after);
    assert_eq!(expect(&set(&next.http(), "KEY_1", VALUE), 200)["version"], 1);
    next.terminate();
    std::fs::write(&key, before).unwrap();
    let Err((code, said)) = Server::builder().on(directory).try_start() else { panic!("the old key opens the store") };
    assert!(code == 3 && said.contains("was sealed with"), "{code} {said}");
}

#[test]
fn servers_on_one_database_follow_a_change_of_the_key() {
    let postgres = PrivatePostgres::start();
    let keys = tempfile::TempDir::new().unwrap();
    let file = keys.path().join("keys");
    let (old, new) = ("1a".repeat(32), "2b".repeat(32));
    std::fs::write(&file, &old).unwrap();
    let command = format!("cat {}", file.display());
    let start = || Server::builder().with(&["--database", &postgres.url(), "--key-command", &command]).start();
    let (here, there) = (start(), start());
    let (a, b) = (here.http(), Http::new(&there.address, Some(here.owner_key())));
    expect(&set(&a, "KEY", VALUE), 201);
    refused(&a.send("POST", "/v1/system/rotate-key", &[], None), 409, "conflict");
    std::fs::write(&file, format!("{new}\n{old}\n")).unwrap();
    let rotated = expect(&a.send("POST", "/v1/system/rotate-key", &[], None), 200);
    assert_eq!(rotated["rewrapped"], 1);
    // The other one is told nothing, and finds the new key where its keys come from.
    assert_eq!(expect(&set(&b, "KEY", VALUE), 200)["version"], 1, "it opens what was wrapped anew");
    assert_eq!(expect(&set(&b, "KEY", "another-value-of-it"), 200)["version"], 2);
    assert_eq!(expect(&set(&a, "KEY", "another-value-of-it"), 200)["version"], 2, "and seals as the first does");
    // A server that is given neither is told whose the store is.
    let mut strange = stead();
    strange.args(["serve", "--listen", "127.0.0.1:0", "--database", &postgres.url(), "--data-dir"]).arg(keys.path().join("data"));
    let said = strange.env("STEAD_MASTER_KEY", "3c".repeat(32)).output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.code() == Some(3) && text.contains("STEAD_MASTER_KEY") && !text.contains("3c3c"), "{text}");
}

#[test]
fn a_backup_is_of_use_only_with_the_key() {
    let mut server = Server::start();
    expect(&set(&server.http(), "KEY", VALUE), 201);
    let backup = server.path().join("copy.backup");
    assert!(server.command(&["backup", backup.to_str().unwrap()]).status().unwrap().success());
    server.terminate();
    let elsewhere = std::sync::Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
    let restore = || {
        let mut command = stead();
        command.arg("--data-dir").arg(elsewhere.path()).arg("restore").arg(&backup);
        assert!(command.status().unwrap().success());
    };
    restore();
    let Err((code, said)) = Server::builder().on(elsewhere.clone()).try_start() else { panic!("it starts without the key") };
    assert!(code == 3 && said.contains("is not there"), "{code} {said}");
    std::fs::copy(server.path().join("master.key"), elsewhere.path().join("master.key")).unwrap();
    std::fs::copy(server.path().join("owner.key"), elsewhere.path().join("owner.key")).unwrap();
    let with_key = Server::builder().on(elsewhere.clone()).start();
    let http = Http::new(&with_key.address, Some(server.owner_key()));
    assert_eq!(expect(&set(&http, "KEY", VALUE), 200)["version"], 1, "the value came along");
}

#[test]
fn a_project_that_goes_takes_its_values_along() {
    let postgres = PrivatePostgres::start();
    let server = Server::builder().with(&["--database", &postgres.url()]).start();
    let http = server.http();
    expect(&http.post("/v1/projects", json!({ "handle": "acme" })), 201);
    let body = json!({ "value": VALUE }).to_string();
    expect(&http.send("PUT", "/v1/projects/acme/secrets/KEY", &[], Some(body.as_bytes())), 201);
    assert_eq!(postgres.sql("SELECT count(*) FROM secrets WHERE sealed IS NOT NULL").trim(), "1");
    let gone = http.delete("/v1/projects/acme?confirm=acme");
    assert!(matches!(gone.status, 200 | 204), "{}", String::from_utf8_lossy(&gone.body));
    assert_eq!(postgres.sql("SELECT count(*) FROM secrets WHERE sealed IS NOT NULL OR deleted_at IS NULL").trim(), "0");
}
