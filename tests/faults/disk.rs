//! A disk that is full, or takes no writes.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use super::namespace::{self, Enclosed};
use super::{assert_helpful, not_run};
use crate::crashes::{ENVIRONMENTS, all, create, settled, text};
use crate::support::{Http, Server};

fn directory() -> Arc<TempDir> {
    Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap())
}

/// Takes all space that is left.
fn fill(enclosed: &Enclosed) {
    let mut file = std::fs::File::create(enclosed.path("filler")).unwrap();
    for block in [64 << 10, 4096, 1] {
        while file.write_all(&vec![b'x'; block]).is_ok() {}
    }
}

fn live_directories(enclosed: &Enclosed) -> BTreeSet<String> {
    let entries = std::fs::read_dir(enclosed.path("sandboxes")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|name| name.starts_with("sbx_")).collect()
}

/// What was acknowledged is there, each live record has its directory, and there is no other.
fn assert_nothing_lost(enclosed: &Enclosed, http: &Http, acknowledged: &[String]) {
    let records = settled(http);
    for id in acknowledged {
        let record = records.iter().find(|record| text(record, "id") == id);
        assert_eq!(record.map(|record| text(record, "status")), Some("ready"), "{id} was acknowledged");
    }
    let ready = records.iter().filter(|record| text(record, "status") == "ready");
    assert_eq!(ready.map(|record| text(record, "sandbox_id").to_owned()).collect::<BTreeSet<_>>(), live_directories(enclosed));
}

#[test]
fn a_full_disk_is_said_and_survived() {
    let Some(way) = namespace::way_in() else { return not_run("a full disk", "no mount namespace can be made here") };
    let enclosed = namespace::start(&way, directory(), "mount -t tmpfs -o size=12m,mode=700 tmpfs \"$DIR\"").unwrap();
    let http = enclosed.http();
    let before = create(&http, "before").unwrap().json();
    let mut acknowledged = vec![text(&before, "id").to_owned()];

    for round in 0..3 {
        fill(&enclosed);
        // Some still fit into what the database has; then it is full, and says so to each of many at once.
        let mut refused = Vec::new();
        for batch in 0..100 {
            let threads: Vec<_> = (0..20)
                .map(|number| {
                    let (http, name) = (http.clone(), format!("full-{round}-{batch}-{number}"));
                    std::thread::spawn(move || (create(&http, &name).unwrap(), name))
                })
                .collect();
            for (reply, name) in threads.into_iter().map(|thread| thread.join().unwrap()) {
                match reply.status {
                    201 => acknowledged.push(text(&reply.json(), "id").to_owned()),
                    503 => assert_helpful(&reply, 503, "service_unavailable"),
                    _ => {
                        assert_helpful(&reply, 507, "storage_full");
                        refused.push(name);
                    }
                }
            }
            if !refused.is_empty() {
                break;
            }
        }
        assert!(!refused.is_empty(), "the disk is full");
        let path = format!("{ENVIRONMENTS}/{}", text(&before, "id"));
        // Each write may still find the little room that the database gave back; the first that does not is told so.
        let refusal = (0..10_000)
            .map(|number| http.patch(&path, json!({ "tags": { "grow": format!("{number:0>250}") } })))
            .find(|reply| reply.status != 200)
            .expect("the disk is full");
        assert_helpful(&refusal, 507, "storage_full");
        let project = http.post("/v1/projects", json!({ "handle": format!("new-{round}") }));
        if project.status != 201 {
            assert_helpful(&project, 507, "storage_full");
        }
        // Reading goes on.
        assert_eq!(http.get(&path).status, 200);
        assert_eq!(http.get(&format!("{path}/versions")).status, 200);
        assert_eq!(http.get("/readyz").status, 200);
        assert!(all(&http).iter().any(|record| record["id"] == before["id"]));

        std::fs::remove_file(enclosed.path("filler")).unwrap();
        let after = create(&http, &format!("after-{round}")).unwrap();
        assert_eq!(after.status, 201, "{}", after.json());
        acknowledged.push(text(&after.json(), "id").to_owned());
        // What was refused is repeated with its key and made once.
        for name in refused {
            let reply = create(&http, &name).unwrap();
            assert_eq!(reply.status, 201, "{}", reply.json());
            acknowledged.push(text(&reply.json(), "id").to_owned());
        }
        assert_nothing_lost(&enclosed, &http, &acknowledged);
    }
    let names: Vec<String> = all(&http).iter().filter(|r| text(r, "status") == "ready").map(|r| text(r, "name").to_owned()).collect();
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "no name twice");
}

