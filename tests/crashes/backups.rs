//! Backups of a server at work, and restores with none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use stead_testing::PrivatePostgres;

use super::{all, assert_whole, create, settled, text};
use crate::support::{Http, Server};

fn serve(database: Option<&str>) -> Server {
    let builder = Server::builder().with(&["--rate-limit", "0"]);
    match database {
        Some(url) => builder.with(&["--database", url]).start(),
        None => builder.start(),
    }
}

fn with_database<'a>(arguments: &[&'a str], database: Option<&'a str>) -> Vec<&'a str> {
    arguments.iter().copied().chain(database.into_iter().flat_map(|url| ["--database", url])).collect()
}

/// Backs up while others create, and restores into `elsewhere`: what was acknowledged before the backup began is in it, whole.
fn backed_up_at_work(database: Option<&str>, elsewhere: Option<&str>) {
    let server = serve(database);
    let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(BTreeSet::new())));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (http, stop, made) = (server.http(), Arc::clone(&stop), Arc::clone(&made));
            std::thread::spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let name = format!("w{writer}-{number}");
                    assert_eq!(create(&http, &name).unwrap().status, 201);
                    made.lock().unwrap().insert(name);
                }
            })
        })
        .collect();
    let files = tempfile::TempDir::new().unwrap();
    let mut backups = Vec::new();
    for number in 0..3 {
        super::eventually("some more are made", || (made.lock().unwrap().len() > number * 20).then_some(()));
        let before = made.lock().unwrap().clone();
        let file = files.path().join(format!("{number}.backup"));
        let output = server.command(&with_database(&["backup", file.to_str().unwrap()], database)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        backups.push((file, before));
    }
    stop.store(true, Ordering::SeqCst);
    writers.into_iter().for_each(|writer| writer.join().unwrap());

    for (file, before) in backups {
        let directory = Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
        let arguments = with_database(&["restore", "--replace", file.to_str().unwrap()], elsewhere);
        let output = crate::support::stead().arg("--data-dir").arg(directory.path()).args(&arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let arguments = with_database(&["--rate-limit", "0"], elsewhere);
        let mut again = Server::builder().on(directory).with(&arguments).start();
        let http = Http::new(&again.address, Some(server.owner_key()));
        let names: BTreeSet<String> = all(&http).iter().map(|record| text(record, "name").to_owned()).collect();
        assert!(before.is_subset(&names), "{:?} is missing", before.difference(&names).collect::<Vec<_>>());
        for record in all(&http) {
            // Caught in the middle, it stays where it was: its place is on the host that was backed up.
            assert!(matches!(text(&record, "status"), "ready" | "provisioning"), "{record}");
            let sandbox = http.get(&format!("/v1/projects/default/sandboxes/{}", text(&record, "sandbox_id")));
            assert_eq!(sandbox.status, 200);
            assert!(sandbox.json()["fence"].as_u64().unwrap() >= 1 << 32, "no fence is ever given out twice");
        }
        again.kill();
        if let Some(url) = elsewhere {
            forget_heartbeats(url);
        }
    }
    assert_whole(&server, &settled(&server.http()));
}

/// As if a minute had passed since the server on it ended.
fn forget_heartbeats(url: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = stead_store::open(&stead_store::Location::Postgres(url.to_owned())).await.unwrap();
        store.write(|unit| Box::pin(async move { unit.execute("DELETE FROM hosts", &[]).await })).await.unwrap();
        store.close().await;
    });
}

#[test]
fn a_backup_of_a_server_at_work_is_whole_on_sqlite() {
    backed_up_at_work(None, None);
}

#[test]
fn a_backup_of_a_server_at_work_is_whole_on_postgres() {
    let postgres = PrivatePostgres::start();
    let (from, to) = (postgres.database("from_here"), postgres.database("to_there"));
    backed_up_at_work(Some(&from), Some(&to));
}

#[test]
fn a_restore_in_place_brings_back_what_was_and_is_refused_while_a_server_runs() {
    let mut server = Server::start();
    let (http, files) = (server.http(), tempfile::TempDir::new().unwrap());
    let file = files.path().join("kept.backup");
    let kept = create(&http, "kept").unwrap().json();
    assert!(server.command(&["backup", file.to_str().unwrap()]).output().unwrap().status.success());
    http.delete(&format!("{}/{}", super::ENVIRONMENTS, text(&kept, "id")));

    let refused = server.command(&["restore", "--replace", file.to_str().unwrap()]).output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains(&format!("process {}", server.pid())), "{stderr}");
    assert_eq!(server.terminate(), Some(0));
    let unasked = server.command(&["restore", file.to_str().unwrap()]).output().unwrap();
    assert_eq!(unasked.status.code(), Some(3), "over what is there only with --replace");
    let restored = server.command(&["restore", "--replace", file.to_str().unwrap()]).output().unwrap();
    assert!(restored.status.success(), "{restored:?}");

    let server = Server::builder().on(server.directory()).start();
    let http = server.http();
    let back = http.get(&format!("{}/{}", super::ENVIRONMENTS, text(&kept, "id"))).json();
    assert_eq!((text(&back, "name"), text(&back, "status")), ("kept", "ready"));
    // Its directory was deleted after the backup; somebody who asks is told.
    let asked = http.send("POST", &format!("{}/{}/reconcile", super::ENVIRONMENTS, text(&kept, "id")), &[], None);
    assert_eq!(asked.json()["status"], "orphaned");
}

#[test]
fn a_restore_into_a_database_that_another_server_uses_is_refused() {
    let postgres = PrivatePostgres::start();
    let url = postgres.url();
    let server = Server::builder().with(&["--database", &url]).start();
    let files = tempfile::TempDir::new().unwrap();
    let file = files.path().join("b.backup");
    let output = server.command(&["backup", file.to_str().unwrap(), "--database", &url]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    super::eventually("its heartbeat", || (postgres.sql("SELECT COUNT(*) FROM hosts").trim() == "1").then_some(()));
    let elsewhere = tempfile::TempDir::new().unwrap();
    let mut command = crate::support::stead();
    command.arg("--data-dir").arg(elsewhere.path()).args(["restore", "--replace", file.to_str().unwrap(), "--database", &url]);
    let refused = command.output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains(&server.address), "it says which: {stderr}");
    assert_eq!(create(&server.http(), "unharmed").unwrap().status, 201);
}
