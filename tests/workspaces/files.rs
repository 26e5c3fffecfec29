//! Files of environments over HTTP, asleep and awake.

use std::fs;

use serde_json::{Value, json};

use super::{Home, can_run};
use crate::api::world::{ENVIRONMENTS, create, expect, refused, text};
use crate::support::{Http, Reply, Server};

fn spec() -> serde_json::Value {
    json!({"sandbox": {"network_access": "disabled"}})
}

fn put(http: &Http, path: &str, bytes: &[u8]) -> Reply {
    http.send("PUT", path, &[("Expect", "")], Some(bytes))
}

fn names(reply: &Reply) -> Vec<String> {
    expect(reply, 200)["items"].as_array().unwrap().iter().map(|item| item["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_written_is_read_asleep_and_awake() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "files", spec());
    let content: Vec<u8> = (0..900_000_u32).flat_map(|number| (number ^ 0xa5a5).to_le_bytes()).collect();
    // It sleeps, and is larger than any other body.
    let written = expect(&put(&home.http, &home.path("/files?path=deep/er/big.bin&mode=0755"), &content), 200);
    assert_eq!(written["size"], content.len());
    assert_eq!(
        home.works("sha256sum < deep/er/big.bin; stat -c %a deep/er/big.bin; id -un; stat -c %U deep/er/big.bin").lines().count(),
        4
    );
    assert_eq!(fs::read(home.directory("workspace").join("deep/er/big.bin")).unwrap(), content);
    expect(&home.http.post(&home.path("/sleep"), json!({})), 200);
    let whole = home.http.get(&home.path("/files?path=/workspace/deep/er/big.bin"));
    assert!(whole.status == 200 && whole.body == content);
    assert_eq!(whole.header("content-type"), Some("application/octet-stream"));
    assert_eq!(whole.header("content-disposition"), Some("attachment"));
    assert_eq!(whole.header("stead-file-mode"), Some("0755"));
    let tag = whole.header("etag").unwrap().to_owned();
    let path = home.path("/files?path=deep/er/big.bin");
    let ranged = |range: &str, tag: &str| home.http.send("GET", &path, &[("Range", range), ("If-Range", tag)], None);
    let part = ranged("bytes=1000-1999", &tag);
    assert_eq!((part.status, part.body.as_slice()), (206, &content[1000..2000]));
    assert_eq!(part.header("content-range").unwrap(), format!("bytes 1000-1999/{}", content.len()));
    assert_eq!(ranged("bytes=-5", &tag).body, content[content.len() - 5..]);
    refused(&ranged("bytes=99999999-", &tag), 416, "range_not_satisfiable");
    assert_eq!(ranged("bytes=0-0", "\"other\"").status, 200, "it is not what the caller had");
    // As published clients write.
    assert_eq!(put(&home.http, &home.path("/files"), json!({"path": "note.txt", "content": "hällo\n"}).to_string().as_bytes()).status, 204);
    assert_eq!(home.works("cat note.txt"), "hällo\n");
    // Written by a process, read at once.
    home.works("printf 'a\\0b' > raw; mkfifo pipe; ln -s /etc/shadow link");
    assert_eq!(home.http.get(&home.path("/files?path=raw")).body, b"a\0b");
    refused(&home.http.get(&home.path("/files?path=pipe")), 409, "not_a_file");
    refused(&home.http.get(&home.path("/files?path=link")), 404, "file_not_found");
    refused(&home.http.get(&home.path("/files?path=deep")), 409, "is_a_directory");
    refused(&put(&home.http, &home.path("/files?path=/usr/bin/x"), b"x"), 403, "file_denied");
    assert_eq!(names(&home.http.get(&home.path("/files/list"))), ["deep", "link", "note.txt", "pipe", "raw"]);
    let kept = expect(&home.http.get(&home.path("/files/stat?path=link")), 200);
    assert_eq!((kept["type"].as_str(), kept["target"].as_str()), (Some("symlink"), Some("/etc/shadow")));
}

#[test]
fn files_are_appended_moved_copied_and_removed() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "moves", spec());
    let append = |query: &str, bytes: &[u8]| home.http.send("PATCH", &home.path(&format!("/files?path=log{query}")), &[], Some(bytes));
    assert_eq!(expect(&append("&offset=0", b"one "), 200)["size"], 4);
    assert_eq!(expect(&append("&offset=4", b"two "), 200)["size"], 8);
    assert_eq!(expect(&append("&offset=4", b"two "), 200)["size"], 8, "sent again, written once");
    let wrong = append("&offset=99", b"late");
    refused(&wrong, 409, "wrong_offset");
    assert_eq!(wrong.json()["error"]["details"]["size"], 8);
    assert_eq!(expect(&append("", b"three"), 200)["size"], 13);
    assert_eq!(home.works("cat log"), "one two three");
    let post = |verb: &str, body: serde_json::Value| home.http.post(&home.path(&format!("/files/{verb}")), body);
    assert_eq!(post("mkdir", json!({"path": "a/b", "parents": true, "mode": "0700"})).status, 204);
    refused(&post("mkdir", json!({"path": "a"})), 409, "file_exists");
    assert_eq!(post("copy", json!({"from": "log", "to": "a/b/log"})).status, 204);
    assert_eq!(post("move", json!({"from": "a", "to": "c"})).status, 204);
    refused(&post("move", json!({"from": "a", "to": "c"})), 404, "file_not_found");
    refused(&post("copy", json!({"from": "log", "to": "c/b/log"})), 409, "file_exists");
    assert_eq!(post("copy", json!({"from": "log", "to": "c/b/log", "overwrite": true})).status, 204);
    // A reply that was lost: the same request again is told the same.
    let key = [("Idempotency-Key", "once")];
    let body = json!({"from": "log", "to": "moved"}).to_string();
    for _ in 0..2 {
        assert_eq!(home.http.send("POST", &home.path("/files/move"), &key, Some(body.as_bytes())).status, 204);
    }
    assert_eq!(names(&home.http.get(&home.path("/files/list?recursive=true"))), ["c", "c/b", "c/b/log", "moved"]);
    refused(&home.http.delete(&home.path("/files?path=c")), 409, "directory_not_empty");
    assert_eq!(home.http.delete(&home.path("/files?path=c&recursive=true")).status, 204);
    refused(&home.http.delete(&home.path("/files?path=.&recursive=true")), 403, "file_denied");
    assert_eq!(names(&home.http.get(&home.path("/files/list"))), ["moved"]);
    let audit = expect(&home.http.get("/v1/projects/default/audit?limit=50"), 200);
    let actions: Vec<&str> = audit["items"].as_array().unwrap().iter().filter_map(|item| item["action"].as_str()).collect();
    for action in ["environment.files.write", "environment.files.move", "environment.files.copy", "environment.files.remove"] {
        assert!(actions.contains(&action), "{action}: {actions:?}");
    }
    // With what came of it.
    let came_of = |action: &str| {
        let all = audit["items"].as_array().unwrap().iter().filter(|item| item["action"] == action);
        all.map(|item| (item["details"]["outcome"].clone(), item["details"]["error"].clone())).collect::<Vec<_>>()
    };
    let (done, missing) = ((json!("done"), Value::Null), (json!("failed"), json!("file_not_found")));
    assert_eq!(came_of("environment.files.move"), [done.clone(), missing, done]);
    assert!(came_of("environment.files.copy").contains(&(json!("failed"), json!("file_exists"))));
}

