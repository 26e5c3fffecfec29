//! No token and no key is anywhere but where it is used.

use std::path::Path;

use serde_json::json;

use super::{Scene, acquire, id_of};
use crate::api::world::{ENVIRONMENTS, expect, text};
use crate::support::github::CLIENT_SECRET;

/// Everything below a directory, with the names of files.
fn all_files(directory: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            all_files(&path, found);
        } else if kind.is_file() {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap_or_default()));
        }
    }
}

#[test]
fn a_token_is_in_no_file_log_or_error() {
    let mut scene = Scene::new(&["acme/web"]);
    let lease = acquire(&scene.http, &id_of(&scene.path));
    let header = text(&lease, "token");
    let started = json!({ "argv": ["sh", "-c", "test -n \"$GITHUB_TOKEN\" && sleep 60"] }).to_string();
    let process = expect(&scene.http.send("POST", &scene.at("/processes"), &[("Stead-Lease", &header)], Some(started.as_bytes())), 201);
    assert!(!process.to_string().contains("ghs_"), "{process}");
    scene.credential_token("acme/web", "push");
    scene.credential_token("acme/web", "clone");
    // Errors of every kind, with everything in memory.
    let missing = json!({ "argv": ["/no/such/program"] }).to_string();
    let refused = scene.http.send("POST", &scene.at("/processes"), &[("Stead-Lease", &header)], Some(missing.as_bytes()));
    assert!(refused.status >= 400 && !String::from_utf8_lossy(&refused.body).contains("ghs_"));
    let tokens = scene.github.all_tokens();
    assert!(tokens.len() >= 3);
    expect(&scene.http.post(&format!("{ENVIRONMENTS}/leases/{}/release", text(&lease, "id")), json!({})), 200);
    scene.until_revoked(3);
    scene.server.terminate();

    let mut files = vec![("the log".to_owned(), scene.server.log().into_bytes())];
    all_files(scene.server.path(), &mut files);
    assert!(files.iter().any(|(name, _)| name.ends_with("stead.db")));
    let key = scene.github.key.older.lines().nth(3).unwrap().to_owned();
    let hidden: Vec<String> = tokens.into_iter().chain([key, CLIENT_SECRET.to_owned(), "ghu_owner".to_owned()]).collect();
    for (name, bytes) in files {
        for value in &hidden {
            let found = bytes.windows(value.len()).any(|window| window == value.as_bytes());
            assert!(!found, "{name} holds what only memory may");
        }
    }
}
