//! `stead key …`.

use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;

use super::desk::Desk;

#[test]
fn a_key_is_alone_on_stdout_and_shown_once() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["key", "create", "laptop"]), @"
    exit code: 0
    --- stdout ---
    stk_[KEY]
    --- stderr ---
    key laptop (key_[ID]), shown only now:
    ");
    let key = desk.done(&["key", "create", "second"]);
    assert_snapshot!(desk.run(&["key", "list"]), @"
    exit code: 0
    --- stdout ---
    NAME    KEY          PRINCIPAL                             USED   EXPIRES  ID
    second  stk_[KEY]…  prn_[ID]  never  never    key_[ID]
    laptop  stk_[KEY]…  prn_[ID]  never  never    key_[ID]
    owner   stk_[KEY]…  prn_[ID]  never  never    key_[ID]
    ");
    for shown in [desk.done(&["key", "list", "--json"]), desk.done(&["audit", "--json"]), desk.server().log()] {
        assert!(!shown.contains(key.trim()), "a key is told once");
    }
    let created = desk.json(&["key", "create", "third"]);
    assert!(created["key"].as_str().unwrap().starts_with(created["key_prefix"].as_str().unwrap()));
}

#[test]
fn a_key_in_a_file_is_readable_by_its_user_alone() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["key", "create", "laptop", "-o", "laptop.key"]), @"
    exit code: 0
    --- stderr ---
    wrote key laptop (key_[ID]) to laptop.key
    ");
    assert_eq!(std::fs::metadata(desk.work().join("laptop.key")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_snapshot!(desk.run(&["key", "create", "again", "-o", "laptop.key"]), @"
    exit code: 3
    --- stderr ---
    error: laptop.key is there already (already_exists)
    hint: choose another file
    ");
    assert_eq!(desk.json(&["key", "list"])["items"].as_array().unwrap().len(), 2, "no key is made that cannot be written down");
    let address = desk.server().address.clone();
    desk.done(&["--url", &address, "--key-file", "laptop.key", "env", "list"]);
    // The use is noted behind the reply.
    while desk.json(&["key", "list"])["items"][0].get("last_used_at").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_key_of_somebody_else_ends_by_its_time_or_by_revocation() {
    let desk = Desk::new();
    desk.done(&["project", "members", "add", "ci-bot", "--kind", "service"]);
    desk.done(&["key", "create", "nightly", "--for", "ci-bot", "--expires", "720h", "-o", "nightly.key"]);
    let address = desk.server().address.clone();
    let list = |expected: i32| assert_eq!(desk.code(&["--url", &address, "--key-file", "nightly.key", "env", "list"]), expected);
    list(0);
    assert_snapshot!(desk.run(&["key", "revoke", "nightly"]), @"
    exit code: 2
    --- stderr ---
    error: this needs a yes, and there is no terminal to ask on: Revoke key nightly (stk_[KEY]…)? (usage)
    hint: say --yes to go ahead
    ");
    assert_snapshot!(desk.run(&["key", "revoke", "nightly", "--yes"]), @"
    exit code: 0
    --- stderr ---
    revoked key nightly (key_[ID])
    ");
    list(5);
    assert_snapshot!(desk.run(&["--url", &address, "--key-file", "nightly.key", "env", "list"]), @"
    exit code: 5
    --- stderr ---
    error: the API key was revoked (unauthorized)
    hint: send `Authorization: Bearer stk_…`; `stead login URL --key-file FILE` keeps a key, `stead key create` makes one
    ");
    let long = desk.json(&["key", "create", "long", "--expires", "90d"]);
    let time = |field: &str| long[field].as_str().unwrap_or_else(|| panic!("{long}")).parse::<stead_domain::Timestamp>().unwrap();
    let days = time("expires_at").since(time("created_at")).as_secs_f64() / 86_400.0;
    assert!((89.9..90.1).contains(&days), "{long}");
    assert_snapshot!(desk.run(&["key", "create", "brief", "--expires", "soon"]), @"
    exit code: 2
    --- stderr ---
    error: invalid value 'soon' for '--expires <DURATION>': `soon` is not a duration such as 90d, 12h or 1h30m

    For more information, try '--help'.
    ");
    assert_snapshot!(desk.run(&["key", "create", "lost", "--for", "nobody"]), @"
    exit code: 4
    --- stderr ---
    error: there is no member `nobody` here (not_found)
    hint: `stead project members list` shows what there is
    ");
}