#[test]
fn a_repetition_finishes_what_a_killed_server_left() {
    let mut server = Server::start();
    if !can_run(&server) {
        return;
    }
    let made = create(&server.http(), json!({"name": "left", "spec": spec()}));
    let files = format!("{ENVIRONMENTS}/{}/files", text(&made, "id"));
    let workspace = server.path().join("sandboxes").join(text(&made, "sandbox_id")).join("workspace");
    fs::create_dir(workspace.join("from")).unwrap();
    for number in 0..2000 {
        fs::write(workspace.join(format!("from/{number}")), "text").unwrap();
    }
    for (verb, from, to) in [("copy", "from", "copied"), ("move", "copied", "moved")] {
        let body = json!({"from": from, "to": to}).to_string();
        let (http, path, sent) = (server.http(), format!("{files}/{verb}"), body.clone());
        let first = std::thread::spawn(move || {
            http.try_send("POST", &path, &[("content-type", "application/json"), ("idempotency-key", verb)], Some(sent.as_bytes())).is_ok()
        });
        // Killed in the middle, or before it can answer, if it is not faster than we look.
        while !workspace.join(to).exists() && !first.is_finished() {
            std::thread::yield_now();
        }
        server.kill();
        let _ = first.join();
        server = Server::builder().on(server.directory()).start();
        let keyed = [("content-type", "application/json"), ("idempotency-key", verb)];
        let again = server.http().send("POST", &format!("{files}/{verb}"), &keyed, Some(body.as_bytes()));
        assert_eq!(again.status, 204, "{verb}: {}", String::from_utf8_lossy(&again.body));
        assert_eq!(fs::read_dir(workspace.join(to)).unwrap().count(), 2000, "{verb}");
    }
    assert!(!workspace.join("copied").exists());
    expect(&server.http().delete(&format!("{ENVIRONMENTS}/{}", text(&made, "id"))), 200);
}