#[test]
fn no_room_for_more_directories_is_said_and_leaves_nothing() {
    let Some(way) = namespace::way_in() else { return not_run("a disk without inodes", "no mount namespace can be made here") };
    let enclosed = namespace::start(&way, directory(), "mount -t tmpfs -o size=64m,nr_inodes=20000,mode=700 tmpfs \"$DIR\"").unwrap();
    let http = enclosed.http();
    // What all places share is made behind the start; then hardly anything else has room.
    crate::crashes::eventually("the skeleton is there", || enclosed.path("skeleton/etc").exists().then_some(()));
    let filler = enclosed.path("filler");
    std::fs::create_dir(&filler).unwrap();
    let free = || rustix::fs::statvfs(&filler).unwrap().f_ffree;
    for number in 0..free().saturating_sub(60) {
        std::fs::File::create(filler.join(number.to_string())).unwrap();
    }
    let mut acknowledged = Vec::new();
    let mut refused = Vec::new();
    for number in 0..40 {
        let name = format!("n{number}");
        let reply = http.post(ENVIRONMENTS, json!({ "name": name }));
        if reply.status == 201 {
            acknowledged.push(text(&reply.json(), "id").to_owned());
        } else {
            assert_helpful(&reply, 507, "storage_full");
            refused.push(name);
        }
    }
    assert!(!acknowledged.is_empty() && !refused.is_empty());
    assert_nothing_lost(&enclosed, &http, &acknowledged);
    // The names of those that failed were never taken.
    let id = acknowledged.pop().unwrap();
    assert_eq!(http.delete(&format!("{ENVIRONMENTS}/{id}")).status, 200);
    crate::crashes::eventually("its files are gone", || std::fs::read_dir(enclosed.path("trash")).unwrap().next().is_none().then_some(()));
    let reply = http.post(ENVIRONMENTS, json!({ "name": refused[0] }));
    assert_eq!(reply.status, 201, "{}", reply.json());
}

#[test]
fn workspaces_that_become_read_only_are_said_and_leave_nothing() {
    let Some(way) = namespace::way_in() else { return not_run("read-only workspaces", "no mount namespace can be made here") };
    let enclosed = namespace::start(&way, directory(), "mount -t tmpfs -o mode=700 tmpfs \"$DIR\"").unwrap();
    let http = enclosed.http();
    let kept = text(&create(&http, "kept").unwrap().json(), "id").to_owned();
    enclosed.shell("mount --bind \"$DIR/sandboxes\" \"$DIR/sandboxes\" && mount -o remount,bind,ro \"$DIR/sandboxes\"");
    assert_helpful(&create(&http, "refused").unwrap(), 507, "storage_full");
    let checked = http.send("POST", &format!("{ENVIRONMENTS}/{kept}/reconcile"), &[], None);
    assert_eq!((checked.status, text(&checked.json(), "status")), (200, "ready"));
    // A delete is taken on, and carried out when it can be.
    let doomed = http.delete(&format!("{ENVIRONMENTS}/{kept}"));
    assert_eq!((doomed.status, text(&doomed.json(), "status")), (200, "destroying"));
    assert!(doomed.json()["last_error"].is_string());
    assert_eq!(http.get("/readyz").status, 200);

    enclosed.shell("umount \"$DIR/sandboxes\"");
    let made = create(&http, "refused").unwrap();
    assert_eq!(made.status, 201, "the name and the key are free");
    assert_nothing_lost(&enclosed, &http, &[text(&made.json(), "id").to_owned()]);
    assert_eq!(http.get(&format!("{ENVIRONMENTS}/{kept}")).json()["status"], "destroyed");
}

#[test]
fn a_data_directory_that_takes_no_writes_is_refused_at_the_start() {
    let Some(way) = namespace::way_in() else { return not_run("a read-only data directory", "no mount namespace can be made here") };
    let read_only = "mount --bind \"$DIR\" \"$DIR\" && mount -o remount,bind,ro \"$DIR\"";
    let used = {
        let mut server = Server::start();
        assert_eq!(server.terminate(), Some(0));
        server.directory()
    };
    for directory in [directory(), used] {
        let Err((status, stderr)) = namespace::start(&way, Arc::clone(&directory), read_only) else { panic!("it started") };
        assert_eq!(status, 1, "{stderr}");
        assert!(stderr.contains("Read-only") && stderr.contains("hint:"), "{stderr}");
        assert!(stderr.contains(&directory.path().display().to_string()), "it says which: {stderr}");
    }
}

#[test]
fn a_disk_that_is_full_at_the_start_is_said() {
    let Some(way) = namespace::way_in() else { return not_run("a disk that is full at the start", "no mount namespace can be made here") };
    let full = "mount -t tmpfs -o size=64k,mode=700 tmpfs \"$DIR\"";
    let Err((status, stderr)) = namespace::start(&way, directory(), full) else { panic!("it started in 64 KiB") };
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains("storage_full") && stderr.contains("hint:"), "{stderr}");
}
