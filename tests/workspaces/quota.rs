//! `resources.disk_mb` where the filesystem holds it: refused to the block, told as a cause, and nothing of it left.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};
use stead_sandbox::quota;

use super::limits::{end, enforcement};
use super::{Home, can_run};
use crate::api::world::{expect, refused, text};
use crate::crashes::eventually;
use crate::support::Server;

const MIB: u64 = 1 << 20;

fn spec(disk_mb: u64, access: &str) -> Value {
    json!({"sandbox": {"network_access": "disabled", "workspace_access": access, "resources": {"disk_mb": disk_mb}}})
}

/// A server whose filesystem holds bounds; says so where it does not.
#[expect(clippy::print_stderr, reason = "what was not run must be seen")]
fn server(arguments: &[&str]) -> Option<Server> {
    let server = Server::builder().with(arguments).start();
    if !can_run(&server) {
        return None;
    }
    // On a slow machine the trial of the host may have to be repeated.
    let level = eventually("it is known what this host can do", || {
        let listed = expect(&server.http().get("/v1/projects/default/providers"), 200);
        let local = listed["items"].as_array().unwrap().iter().find(|provider| provider["name"] == "local").unwrap().clone();
        let level = text(&local["capabilities"]["fields"]["sandbox.resources.disk_mb"], "*");
        (level != "unavailable").then_some(level)
    });
    if level == "enforced" {
        return Some(server);
    }
    let found = server.command(&["doctor"]).output().unwrap();
    let said = String::from_utf8_lossy(&found.stdout).into_owned();
    eprintln!("NOT RUN: no quota here: {}", said.lines().find(|line| line.contains("disk quota")).unwrap_or(&said));
    None
}

fn project(directory: &Path) -> u32 {
    quota::handed_on_by(quota::open(directory).unwrap()).unwrap().unwrap_or_else(|| panic!("{} has no project", directory.display()))
}

/// What all files below a directory occupy.
fn occupied(directory: &Path) -> u64 {
    let own = std::fs::symlink_metadata(directory).unwrap();
    let below = if own.is_dir() { std::fs::read_dir(directory).unwrap().map(|entry| occupied(&entry.unwrap().path())).sum() } else { 0 };
    own.blocks() * 512 + below
}

fn assert_full(exit: &Value) {
    assert_eq!((&exit["cause"], &exit["limits_hit"]), (&json!("disk_full"), &json!(["disk"])), "{exit}");
    assert!(exit["code"].as_i64().is_some_and(|code| code != 0), "it ended by itself: {exit}");
}

#[test]
fn who_fills_it_is_refused_to_the_block_and_goes_on() {
    let Some(server) = server(&[]) else { return };
    for (name, access, target) in [("plain", "rw", "/workspace"), ("layered", "cow", "/workspace"), ("beside", "none", "/runtime")] {
        let home = Home::new(&server, name, spec(16, access));
        assert_eq!(enforcement(&home, "disk_mb"), "enforced");
        home.works(&format!("head -c 4M /dev/zero > {target}/kept; mkdir {target}/d"));
        let beside = expect(&home.http.post(&home.path("/processes"), json!({"argv": ["sleep", "600"]})), 201);
        assert_full(&end(&home, &format!("cat /dev/zero > {target}/d/file")));
        let running = expect(&home.http.get(&home.path(&format!("/processes/{}", text(&beside, "id")))), 200);
        assert_eq!(running["status"], "running", "nobody is ended for what another wrote");
        let total = occupied(&home.directory(""));
        assert!(total <= 16 * MIB && total > 15 * MIB, "{total}");
        let said = home.shell(&format!("head -c 100000 /dev/zero > {target}/more; cat {target}/kept | wc -c"));
        let why = text(&said, "stderr");
        assert!(why.contains("quota exceeded") || why.contains("No space left"), "{said}");
        assert_eq!(text(&said, "stdout").trim(), "4194304");
        // Asleep and awake again, there is room to remove.
        expect(&home.http.post(&home.path("/sleep"), json!({"force": true})), 200);
        home.works(&format!("rm -r {target}/d; head -c 4M /dev/zero > {target}/more"));
        assert_eq!(end(&home, "exit 3")["cause"], "exited", "a failure with room left is only that");
    }
}

#[test]
fn names_are_bounded_as_blocks_are() {
    let Some(server) = server(&[]) else { return };
    let home = Home::new(&server, "many", spec(2, "rw"));
    assert_full(&end(&home, "mkdir d; cd d; for i in $(seq 2000); do : > $i || exit 7; done"));
    let made = std::fs::read_dir(home.directory("workspace/d")).unwrap().count();
    assert!((300..512).contains(&made), "{made}");
    expect(&home.http.post(&home.path("/sleep"), json!({"force": true})), 200);
    home.works("rm -r d");
}

