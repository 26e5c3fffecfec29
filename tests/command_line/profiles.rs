//! `login`, `logout` and the servers that profiles name.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;

use super::desk::{Desk, squeezed, told};
use crate::support::Server;

/// A command of a user who has no local server in mind: nothing but the profile says where to go.
fn anywhere(desk: &Desk, arguments: &[&str]) -> Command {
    let mut command = desk.command(arguments);
    command.env_remove("STEAD_DATA_DIR");
    command
}

fn run(desk: &Desk, arguments: &[&str]) -> String {
    told(&anywhere(desk, arguments).output().unwrap())
}

#[test]
fn a_login_is_remembered_until_the_logout() {
    let desk = Desk::new();
    desk.done(&["key", "create", "laptop", "-o", "laptop.key"]);
    let address = desk.server().address.clone();
    assert_snapshot!(run(&desk, &["login", &address, "--key-file", "laptop.key"]), @"
    exit code: 0
    --- stderr ---
    logged in to http://127.0.0.1:[PORT] as olivia (prn_[ID])
    profile default is used from now on, project default
    hint: back to the local server: `stead --profile local …`, or `stead logout`
    ");
    assert_snapshot!(squeezed(&run(&desk, &["config", "show"])), @"
    exit code: 0
    --- stdout ---
    SETTING  VALUE  FROM
    url  http://127.0.0.1:[PORT]  profile default
    profile  default  default
    key  stk_[KEY]…  profile default
    project  default  profile default
    configuration  [HOME]/.config/stead/config.toml  default
    ");
    assert_snapshot!(run(&desk, &["env", "list", "--quiet"]), @"
    exit code: 0
    --- stdout ---
    env_[ID]
    ");
    let credentials = desk.home().join(".config/stead/credentials.toml");
    assert_eq!(std::fs::metadata(&credentials).unwrap().permissions().mode() & 0o777, 0o600);
    let config = std::fs::read_to_string(desk.home().join(".config/stead/config.toml")).unwrap();
    assert!(!config.contains("stk_"), "keys are in the file for keys alone");
    assert_snapshot!(run(&desk, &["logout"]), @"
    exit code: 0
    --- stderr ---
    forgot profile default and its key; the key itself is still good: `stead key revoke` ends it
    ");
    assert_snapshot!(run(&desk, &["logout"]), @"
    exit code: 4
    --- stderr ---
    error: there is no such profile to forget (not_found)
    hint: stead config show
    ");
    assert!(!std::fs::read_to_string(&credentials).unwrap().contains("stk_"));
    assert!(squeezed(&run(&desk, &["config", "show"])).contains("server  local"));
}

#[test]
fn profiles_stand_beside_each_other_and_a_flag_chooses() {
    let desk = Desk::new();
    let address = desk.server().address.clone();
    desk.done(&["project", "create", "acme"]);
    desk.done(&["key", "create", "acme", "-p", "acme", "-o", "acme.key"]);
    let key = desk.read("acme.key");
    let mut login = anywhere(&desk, &["login", &address, "--key-file", "-", "--profile", "work"]);
    desk.write("pinned.key", &format!("{}.acme\n", key.trim()));
    let output = login.stdin(std::fs::File::open(desk.work().join("pinned.key")).unwrap()).output().unwrap();
    assert_snapshot!(told(&output), @"
    exit code: 0
    --- stderr ---
    logged in to http://127.0.0.1:[PORT] as olivia (prn_[ID])
    profile work is used from now on, project acme
    hint: back to the local server: `stead --profile local …`, or `stead logout --profile work`
    ");
    assert_snapshot!(run(&desk, &["env", "list"]), @"
    exit code: 0
    --- stderr ---
    no environments in project acme yet; make one: stead env create NAME
    ");
    assert_snapshot!(run(&desk, &["env", "list", "--no-start", "--profile", "local"]), @"
    exit code: 1
    --- stderr ---
    error: no server answers at [HOME]/.local/share/stead/stead.sock (unreachable)
    hint: stead up --profile local
    ");
    // The key says which project it is for, and is good for no other.
    assert_snapshot!(run(&desk, &["env", "list", "-p", "default"]), @"
    exit code: 4
    --- stderr ---
    error: there is no project `default` here (not_found)
    hint: `stead project list` shows the projects that you can see
    ");
}

#[test]
fn a_login_says_what_comes_before_its_profile() {
    let desk = Desk::new();
    desk.done(&["key", "create", "laptop", "-o", "laptop.key"]);
    let address = desk.server().address.clone();
    let mut login = desk.command(&["login", &address, "--key-file", "laptop.key", "--profile", "work"]);
    assert_snapshot!(told(&login.env("STEAD_API_KEY", "stk_other").output().unwrap()), @"
    exit code: 0
    --- stderr ---
    logged in to http://127.0.0.1:[PORT] as olivia (prn_[ID])
    profile work is remembered, project default
    warning: STEAD_DATA_DIR and STEAD_API_KEY come before it: unset STEAD_DATA_DIR STEAD_API_KEY, or say --profile work
    ");
    assert!(squeezed(&desk.run(&["config", "show"])).contains("server  local  STEAD_DATA_DIR"));
    assert!(squeezed(&desk.run(&["config", "show", "--profile", "work"])).contains(&format!("url  {address}")));
}

#[test]
fn a_login_that_does_not_work_is_not_remembered() {
    let desk = Desk::new();
    let address = desk.server().address.clone();
    desk.write("wrong.key", "stk_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n");
    desk.write("empty.key", "\n");
    assert_snapshot!(run(&desk, &["login", &address, "--key-file", "wrong.key"]), @"
    exit code: 5
    --- stderr ---
    error: the API key is not known (unauthorized)
    hint: send `Authorization: Bearer stk_…`; `stead login URL --key-file FILE` keeps a key, `stead key create` makes one
    ");
    assert_snapshot!(run(&desk, &["login", &address]), @"
    exit code: 2
    --- stderr ---
    error: a key is needed to log in (usage)
    hint: save it to a file and say --key-file FILE, or pipe it in and say --key-file -
    ");
    assert_snapshot!(run(&desk, &["login", &address, "--key-file", "empty.key"]), @"
    exit code: 1
    --- stderr ---
    error: empty.key holds no key: it should be one line that begins with stk_ (local_file)
    ");
    assert_snapshot!(run(&desk, &["login", &address, "--key-file", "none.key"]), @"
    exit code: 1
    --- stderr ---
    error: cannot read the key in none.key: No such file or directory (os error 2) (local_file)
    ");
    assert_snapshot!(run(&desk, &["login", "stead.example.org", "--key-file", "wrong.key"]), @"
    exit code: 2
    --- stderr ---
    error: `stead.example.org` is not an address of a server: it begins with http://, https:// or unix: (usage)
    hint: give an address such as http://127.0.0.1:[PORT]
    ");
    assert_snapshot!(run(&desk, &["login", &address, "--key-file", "wrong.key", "--profile", "local"]), @"
    exit code: 2
    --- stderr ---
    error: `local` is the local server and needs no login (usage)
    hint: choose another --profile
    ");
    assert_snapshot!(run(&desk, &["login", &address, "--key-file", "wrong.key", "--profile", "../x"]), @"
    exit code: 2
    --- stderr ---
    error: `../x` cannot be a profile's name (usage)
    ");
    assert!(!desk.home().join(".config/stead").exists());
}

/// Makes `certificate.pem` and `key.pem` in a directory: a certificate that signs itself, and may sign others or not.
fn certificate(directory: &Path, authority: bool) {
    let at = |name: &str| directory.join(name).display().to_string();
    let authority = if authority { "TRUE" } else { "FALSE" };
    let request = format!(
        "[req]\nprompt=no\ndistinguished_name=name\nx509_extensions=extensions\n[name]\nCN=stead-test\n[extensions]\nsubjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:{authority}\n"
    );
    std::fs::write(at("request"), request).unwrap();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-config", &at("request"), "-keyout", &at("key.pem"), "-out", &at("certificate.pem")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn a_login_over_tls_needs_a_certificate_that_is_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    certificate(directory.path(), false);
    let desk = Desk::beside(Server::builder().with(&["--tls-cert", &at("certificate.pem"), "--tls-key", &at("key.pem")]));
    let address = desk.server().address.clone();
    assert!(address.starts_with("https://127.0.0.1:"), "{address}");
    desk.done(&["key", "create", "laptop", "-o", "laptop.key"]);
    assert_snapshot!(run(&desk, &["login", &address, "--key-file", "laptop.key"]), @"
    exit code: 1
    --- stderr ---
    error: the certificate of https://127.0.0.1:[PORT] is not trusted: it is signed by nobody that is trusted here (unreachable)
    hint: if it is the right server, say --ca-file FILE with its certificate or that of its authority; `stead login` keeps it in the profile
    ");
    let trusting = |arguments: &[&str]| {
        let mut command = anywhere(&desk, arguments);
        command.env("SSL_CERT_FILE", at("certificate.pem")).env_remove("SSL_CERT_DIR");
        told(&command.output().unwrap())
    };
    assert_snapshot!(trusting(&["login", &address, "--key-file", "laptop.key"]), @"
    exit code: 0
    --- stderr ---
    logged in to https://127.0.0.1:[PORT] as olivia (prn_[ID])
    profile default is used from now on, project default
    hint: back to the local server: `stead --profile local …`, or `stead logout`
    ");
    assert_snapshot!(trusting(&["env", "list", "--quiet"]), @"
    exit code: 0
    --- stdout ---
    env_[ID]
    ");
}

#[test]
fn a_file_of_certificates_is_remembered_with_the_login() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    certificate(directory.path(), false);
    let desk = Desk::beside(Server::builder().with(&["--tls-cert", &at("certificate.pem"), "--tls-key", &at("key.pem")]));
    let address = desk.server().address.clone();
    desk.done(&["key", "create", "laptop", "-o", "laptop.key"]);
    std::fs::copy(at("certificate.pem"), desk.work().join("ca.pem")).unwrap();
    // As a flag, as a variable, and from then on from the profile, wherever the user stands.
    let login = ["login", &address, "--key-file", "laptop.key"];
    assert!(anywhere(&desk, &login).env("STEAD_CA_FILE", "ca.pem").output().unwrap().status.success());
    assert_eq!(anywhere(&desk, &["logout"]).output().unwrap().status.code(), Some(0));
    assert!(anywhere(&desk, &[&login[..], &["--ca-file", "ca.pem"]].concat()).output().unwrap().status.success());
    assert!(anywhere(&desk, &["env", "list"]).current_dir(desk.home()).output().unwrap().status.success());
    let shown = squeezed(&run(&desk, &["config", "show"]));
    assert!(shown.contains(&format!("ca-file  {}  profile default", desk.work().join("ca.pem").display())), "{shown}");
    // What is named is trusted and nothing else, also where nothing is in it.
    desk.write("none.pem", "no certificate\n");
    assert_snapshot!(run(&desk, &["env", "list", "--ca-file", "none.pem"]), @"
    exit code: 1
    --- stderr ---
    error: the certificates in [WORK]/none.pem cannot be used: it holds no certificate in PEM (local_file)
    hint: name a file of certificates in PEM with --ca-file
    ");
    assert_snapshot!(run(&desk, &["env", "list", "--ca-file", "absent.pem"]), @"
    exit code: 1
    --- stderr ---
    error: the certificates in [WORK]/absent.pem cannot be used: No such file or directory (os error 2) (local_file)
    hint: name a file of certificates in PEM with --ca-file
    ");
}

#[test]
fn an_address_of_the_wrong_kind_and_a_certificate_of_the_wrong_kind_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    certificate(directory.path(), true);
    let desk = Desk::beside(Server::builder().with(&["--tls-cert", &at("certificate.pem"), "--tls-key", &at("key.pem")]));
    let secure = desk.server().address.clone();
    desk.done(&["key", "create", "laptop", "-o", "laptop.key"]);
    let login = |address: &str| run(&desk, &["login", address, "--key-file", "laptop.key", "--ca-file", &at("certificate.pem")]);
    assert_snapshot!(login(&secure), @"
    exit code: 1
    --- stderr ---
    error: the certificate of https://127.0.0.1:[PORT] is not trusted: it is the certificate of an authority (CA:TRUE), which signs others and cannot be a server's own (unreachable)
    hint: give the server a certificate of its own: signed by that authority, or self-signed with -addext basicConstraints=critical,CA:FALSE
    ");
    assert_snapshot!(login(&secure.replace("https:", "http:")), @"
    exit code: 1
    --- stderr ---
    error: http://127.0.0.1:[PORT] is the wrong kind of address: https is spoken there (unreachable)
    hint: use https://127.0.0.1:[PORT]
    ");
    let plain = Server::start();
    assert_snapshot!(login(&plain.address.replace("http:", "https:")), @"
    exit code: 1
    --- stderr ---
    error: https://127.0.0.1:[PORT] is the wrong kind of address: plain http is spoken there (unreachable)
    hint: use http://127.0.0.1:[PORT]; a key then travels unencrypted
    ");
    assert!(!desk.home().join(".config/stead").exists());
}

#[test]
fn up_says_that_a_profile_points_elsewhere() {
    let desk = Desk::new();
    desk.done(&["key", "create", "laptop", "-o", "laptop.key"]);
    let address = desk.server().address.clone();
    assert!(anywhere(&desk, &["login", &address, "--key-file", "laptop.key"]).output().unwrap().status.success());
    assert_snapshot!(run(&desk, &["up"]), @"
    exit code: 0
    --- stdout ---
    reached at  http://127.0.0.1:[PORT]
    status      ready
    version     [VERSION]
    you are     olivia (prn_[ID])
    project     default
    --- stderr ---
    profile default points at http://127.0.0.1:[PORT], which this command does not start; this is how it is
    hint: the local server: stead up --profile local
    ");
}
