//! Every bound of `resources` at once, on the real hierarchy of this host: held, told as a cause when it is hit, and gone afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Home, can_run};
use crate::api::world::{expect, text};
use crate::support::Server;

/// The end of a script that is run inside.
pub fn end(home: &Home<'_>, script: &str) -> Value {
    let process = expect(&home.http.post(&home.path("/processes"), json!({"argv": ["sh", "-c", script]})), 201);
    let path = home.path(&format!("/processes/{}/wait?timeout=60s", text(&process, "id")));
    loop {
        let waited = expect(&home.http.get(&path), 200);
        if waited["status"] == "exited" {
            return waited["exit"].clone();
        }
    }
}

/// How far each bound goes here, as the posture of an environment says it.
pub fn enforcement(home: &Home<'_>, field: &str) -> String {
    let environment = expect(&home.http.get(&home.path("")), 200);
    let fields = environment["runtime"]["posture"].as_array().unwrap().clone();
    let found = fields.iter().find(|found| found["field"] == format!("sandbox.resources.{field}"));
    text(found.unwrap_or_else(|| panic!("no {field} in {environment}")), "enforcement")
}

/// The groups of this environment, in whatever hierarchy.
fn groups(home: &Home<'_>) -> Vec<PathBuf> {
    let short: String = home.id.chars().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect();
    let (mut found, mut next) = (Vec::new(), vec![PathBuf::from("/sys/fs/cgroup")]);
    while let Some(directory) = next.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
            if directory.ends_with("stead") && entry.file_name().to_string_lossy().ends_with(&short) {
                found.push(entry.path());
            }
            next.push(entry.path());
        }
    }
    found
}

/// What a group's file says of processor time: so much of each tenth of a second.
fn share(groups: &[PathBuf]) -> Option<String> {
    let read = |group: &Path, file: &str| std::fs::read_to_string(group.join(file)).ok().map(|text| text.trim().to_owned());
    let unified = groups.iter().find_map(|group| read(group, "cpu.max"));
    unified.or_else(|| {
        groups.iter().find_map(|group| Some(format!("{} {}", read(group, "cpu.cfs_quota_us")?, read(group, "cpu.cfs_period_us")?)))
    })
}

#[expect(clippy::print_stderr, reason = "what was not run must be seen")]
fn check(server: &Server) {
    if !can_run(server) {
        return;
    }
    let resources = json!({"cpus": 0.5, "memory_mb": 64, "pids": 40, "disk_mb": 16});
    let spec = json!({"sandbox": {"network_access": "disabled", "resources": resources}});
    let created = server.http().post(crate::api::world::ENVIRONMENTS, json!({"name": "bounded", "spec": spec}));
    if created.status == 409 && created.code() == "posture_not_enforced" {
        eprintln!("NOT RUN: this host cannot hold these bounds: {}", String::from_utf8_lossy(&created.body));
        return;
    }
    let made = expect(&created, 201);
    let home = Home { server, http: server.http(), id: text(&made, "id"), sandbox: text(&made, "sandbox_id") };
    for field in ["cpus", "memory_mb", "pids"] {
        assert_eq!(enforcement(&home, field), "enforced", "{field}");
    }
    home.works("echo hello");
    assert_eq!(share(&groups(&home)).as_deref(), Some("50000 100000"));
    let hog = end(&home, "exec python3 -c 'x = b\"x\" * 300000000'");
    assert_eq!(hog["cause"], "oom", "{hog}");
    let bomb = end(&home, "for i in $(seq 100); do sleep 600 & done; wait");
    assert_eq!(bomb["limits_hit"], json!(["pids"]), "{bomb}");
    expect(&home.http.post(&home.path("/sleep"), json!({"force": true})), 200);
    assert_eq!(groups(&home), Vec::<PathBuf>::new());
    let filled = end(&home, "cat /dev/zero > file; exit 1");
    assert_eq!((&filled["cause"], &filled["limits_hit"]), (&json!("disk_full"), &json!(["disk"])), "{filled}");
    home.works("rm file");
    assert!(!groups(&home).is_empty());
    let (sandbox, data) = (home.directory(""), server.path().to_owned());
    let left = groups(&home);
    drop(home);
    assert!(!sandbox.exists() && left.iter().all(|group| !group.exists()));
    assert_eq!(std::fs::read_dir(data.join("run")).unwrap().count(), 0);
}

#[test]
fn bounds_are_held_told_and_gone() {
    check(&Server::start());
}

#[test]
fn the_same_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
    std::os::unix::fs::chown(directory.path(), Some(5001), Some(5001)).unwrap();
    let wrapper = ["setpriv", "--reuid=5001", "--regid=5001", "--clear-groups", "--"];
    check(&Server::builder().on(directory).through(&wrapper).start());
}