#[test]
fn another_bound_holds_at_once_and_files_over_http_keep_to_it() {
    let Some(server) = server(&[]) else { return };
    let home = Home::new(&server, "changed", spec(8, "rw"));
    let change =
        |disk_mb: Value| expect(&home.http.patch(&home.path(""), json!({"spec": {"sandbox": {"resources": {"disk_mb": disk_mb}}}})), 200);
    assert_full(&end(&home, "head -c 12M /dev/zero > file"));
    change(json!(32));
    home.works("head -c 12M /dev/zero > file");
    change(json!(4));
    assert_full(&end(&home, "echo more > more"));
    // Also for what runs.
    home.works("rm -f file more");
    let body = json!({"argv": ["sh", "-c", "read line; exec head -c 12M /dev/zero > file"], "stdin": "open"});
    let process = home.path(&format!("/processes/{}", text(&expect(&home.http.post(&home.path("/processes"), body), 201), "id")));
    change(json!(32));
    expect(
        &home.http.send("POST", &format!("{process}/stdin?offset=0"), &[("Content-Type", "application/octet-stream")], Some(b"go\n")),
        200,
    );
    let exit = expect(&home.http.get(&format!("{process}/wait?timeout=60s")), 200)["exit"].clone();
    assert_eq!((&exit["cause"], &exit["code"]), (&json!("exited"), &json!(0)), "{exit}");
    change(json!(4));
    let put = |size: usize| home.http.send("PUT", &home.path("/files?path=sent"), &[], Some(&vec![1; size]));
    refused(&put(1 << 20), 507, "storage_full");
    home.works("rm -f file more sent");
    expect(&put(1 << 20), 200);
    refused(&put(8 << 20), 507, "storage_full");
}

#[test]
fn layers_count_to_who_wrote_them_and_nothing_stands_in_their_way() {
    let Some(server) = server(&[]) else { return };
    let home = Home::new(&server, "sealed", spec(16, "rw"));
    home.works("mkdir a b; head -c 6M /dev/zero > a/one; echo text > a/two");
    let own = project(&home.directory(""));
    let seal = || expect(&home.http.post(&home.path("/checkpoints"), json!({"wait": "sealed"})), 201);
    let first = seal();
    // What is sealed can be moved, replaced and written over.
    home.works("mv a/two b/two; mv a/one b/one; rm b/two; echo new > b/three; ln b/three a/four");
    let second = seal();
    assert_full(&end(&home, "head -c 12M /dev/zero > c"));
    let layers: Vec<_> = std::fs::read_dir(server.path().join("layers")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!layers.is_empty() && layers.iter().all(|layer| project(layer) == own), "{layers:?}");
    home.works("rm -f c");
    let fork = expect(&home.http.post(&home.path("/fork"), json!({"checkpoint_id": second["id"], "name": "forked"})), 201);
    let forked =
        Home { server: &server, http: server.http(), id: text(&fork["items"][0], "id"), sandbox: text(&fork["items"][0], "sandbox_id") };
    // It has all of its own room, and none of the other's.
    forked.works("head -c 12M /dev/zero > mine; mv b/three a/five; cat a/five");
    assert_ne!(project(&forked.directory("")), own);
    assert_full(&end(&forked, "head -c 6M /dev/zero > more"));
    expect(&home.http.post(&home.path(&format!("/checkpoints/{}/restore", text(&first, "id"))), json!({})), 200);
    assert_eq!(home.works("cat a/two; ls").trim(), "text\na\nb");
    let sandbox = home.directory("");
    drop(home);
    assert!(!sandbox.exists());
    let left = quota::usage(quota::open(server.path()).unwrap(), own).unwrap();
    assert_eq!(left.bound, quota::Bound::default(), "no bound is left of what is gone");
    assert_eq!(forked.works("rm -f more; cat a/five").trim(), "new");
}

#[test]
fn what_shares_a_sandbox_shares_its_bound() {
    let Some(server) = server(&[]) else { return };
    let one = Home::new(&server, "one", spec(8, "rw"));
    let made = expect(
        &one.http.post(crate::api::world::ENVIRONMENTS, json!({"name": "two", "sandbox_id": one.sandbox, "spec": spec(64, "rw")})),
        201,
    );
    let two = Home { server: &server, http: server.http(), id: text(&made, "id"), sandbox: one.sandbox.clone() };
    one.works("true");
    // The smaller of those that are awake holds.
    assert_full(&end(&two, "head -c 12M /dev/zero > file"));
    expect(&one.http.post(&one.path("/sleep"), json!({"force": true})), 200);
    expect(&two.http.post(&two.path("/sleep"), json!({"force": true})), 200);
    two.works("head -c 12M /dev/zero > file; rm file");
    drop(two);
    one.works("true");
}

