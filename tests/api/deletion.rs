//! DELETE: from every state, with the final record as its answer and a tombstone that stays.

use serde_json::json;

use super::world::{ENVIRONMENTS, at, at_once, create, expect, names, on_both_stores, on_postgres, refused, text, walk};

#[test]
fn deleting_answers_with_the_final_record_and_keeps_the_tombstone() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let environment = create(&http, json!({ "name": "web", "tags": { "a": "1" }, "spec": { "env": { "A": "1" } } }));
        let place = server.path().join("sandboxes").join(text(&environment, "sandbox_id"));
        std::fs::write(place.join("workspace/file"), "work").unwrap();

        let last = expect(&http.delete(&at(&environment)), 200);
        assert_eq!((&last["status"], &last["cleanup_status"]), (&json!("destroyed"), &json!("succeeded")));
        for kept in ["id", "name", "tags", "spec", "spec_version", "created_at", "created_by", "provider_resource_id"] {
            assert_eq!(last[kept], environment[kept], "{kept}");
        }
        assert!(text(&last, "destroyed_at") > text(&environment, "created_at"));
        assert!(!place.exists(), "its files are gone");

        // Read again, deleted again, it is the same.
        assert_eq!(expect(&http.get(&at(&environment)), 200), last);
        assert_eq!(expect(&http.delete(&at(&environment)), 200), last);
        refused(&http.patch(&at(&environment), json!({ "name": "x" })), 409, "environment_destroyed");
        // A list hides it until it is asked for.
        assert_eq!(names(&walk(&http, ENVIRONMENTS, 10)), ["local-default"]);
        for query in ["include_destroyed=true", "status=destroyed"] {
            assert_eq!(names(&walk(&http, &format!("{ENVIRONMENTS}?{query}"), 10))[0], "web", "{query}");
        }
        // The next of that name is another one.
        let next = create(&http, json!({ "name": "web" }));
        expect(&http.delete(&at(&next)), 200);
        assert_eq!(names(&walk(&http, &format!("{ENVIRONMENTS}?status=destroyed"), 1)), ["web", "web"]);
        let deletions =
            walk(&http, &format!("/v1/projects/default/audit?action=environment.delete&target_id={}", text(&environment, "id")), 10);
        assert_eq!(deletions.len(), 1, "it was deleted once");
    });
}

#[test]
fn every_state_can_be_left_by_deleting() {
    // States that only later versions bring about are set behind the server's back.
    on_postgres(&[], |server, postgres| {
        let http = server.http();
        for state in ["provisioning", "ready", "running", "retained", "failed", "orphaned", "destroying", "destroyed"] {
            let environment = create(&http, json!({ "name": state }));
            let (id, sandbox) = (text(&environment, "id"), text(&environment, "sandbox_id"));
            let mut also = String::new();
            match state {
                "destroyed" => drop(expect(&http.delete(&at(&environment)), 200)),
                "orphaned" => {
                    std::fs::remove_dir_all(server.path().join("sandboxes").join(&sandbox)).unwrap();
                    also = format!("UPDATE sandboxes SET status = 'orphaned' WHERE id = '{sandbox}';");
                }
                "provisioning" => also = format!("UPDATE sandboxes SET status = 'provisioning' WHERE id = '{sandbox}';"),
                _ => {}
            }
            postgres.sql(&format!("BEGIN; {also} UPDATE environments SET status = '{state}' WHERE id = '{id}'; COMMIT"));
            let last = expect(&http.delete(&at(&environment)), 200);
            assert_eq!(last["status"], "destroyed", "from {state}: {last}");
            assert!(last["destroyed_at"].is_string() && !server.path().join("sandboxes").join(&sandbox).exists(), "from {state}");
            create(&http, json!({ "name": state }));
        }
    });
}

#[test]
fn of_many_deletions_at_once_all_are_told_the_same() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let environment = create(&http, json!({}));
        let replies = at_once(8, |_| expect(&http.delete(&at(&environment)), 200));
        assert!(replies.iter().all(|reply| reply["status"] == "destroyed"), "{replies:?}");
        // An edit and a deletion at once: the edit is before it or it is refused.
        let environment = create(&http, json!({}));
        let statuses = at_once(8, |number| match number {
            0 => http.delete(&at(&environment)).status,
            _ => http.patch(&at(&environment), json!({ "tags": { "n": number.to_string() } })).status,
        });
        assert_eq!(statuses[0], 200);
        assert!(statuses.iter().all(|status| matches!(status, 200 | 409)), "{statuses:?}");
        assert_eq!(expect(&http.get(&at(&environment)), 200)["status"], "destroyed");
    });
}