#[test]
fn lists_go_on_where_they_were_and_names_need_not_be_text() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "names", spec());
    home.works("mkdir d; for n in 1 2 3 4 5 6 7; do echo $n > d/$n; done; printf odd > \"$(printf 'n\\377\\n')\"");
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = expect(&home.http.get(&home.path(&format!("/files/list?recursive=true&limit=3&cursor={cursor}"))), 200);
        found.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found.len(), 9);
    let odd = found.last().unwrap()["path_bytes"].as_str().unwrap().to_owned();
    let read = home.http.get(&home.path(&format!("/files?path_bytes={odd}")));
    assert_eq!((read.status, read.body.as_slice()), (200, b"odd".as_slice()));
    let moved = json!({"from_bytes": odd, "to": "plain"});
    assert_eq!(home.http.post(&home.path("/files/move"), moved).status, 204);
    assert_eq!(home.works("cat plain"), "odd");
    for query in ["", "?path=", "?path=a%00b", "?path=a&path_bytes=61", "?path_bytes=6", "?path=a&mode=9", "?path=a&unknown=1"] {
        let reply = put(&home.http, &home.path(&format!("/files{query}")), b"{}");
        assert_eq!(reply.status, 400, "{query}: {}", reply.json());
    }
}

#[test]
fn a_body_that_is_cut_off_changes_nothing() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "cut", spec());
    expect(&put(&home.http, &home.path("/files?path=file"), b"before"), 200);
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 1000000\r\n\r\nonly this",
        home.path("/files?path=file"),
        server.owner_key()
    );
    let address = fs::read_to_string(server.path().join("address")).unwrap();
    let mut socket = std::net::TcpStream::connect(address.trim().trim_start_matches("http://")).unwrap();
    std::io::Write::write_all(&mut socket, head.as_bytes()).unwrap();
    let inside = || home.works("ls /proc | grep -c '^[0-9]'").trim().to_owned();
    crate::crashes::eventually("a process inside takes it", || (inside() == "5").then_some(()));
    drop(socket);
    assert_eq!(home.works("cat file"), "before");
    // Its process inside is gone, and so is what it had written.
    crate::crashes::eventually("nothing is left", || (names(&home.http.get(&home.path("/files/list"))) == ["file"]).then_some(()));
    crate::crashes::eventually("it has ended", || (inside() == "4").then_some(()));
}
