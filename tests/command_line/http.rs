//! `stead http`, the API as it is.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::desk::Desk;

#[test]
fn a_path_without_a_slash_is_below_the_project() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["http", "GET", "/healthz"]), @"
    exit code: 0
    --- stdout ---
    ok(no newline)
    ");
    for path in ["environments", "/v1/projects/default/environments", "/v1/projects/{project}/environments"] {
        let page: Value = serde_json::from_str(&desk.done(&["http", "get", path])).unwrap();
        assert_eq!(page, desk.json(&["env", "list"]), "{path}");
    }
}

#[test]
fn bodies_come_from_the_line_a_file_or_stdin() {
    let desk = Desk::new();
    let one: Value = serde_json::from_str(&desk.done(&["http", "POST", "environments", "-d", r#"{"name": "one"}"#])).unwrap();
    desk.write("two.json", r#"{"name": "two"}"#);
    desk.done(&["http", "POST", "environments", "-d", "@two.json"]);
    assert!(desk.run_fed(&["http", "POST", "environments", "-d", "@-"], r#"{"name": "three"}"#).starts_with("exit code: 0"));
    assert_eq!(desk.json(&["env", "list"])["items"].as_array().unwrap().len(), 4);
    let path = format!("environments/{}", one["id"].as_str().unwrap());
    let patch = json!({ "tags": { "team": "core" } }).to_string();
    desk.done(&["http", "PATCH", &path, "-d", &patch, "-H", "If-Match: \"1\""]);
    assert_eq!(desk.code(&["http", "PATCH", &path, "-d", &patch, "-H", "If-Match: \"1\""]), 3, "another version by now");
    assert_snapshot!(desk.run(&["http", "POST", "environments", "-d", "@none.json"]), @"
    exit code: 1
    --- stderr ---
    error: cannot read none.json: No such file or directory (os error 2) (local_file)
    ");
}

#[test]
fn an_error_is_the_servers_own_and_decides_the_exit_code() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["http", "GET", "environments/env_00000000000000000000000000000000"]), @r#"
    exit code: 4
    --- stdout ---
    {"error":{"code":"not_found","message":"there is no environment `env_[ID]` here","details":{"suggestion":"`stead env list` shows those that are there","recoverable":false,"request_id":"req_[ID]"}}}(no newline)
    --- stderr ---
    the server answered with status 404
    "#);
    assert_snapshot!(desk.run(&["http", "GET", "/nowhere"]), @r#"
    exit code: 4
    --- stdout ---
    {"error":{"code":"not_found","message":"there is nothing at `/nowhere`","details":{"suggestion":"see /docs/ for the routes that there are","recoverable":false,"request_id":"req_[ID]"}}}(no newline)
    --- stderr ---
    the server answered with status 404
    "#);
    assert_snapshot!(desk.run(&["http", "POST", "environments", "-d", "{"]), @r#"
    exit code: 2
    --- stdout ---
    {"error":{"code":"malformed_json","message":"not valid JSON: EOF while parsing an object at line 1, column 1","details":{"line":1,"column":1,"suggestion":"check the JSON text at that position","recoverable":false,"request_id":"req_[ID]"}}}(no newline)
    --- stderr ---
    the server answered with status 400
    "#);
    assert_snapshot!(desk.run(&["http", "FETCH", "environments"]), @"
    exit code: 2
    --- stderr ---
    error: `FETCH` is not a method; it should be GET, POST, PUT, PATCH or DELETE (usage)
    ");
    assert_snapshot!(desk.run(&["http", "GET", "environments", "-H", "nonsense"]), @"
    exit code: 2
    --- stderr ---
    error: `nonsense` is not a header (usage)
    hint: write it as -H 'Name: value'
    ");
}
