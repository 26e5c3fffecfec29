//! `delivery: file`: in memory, and in nothing that is kept or given away.

use serde_json::json;

use super::place::{OTHER, Place, VALUE, backwards, command, contains, nowhere, set_by_hand};
use crate::api::world::{expect, text};
use crate::support::Server;

#[test]
fn a_file_is_in_memory_and_follows_its_secret() {
    let server = Server::start();
    set_by_hand(&server, "TOKEN", VALUE);
    set_by_hand(&server, "CERT", OTHER);
    let place =
        Place::new(&server, json!([{ "name": "TOKEN", "delivery": "file" }, { "name": "CERT", "delivery": "file", "required": false }]));
    let look = "cd $STEAD_SECRETS_DIR && stat -f -c %T . && for name in *; do stat -c '%n %a' $name; rev $name; echo; done";
    assert_eq!(place.works(look), format!("tmpfs\nCERT 400\n{}\nTOKEN 400\n{}\n", backwards(OTHER), backwards(VALUE)));
    assert_eq!(place.works("cat $STEAD_SECRETS_DIR/TOKEN; echo ${TOKEN-none}"), "***TOKEN***none\n");
    nowhere(&server, &[VALUE, OTHER]);
    // Neither a change from inside nor one from outside gets there.
    assert_eq!(place.works("cd $STEAD_SECRETS_DIR; echo x 2>&1 > TOKEN | tail -c0; rm -f TOKEN 2>/dev/null; rev TOKEN"), backwards(VALUE));
    set_by_hand(&server, "TOKEN", "the-third-value");
    assert_eq!(place.works("rev $STEAD_SECRETS_DIR/TOKEN"), backwards("the-third-value"));
    command(&server, &["env", "unbind-secret", "web", "CERT"]);
    assert_eq!(place.works("ls $STEAD_SECRETS_DIR"), "TOKEN\n");
    command(&server, &["env", "unbind-secret", "web", "TOKEN"]);
    assert_eq!(place.works("ls -A /run/stead-secrets; echo ${STEAD_SECRETS_DIR-none}"), "none\n");
    nowhere(&server, &[VALUE, OTHER, "the-third-value"]);
    expect(&place.http.delete(&place.path("")), 200);
}

#[test]
fn no_file_is_in_an_archive_a_checkpoint_or_a_reply() {
    let server = Server::start();
    set_by_hand(&server, "TOKEN", VALUE);
    set_by_hand(&server, "PLAIN", OTHER);
    for policy in ["workspace", "system"] {
        let spec = json!({ "sandbox": { "network_access": "disabled", "package_policy": policy },
            "secret_bindings": [{ "name": "TOKEN", "delivery": "file" }, { "name": "PLAIN" }] });
        let made = server.http().post(crate::api::world::ENVIRONMENTS, json!({ "name": format!("of-{policy}"), "spec": spec }));
        if made.status != 201 {
            // This host cannot hold it, and says so.
            assert_eq!(made.code(), "posture_not_enforced");
            continue;
        }
        let place = Place { http: server.http(), id: text(&made.json(), "id") };
        assert_eq!(place.works("echo kept > kept; rev $STEAD_SECRETS_DIR/TOKEN"), backwards(VALUE));
        let process = place.begins(json!({ "argv": ["sh", "-c", "echo $$; exec sleep 600"] }));
        crate::leases::until("it runs", || !place.logs(&process).is_empty());
        let pid = place.logs(&process).trim().to_owned();
        for path in ["/run/stead-secrets/TOKEN".to_owned(), format!("/proc/{pid}/environ")] {
            let reply = place.http.get(&place.path(&format!("/files?path={path}")));
            assert!(reply.status >= 400 && !contains(&reply.body, VALUE) && !contains(&reply.body, OTHER), "{path}: {}", reply.status);
        }
        for path in ["", "?path=/run", "?path=/run/stead-secrets"] {
            let reply = place.http.get(&place.path(&format!("/files/archive{path}")));
            assert!(!contains(&reply.body, VALUE), "{path}");
        }
        let found = place.http.get(&place.path("/files/grep?pattern=s3cr3t&path=/run"));
        assert!(!contains(&found.body, "s3cr3t/V"), "{}", String::from_utf8_lossy(&found.body));
        let checkpoint = expect(&place.http.post(&place.path("/checkpoints"), json!({ "on_running": "stop" })), 201);
        nowhere(&server, &[VALUE, OTHER]);
        let forked = expect(&place.http.post(&place.path("/fork"), json!({ "checkpoint_id": text(&checkpoint, "id") })), 201);
        let fork = Place { http: server.http(), id: text(&forked["items"][0], "id") };
        assert_eq!(fork.works("cat kept"), "kept\n");
        nowhere(&server, &[VALUE, OTHER]);
        for one in [fork, place] {
            expect(&one.http.delete(&one.path("")), 200);
        }
    }
}