#[test]
fn nothing_inside_says_what_belongs_where() {
    let Some(server) = server(&[]) else { return };
    for (name, access) in [("direct", "rw"), ("layered", "cow")] {
        let home = Home::new(&server, name, spec(8, access));
        home.works("mkdir d; echo text > d/file");
        let script = "import fcntl, os, struct, sys
for path in ['.', 'd', 'd/file']:
    file = os.open(path, os.O_RDONLY)
    try:
        found = list(struct.unpack('7I', fcntl.ioctl(file, 0x801c581f, bytes(28))))
    except OSError:
        continue
    for change in [(3, 0), (3, 77), (0, found[0] ^ 0x200)]:
        wanted = list(found)
        wanted[change[0]] = change[1]
        try:
            fcntl.ioctl(file, 0x401c5820, struct.pack('7I', *wanted))
        except OSError:
            continue
        after = struct.unpack('7I', fcntl.ioctl(file, 0x801c581f, bytes(28)))
        if after[3] != found[3] or (after[0] ^ found[0]) & 0x200:
            sys.exit('%s: %s became %s' % (path, found, after))
print('kept')";
        let result = expect(&home.http.post(&home.path("/exec"), json!({"command": ["python3", "-c", script]})), 200);
        assert_eq!((&result["exit_code"], text(&result, "stdout").trim()), (&json!(0), "kept"), "{result}");
        assert_full(&end(&home, "head -c 12M /dev/zero > large"));
    }
}

#[test]
fn a_directory_of_the_host_is_still_watched() {
    let theirs = tempfile::Builder::new().prefix("stead-theirs-").tempdir().unwrap();
    let allowed = theirs.path().display().to_string();
    let Some(server) = server(&["--allow-host-path", &allowed]) else { return };
    let mut wanted = spec(8, "rw");
    wanted["mounts"] = json!([{"source": format!("host:{allowed}"), "path": "/theirs", "access": "rw"}]);
    let home = Home::new(&server, "beside", wanted);
    assert_eq!(enforcement(&home, "disk_mb"), "best_effort");
    home.works("sleep 0.3");
    let watched = end(&home, "cat /dev/zero > /theirs/file; sleep 600");
    assert_eq!((&watched["cause"], &watched["signal"]), (&json!("disk_full"), &json!(9)), "{watched}");
    std::fs::remove_file(theirs.path().join("file")).unwrap();
    // Its own files are held as well; whoever watches counts a little more, and may be first to say so.
    let own = end(&home, "head -c 12M /dev/zero > own");
    assert_eq!((&own["cause"], &own["limits_hit"]), (&json!("disk_full"), &json!(["disk"])), "{own}");
    let total = occupied(&home.directory(""));
    assert!(total <= 8 * MIB, "{total}");
}

#[test]
fn what_was_there_before_counts_once_it_is_bounded() {
    let Some(server) = server(&[]) else { return };
    let home = Home::new(&server, "later", json!({"sandbox": {"network_access": "disabled"}}));
    home.works("mkdir -p a/b; head -c 12M /dev/zero > a/b/file; ln -s a/b link; mkfifo pipe");
    expect(&home.http.post(&home.path("/sleep"), json!({"force": true})), 200);
    expect(&home.http.patch(&home.path(""), json!({"spec": {"sandbox": {"resources": {"disk_mb": 16}}}})), 200);
    assert_full(&end(&home, "head -c 12M /dev/zero > more"));
    home.works("rm -rf more; mkdir new; mv a/b/file new/file; head -c 2M /dev/zero > new/little");
    let directory = server.directory();
    let (id, sandbox) = (home.id.clone(), home.sandbox.clone());
    std::mem::forget(home);
    let mut server = server;
    // Every part is killed; the next one holds the same bound.
    let before = project(&directory.path().join("sandboxes").join(&sandbox));
    server.kill();
    crate::support::beside::end(directory.path());
    let server = Server::builder().on(directory).start();
    let home = Home { server: &server, http: server.http(), id, sandbox };
    assert_full(&end(&home, "head -c 12M /dev/zero > more"));
    assert_eq!(project(&home.directory("")), before);
}
