//! TLS, with a certificate of the test's own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::Server;

/// A certificate for 127.0.0.1 that signs itself, and its key.
fn certificate(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    let (certificate, key) = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
    let output = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=stead test",
        ])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (certificate, key)
}

/// Asks with another program than ours.
fn curl(arguments: &[&str]) -> Output {
    Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60", "--noproxy", "*"])
        .args(arguments)
        .output()
        .expect("curl runs")
}

#[test]
fn tls_serves_whom_the_certificate_convinces_and_nobody_in_plain() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate_file, key_file) = certificate(directory.path(), "server");
    let (other, _) = certificate(directory.path(), "other");
    let [certificate_path, key_path, other] = [&certificate_file, &key_file, &other].map(|path| path.to_str().unwrap().to_owned());
    let server = Server::builder().with(&["--tls-cert", &certificate_path, "--tls-key", &key_path]).start();
    assert!(server.address.starts_with("https://127.0.0.1:"), "{}", server.address);
    let url = format!("{}/v1/identity", server.address);
    let bearer = format!("Authorization: Bearer {}", server.owner_key());
    // Both versions of HTTP, and TLS 1.2 as well as what is newest.
    for version in [&["--http1.1"][..], &["--http2"], &["--tls-max", "1.2"]] {
        let output = curl(&[version, &["--cacert", &certificate_path, "-H", &bearer, &url]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let me: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(me["operator"], true);
    }
    assert!(!curl(&["--cacert", &other, "-H", &bearer, &url]).status.success(), "another certificate does not convince");
    assert!(!curl(&["--cacert", &certificate_path, "--tls-max", "1.1", &url]).status.success(), "nothing older");
    let plain = crate::support::Http::new(server.address.trim_start_matches("https://"), Some(server.owner_key()));
    assert!(plain.try_send("GET", "/v1/identity", &[], None).is_err(), "nothing is answered in plain");

    // Our own client, by the certificate that its surroundings trust.
    let mut command = crate::support::stead();
    command.args(["--url", &server.address, "http", "GET", "/v1/identity"]);
    command.env("STEAD_API_KEY", server.owner_key()).env("SSL_CERT_FILE", &certificate_path);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_certificate_that_cannot_be_used_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate_file, key_file) = certificate(directory.path(), "server");
    let (_, other_key) = certificate(directory.path(), "other");
    let nowhere = directory.path().join("nowhere.pem");
    let nonsense = directory.path().join("nonsense.pem");
    std::fs::write(&nonsense, "not a certificate").unwrap();
    let paths = |pair: (&Path, &Path)| [pair.0.to_str().unwrap().to_owned(), pair.1.to_str().unwrap().to_owned()];
    for pair in [(&*nowhere, &*key_file), (&nonsense, &key_file), (&certificate_file, &nonsense), (&certificate_file, &other_key)] {
        let [certificate, key] = paths(pair);
        let started = Server::builder().with(&["--tls-cert", &certificate, "--tls-key", &key]).try_start();
        let Err((status, said)) = started else { panic!("it starts with {pair:?}") };
        assert!(status != 0 && said.contains("TLS"), "{said}");
    }
    let [certificate, _] = paths((&certificate_file, &key_file));
    let Err((status, said)) = Server::builder().with(&["--tls-cert", &certificate]).try_start() else { panic!("it starts without a key") };
    assert!(status == 2 && said.contains("tls-key"), "{said}");
}
