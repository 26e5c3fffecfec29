//! Files that an operator mounts, as the server's configuration names them.

use std::fs;

use serde_json::json;

use super::set;
use crate::api::world::{at, create, expect, refused};
use crate::support::Server;

#[test]
fn names_that_a_rule_fits_come_from_its_directory_and_from_nowhere_else() {
    let mounted = tempfile::TempDir::new().unwrap();
    let directory = mounted.path().join("secrets");
    fs::create_dir(&directory).unwrap();
    let config = mounted.path().join("stead.toml");
    let rule = format!("[[secret_sources]]\nkind = 'files'\nproject = 'default'\nprefix = 'M_'\ndirectory = '{}'\n", directory.display());
    fs::write(&config, rule).unwrap();
    let server = Server::builder().with(&["--config", config.to_str().unwrap()]).start();
    let http = server.http();
    let spec = json!({ "secret_bindings": [{ "name": "M_KEY" }] });
    let environment = create(&http, json!({ "name": "web", "spec": spec }));
    let start = || http.post(&format!("{}/processes", at(&environment)), json!({ "argv": ["true"] }));
    let details = refused(&start(), 409, "secret_missing");
    assert_eq!(
        (details["name"].as_str(), details["source"].as_str()),
        (Some("M_KEY"), Some(&*format!("the file {}/M_KEY", directory.display())))
    );
    // It is set there, and not here; what no rule fits is set here.
    refused(&set(&http, "M_KEY", "a-value-that-is-not-taken"), 409, "conflict");
    let told = refused(&http.get("/v1/projects/default/secrets/M_KEY"), 404, "not_found");
    assert!(told["source"].as_str().unwrap().contains("M_KEY"));
    expect(&set(&http, "OTHER", "kept-in-the-store"), 201);
    // A link that leads out is a failure, and no missing secret.
    fs::write(mounted.path().join("outside"), "hidden").unwrap();
    std::os::unix::fs::symlink("../outside", directory.join("M_KEY")).unwrap();
    let details = refused(&start(), 502, "secret_unavailable");
    assert_eq!(details["name"], "M_KEY");
    // Another project's rule is another one's.
    expect(&http.post("/v1/projects", json!({ "handle": "acme" })), 201);
    let body = json!({ "value": "kept-in-the-store" }).to_string();
    expect(&http.send("PUT", "/v1/projects/acme/secrets/M_KEY", &[], Some(body.as_bytes())), 201);
}

#[test]
fn a_rule_that_is_wrong_keeps_the_server_from_starting() {
    let directory = tempfile::TempDir::new().unwrap();
    let config = directory.path().join("stead.toml");
    fs::write(&config, "[[secret_sources]]\nkind = 'vault'\naddress = 'http://vault.example:8200'\ntoken_file = '/run/token'\n").unwrap();
    let Err((code, said)) = Server::builder().with(&["--config", config.to_str().unwrap()]).try_start() else { panic!("it starts") };
    assert!(code == 2 && said.contains("secret_sources[0]: `address` is plain http") && said.contains("allow_http"), "{code} {said}");
}
