//! `stead secret …`, and which secrets environments use.

use insta::assert_snapshot;

use super::desk::{Desk, told};
use super::terminal::Screen;

const VALUE: &str = "correct-horse-battery-staple";

#[test]
fn a_value_comes_from_stdin_or_a_file_and_never_from_an_argument() {
    let desk = Desk::new();
    assert_snapshot!(desk.run_fed(&["secret", "set", "API_KEY"], &format!("{VALUE}\n")), @"
    exit code: 0
    --- stderr ---
    set API_KEY (version 1); processes that begin from now on get it where it is bound
    hint: let an environment use it: stead env bind-secret ENVIRONMENT API_KEY
    ");
    // One newline at the end is none of the value's, and another one is.
    assert_snapshot!(desk.run_fed(&["secret", "set", "API_KEY"], VALUE), @"
    exit code: 0
    --- stderr ---
    API_KEY had this value already (version 1)
    ");
    assert_snapshot!(desk.run_fed(&["secret", "set", "API_KEY"], &format!("{VALUE}\n\n")), @"
    exit code: 0
    --- stderr ---
    warning: the value of API_KEY begins or ends with white space, which is kept
    set API_KEY (version 2); processes that begin from now on get it where it is bound
    ");
    // A file is taken as it is.
    desk.write("value", &format!("{VALUE}\n\n"));
    assert_snapshot!(desk.run(&["secret", "set", "API_KEY", "--file", "value"]), @"
    exit code: 0
    --- stderr ---
    warning: the value of API_KEY begins or ends with white space, which is kept
    set API_KEY (version 3); processes that begin from now on get it where it is bound
    ");
    assert_snapshot!(desk.run(&["secret", "set", "API_KEY", VALUE]), @"
    exit code: 2
    --- stderr ---
    error: a value is never an argument: everybody on the machine sees arguments, and shells keep them (usage)
    hint: pipe it in, say --file FILE, or type it: stead secret set API_KEY
    ");
    assert!(!desk.run(&["secret", "set", "API_KEY", "--", VALUE, "more"]).contains(VALUE));
    assert_snapshot!(desk.run(&["secret", "set", "API_KEY"]), @"
    exit code: 2
    --- stderr ---
    error: `value`: is empty (invalid_field)
    hint: delete the secret to have none
    ");
    assert_snapshot!(desk.run_fed(&["secret", "set", "api-key"], VALUE), @"
    exit code: 2
    --- stderr ---
    error: `name`: must be upper-case letters, digits and underscores, not begin with a digit, and have at most 128 characters (invalid_field)
    hint: a secret is named as a variable is, such as OPENAI_API_KEY
    ");
    assert_snapshot!(desk.run(&["secret", "set", "API_KEY", "--file", "nowhere"]), @"
    exit code: 1
    --- stderr ---
    error: nowhere cannot be read: No such file or directory (os error 2) (local_file)
    hint: check the path
    ");
    assert_snapshot!(desk.run_fed(&["secret", "set", "SPRITES_TOKEN"], VALUE), @"
    exit code: 0
    --- stderr ---
    warning: SPRITES_TOKEN controls a provider: the server uses it, and it can never be bound to an environment
    set SPRITES_TOKEN (version 1)
    ");
}

#[test]
fn names_versions_and_who_are_listed() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["secret", "list"]), @"
    exit code: 0
    --- stderr ---
    no secrets in this project; set one: stead secret set NAME
    ");
    for value in ["first-value-of-it", "second-value-of-it"] {
        desk.run_fed(&["secret", "set", "API_KEY"], value);
    }
    assert_snapshot!(desk.run(&["secret", "list"]), @"
    exit code: 0
    --- stdout ---
    NAME     VERSION  SET BY  SET
    API_KEY  2        olivia  [AGE] ago
    ");
    assert_snapshot!(desk.run(&["secret", "history", "API_KEY"]), @"
    exit code: 0
    --- stdout ---
    VERSION  SET BY  SET
    2        olivia  [AGE] ago  in use
    1        olivia  [AGE] ago
    ");
    assert_snapshot!(desk.run(&["secret", "delete", "API_KEY"]), @"
    exit code: 2
    --- stderr ---
    error: this needs a yes, and there is no terminal to ask on: Delete secret API_KEY? Environments that require it start nothing without it. (usage)
    hint: say --yes to go ahead
    ");
    assert_snapshot!(desk.run(&["secret", "delete", "API_KEY", "--yes"]), @"
    exit code: 0
    --- stderr ---
    deleted secret API_KEY
    ");
    assert_snapshot!(desk.run(&["secret", "history", "API_KEY"]), @"
    exit code: 4
    --- stderr ---
    error: there is no secret `API_KEY` here (not_found)
    hint: `stead secret list` shows those of the project
    ");
    let shown = [desk.done(&["secret", "list", "--json"]), desk.done(&["audit", "--json"]), desk.server().log()].concat();
    assert!(!shown.contains("value-of-it"), "{shown}");
    let rotated = desk.run(&["secret", "rotate-key", "--yes"]);
    assert!(rotated.contains("exit code: 0") && rotated.contains("0 secrets were wrapped anew"), "{rotated}");
}

#[test]
fn a_value_is_typed_unseen() {
    let desk = Desk::new();
    let mut screen = Screen::open(&desk.command(&["secret", "set", "API_KEY"]));
    screen.wait_for("API_KEY (not shown)");
    // Until the terminal shows nothing, what is typed would be seen.
    std::thread::sleep(std::time::Duration::from_millis(500));
    screen.type_keys(&format!("{VALUE}\r"));
    screen.wait_for("set API_KEY (version 1)");
    assert_eq!(screen.child.wait().unwrap().code(), Some(0));
    assert!(!screen.seen.contains(VALUE), "{}", screen.seen);
    assert!(desk.run_fed(&["secret", "set", "API_KEY"], VALUE).contains("had this value already"));
}

#[test]
fn a_binding_is_made_changed_and_undone() {
    let desk = Desk::new();
    desk.done(&[
        "env",
        "create",
        "web",
        "--secret",
        "A",
        "--optional-secret",
        "B",
        "--secret",
        "C",
        "--repo",
        "acme/web",
        "--repo",
        "acme/lib",
    ]);
    let bindings = || desk.json(&["env", "view", "web"])["spec"]["secret_bindings"].clone();
    let repos = desk.json(&["env", "view", "web"])["spec"]["repos"].clone();
    assert_eq!((repos["default"].as_str(), repos["allowed"].as_array().unwrap().len()), (Some("acme/web"), 2));
    let names = |required: bool| {
        let bindings = bindings();
        let found = bindings.as_array().unwrap().iter().filter(|binding| binding["required"] == required);
        found.map(|binding| binding["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((names(true), names(false)), (vec!["A".to_owned(), "C".to_owned()], vec!["B".to_owned()]));
    assert!(desk.done(&["env", "view", "web"]).contains("A, C, B (optional)"));
    let version = || desk.json(&["env", "view", "web"])["spec_version"].as_u64().unwrap();
    let first = version();
    assert_snapshot!(desk.run(&["env", "bind-secret", "web", "A"]), @"
    exit code: 0
    --- stderr ---
    web uses A already, in that way
    ");
    assert_eq!(version(), first, "the same again changes nothing");
    let bound = told(&desk.output(&["env", "bind-secret", "web", "A", "--optional"]));
    assert!(bound.contains("warning: A is not set in this project yet: stead secret set A"), "{bound}");
    desk.done(&["env", "bind-secret", "web", "B"]);
    assert_eq!((names(true), names(false)), (vec!["C".to_owned(), "B".to_owned()], vec!["A".to_owned()]));
    desk.done(&["env", "unbind-secret", "web", "C"]);
    assert_eq!(names(true), ["B"]);
    assert_snapshot!(desk.run(&["env", "unbind-secret", "web", "C"]), @"
    exit code: 4
    --- stderr ---
    error: web does not use C (not_found)
    hint: `stead env view web` shows which secrets it uses
    ");
    assert_snapshot!(desk.run(&["env", "bind-secret", "web", "SPRITES_TOKEN"]), @"
    exit code: 2
    --- stderr ---
    error: `spec.secret_bindings[2].name`: `SPRITES_TOKEN` controls a provider and can never be bound (invalid_field)
    ");
    // A definition file can bind as little.
    desk.write(".stead/environments/bad.json", r#"{"id": "bad", "secret_bindings": [{"name": "DAYTONA_API_KEY"}]}"#);
    let refused = desk.run(&["env", "apply", "-f", ".stead/environments/bad.json"]);
    assert!(!refused.contains("exit code: 0") && refused.contains("DAYTONA_API_KEY"), "{refused}");
}

#[test]
fn what_is_optional_and_missing_is_a_warning_once() {
    let desk = Desk::new();
    desk.run_fed(&["secret", "set", "A"], VALUE);
    desk.done(&["env", "create", "web", "--secret", "A", "--optional-secret", "B"]);
    assert_snapshot!(desk.run(&["exec", "web", "--", "sh", "-c", "echo ${#A} ${B-unset}"]), @"
    exit code: 0
    --- stdout ---
    28 unset
    --- stderr ---
    warning: the optional secret B is not set
    ");
    desk.done(&["secret", "delete", "A", "--yes"]);
    assert_snapshot!(desk.run(&["exec", "web", "--", "true"]), @"
    exit code: 125
    --- stderr ---
    error: the secret A is required and not set (secret_missing)
    hint: set it: `stead secret set A`; or let it be optional: `stead env bind-secret ENVIRONMENT A --optional`
    ");
}
