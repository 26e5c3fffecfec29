//! What a user may call a thing by.

use insta::assert_snapshot;

use super::desk::Desk;

#[test]
fn an_id_a_name_or_a_beginning_that_fits_one() {
    let desk = Desk::new();
    let id = desk.done(&["env", "create", "Web-Site", "--quiet"]).trim().to_owned();
    let digits = id.trim_start_matches("env_");
    // The seeded environment is older by more than a millisecond, so that so many digits differ.
    for reference in [&id, digits, &id[..30], &digits[..26], &id.to_uppercase()[..30], "Web-Site", "WEB-SITE", "web", "w"] {
        assert_eq!(desk.done(&["env", "view", reference, "--quiet"]).trim(), id, "{reference}");
    }
}

#[test]
fn a_whole_name_wins_over_a_beginning() {
    let desk = Desk::new();
    let web = desk.done(&["env", "create", "web", "--quiet"]);
    desk.done(&["env", "create", "web-two"]);
    assert_eq!(desk.done(&["env", "view", "WEB", "--quiet"]), web);
}

#[test]
fn more_than_one_is_an_error_with_the_candidates() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web-one"]);
    desk.done(&["env", "create", "web-two"]);
    assert_snapshot!(desk.run(&["env", "view", "web"]), @"
    exit code: 2
    --- stderr ---
    error: `web` fits more than one environment: web-two (env_[ID]), web-one (env_[ID]) (ambiguous)
    hint: give more of the id
    ");
    assert_snapshot!(desk.run(&["env", "view", "env_01"]), @"
    exit code: 2
    --- stderr ---
    error: `env_01` fits more than one environment: web-two (env_[ID]), web-one (env_[ID]), local-default (env_[ID]) (ambiguous)
    hint: give more of the id
    ");
    let error = desk.error(&["env", "delete", "web", "--yes"]);
    assert_eq!((error["code"].as_str(), error["details"]["candidates"].as_array().map(Vec::len)), (Some("ambiguous"), Some(2)));
    assert_eq!(desk.json(&["env", "list"])["items"].as_array().unwrap().len(), 3);
}

#[test]
fn those_of_owners_are_shown_and_found_too() {
    let desk = Desk::new();
    let body = r#"{"name":"mine","scope":"owner"}"#;
    desk.done(&["http", "POST", "environments", "-d", body]);
    assert_eq!(desk.json(&["env", "list"])["items"][0]["name"], "mine");
    for reference in ["mine", "mi"] {
        assert_eq!(desk.json(&["env", "view", reference])["scope"], "owner", "{reference}");
    }
    // The same name in the project itself makes it two.
    desk.done(&["env", "create", "mine"]);
    assert_eq!(desk.error(&["env", "view", "mine"])["code"], "ambiguous");
}

#[test]
fn what_is_not_there_is_said_with_where_to_look() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["env", "view", "nope"]), @"
    exit code: 4
    --- stderr ---
    error: there is no environment `nope` here (not_found)
    hint: `stead env list` shows what there is
    ");
    assert_snapshot!(desk.run(&["env", "view", "env_00000000000000000000000000000000"]), @"
    exit code: 4
    --- stderr ---
    error: there is no environment `env_[ID]` here (not_found)
    hint: `stead env list` shows those that are there
    ");
    assert_snapshot!(desk.run(&["key", "revoke", "nope", "--yes"]), @"
    exit code: 4
    --- stderr ---
    error: there is no key `nope` here (not_found)
    hint: `stead key list` shows what there is
    ");
    assert_snapshot!(desk.run(&["sandbox", "view", "nope"]), @"
    exit code: 4
    --- stderr ---
    error: there is no sandbox `nope` here (not_found)
    hint: `stead sandbox list` shows what there is
    ");
    assert_snapshot!(desk.run(&["project", "members", "role", "nope", "owner"]), @"
    exit code: 4
    --- stderr ---
    error: there is no member `nope` here (not_found)
    hint: `stead project members list` shows what there is
    ");
    // A path or a pattern is only a name that nothing has.
    for reference in ["../../etc/passwd", "%", "w*", "_", "env_"] {
        assert_eq!(desk.code(&["env", "view", reference]), 4, "{reference}");
    }
}

#[test]
fn members_keys_and_sandboxes_are_found_alike() {
    let desk = Desk::new();
    let bot = desk.done(&["project", "members", "add", "Build Bot", "--kind", "service", "--quiet"]).trim().to_owned();
    for reference in ["build bot", "BUILD", bot.as_str(), &bot[..30]] {
        assert_eq!(desk.done(&["project", "members", "role", reference, "viewer", "--quiet"]).trim(), bot, "{reference}");
    }
    desk.done(&["key", "create", "nightly", "--for", "build", "-o", "nightly.key"]);
    let sandbox = desk.done(&["sandbox", "create", "--quiet"]).trim().to_owned();
    for reference in [&sandbox, &sandbox[..30], sandbox.trim_start_matches("sbx_")] {
        assert_eq!(desk.done(&["sandbox", "view", reference, "--quiet"]).trim(), sandbox, "{reference}");
    }
    assert_eq!(desk.code(&["key", "revoke", "NIGHT", "--yes"]), 0);
}
