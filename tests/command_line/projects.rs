//! `stead project …`, and `house`, which is the same.

use insta::assert_snapshot;

use super::desk::{Desk, told};

#[test]
fn a_project_is_made_chosen_and_deleted() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["project", "create", "acme", "--name", "Acme Works"]), @"
    exit code: 0
    --- stderr ---
    created project acme (prj_[ID])
    hint: use it from now on: stead project select acme
    ");
    assert_snapshot!(desk.run(&["house", "list"]), @"
    exit code: 0
    --- stdout ---
       HANDLE   NAME        ID
       acme     Acme Works  prj_[ID]
    *  default  default     prj_[ID]
    ");
    assert_snapshot!(desk.run(&["project", "select", "acme"]), @"
    exit code: 0
    --- stderr ---
    project acme is used from now on
    ");
    assert_snapshot!(desk.run(&["project", "list"]), @"
    exit code: 0
    --- stdout ---
       HANDLE   NAME        ID
    *  acme     Acme Works  prj_[ID]
       default  default     prj_[ID]
    ");
    assert_snapshot!(desk.run(&["env", "list"]), @"
    exit code: 0
    --- stderr ---
    no environments in project acme yet; make one: stead env create NAME
    ");
    desk.done(&["env", "create", "web"]);
    assert_snapshot!(desk.run(&["project", "delete", "acme"]), @"
    exit code: 2
    --- stderr ---
    error: this needs a yes, and there is no terminal to ask on: Delete project acme with all its environments and secrets? (usage)
    hint: say --yes to go ahead
    ");
    assert_snapshot!(desk.run(&["project", "delete", "acme", "--yes"]), @"
    exit code: 0
    --- stderr ---
    deleted project acme (prj_[ID])
    ");
    assert_snapshot!(desk.run(&["env", "list"]), @"
    exit code: 4
    --- stderr ---
    error: there is no project `acme` here (not_found)
    hint: `stead project list` shows the projects that you can see
    ");
    desk.done(&["house", "select", "default"]);
    desk.done(&["env", "list"]);
}

#[test]
fn a_project_that_cannot_be_is_refused() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["project", "create", "Acme_Works"]), @"
    exit code: 2
    --- stderr ---
    error: `handle`: must be 1 to 63 lower-case letters and digits, in groups joined by single dashes (invalid_field)
    ");
    assert_snapshot!(desk.run(&["project", "create", "default"]), @"
    exit code: 3
    --- stderr ---
    error: the handle `default` is taken (already_exists)
    hint: choose another handle; `stead project list` shows those that you can see
    ");
    assert_snapshot!(desk.run(&["project", "select", "nope"]), @"
    exit code: 4
    --- stderr ---
    error: there is no project `nope` here (not_found)
    hint: `stead project list` shows the projects that you can see
    ");
    assert_snapshot!(desk.run(&["project", "delete", "nope", "--yes"]), @"
    exit code: 4
    --- stderr ---
    error: there is no project `nope` here (not_found)
    hint: `stead project list` shows the projects that you can see
    ");
    assert_snapshot!(desk.run(&["env", "list", "-p", "../default"]), @"
    exit code: 2
    --- stderr ---
    error: the project `../default` from --project is not a handle (usage)
    hint: `handle`: must be 1 to 63 lower-case letters and digits, in groups joined by single dashes
    ");
}

#[test]
fn the_project_comes_from_the_flag_the_variable_the_directory_and_the_choice_in_that_order() {
    let desk = Desk::new();
    for handle in ["flag", "variable", "directory", "chosen"] {
        desk.done(&["project", "create", handle]);
    }
    let project = |arguments: &[&str], variable: Option<&str>| {
        let mut command = desk.command(&[arguments, &["config", "show", "--json"]].concat());
        if let Some(variable) = variable {
            command.env("STEAD_PROJECT", variable);
        }
        let shown: serde_json::Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        shown["project"]["value"].as_str().unwrap().to_owned()
    };
    assert_eq!(project(&[], None), "default");
    desk.done(&["project", "select", "chosen"]);
    assert_eq!(project(&[], None), "chosen");
    desk.write(".stead/config.toml", "project = 'directory'\n");
    assert_eq!(project(&[], None), "directory");
    assert_eq!(project(&[], Some("variable")), "variable");
    assert_eq!(project(&["-p", "flag"], Some("variable")), "flag");
    assert_eq!(project(&["--house", "flag"], Some("variable")), "flag");
    let chosen = desk.command(&["project", "select", "chosen"]).env("STEAD_PROJECT", "variable").output().unwrap();
    assert_snapshot!(told(&chosen), @"
    exit code: 0
    --- stderr ---
    project chosen is used from now on
    warning: here STEAD_PROJECT comes first and says variable
    ");
}

#[test]
fn a_directory_chooses_the_project_and_never_the_server() {
    let desk = Desk::new();
    desk.write(".stead/config.toml", "project = 'default'\nurl = 'http://127.0.0.1:1'\n");
    assert_snapshot!(desk.run(&["env", "list", "--quiet"]), @"
    exit code: 0
    --- stdout ---
    env_[ID]
    --- stderr ---
    warning: [WORK]/.stead/config.toml: `url` is not used: a directory's file may only choose the project
    ");
}

#[test]
fn members_come_change_and_go() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["project", "members", "add", "ada"]), @"
    exit code: 0
    --- stderr ---
    ada (prn_[ID]) is now member of project default
    hint: give it a key: stead key create NAME --for prn_[ID]
    ");
    assert_snapshot!(desk.run(&["project", "members", "add", "Build Bot", "--kind", "service", "--role", "viewer"]), @"
    exit code: 0
    --- stderr ---
    Build Bot (prn_[ID]) is now viewer of project default
    hint: give it a key: stead key create NAME --for prn_[ID]
    ");
    assert_snapshot!(desk.run(&["project", "members", "list"]), @"
    exit code: 0
    --- stdout ---
    NAME       ROLE    KIND     ID
    Build Bot  viewer  service  prn_[ID]
    ada        member  user     prn_[ID]
    olivia     owner   user     prn_[ID]
    ");
    assert_snapshot!(desk.run(&["project", "members", "role", "ada", "owner"]), @"
    exit code: 0
    --- stderr ---
    ada is now owner of project default
    ");
    assert_snapshot!(desk.run(&["project", "members", "remove", "build"]), @"
    exit code: 2
    --- stderr ---
    error: this needs a yes, and there is no terminal to ask on: Take Build Bot out of project default? (usage)
    hint: say --yes to go ahead
    ");
    assert_snapshot!(desk.run(&["project", "members", "rm", "build", "--yes"]), @"
    exit code: 0
    --- stderr ---
    Build Bot is no longer in project default
    ");
    assert_snapshot!(desk.run(&["project", "members", "list"]), @"
    exit code: 0
    --- stdout ---
    NAME    ROLE   KIND  ID
    ada     owner  user  prn_[ID]
    olivia  owner  user  prn_[ID]
    ");
    assert_snapshot!(desk.run(&["project", "members", "add", "ada", "--role", "king"]), @"
    exit code: 2
    --- stderr ---
    error: invalid value 'king' for '--role <ROLE>'
      [possible values: viewer, member, owner]

    For more information, try '--help'.
    ");
    assert_snapshot!(desk.run(&["project", "members", "add", "prn_00000000000000000000000000000000"]), @"
    exit code: 4
    --- stderr ---
    error: there is no member `prn_[ID]` here (not_found)
    hint: `stead project members list` shows them
    ");
}

#[test]
fn the_last_owner_stays() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["project", "members", "remove", "olivia", "--yes"]), @"
    exit code: 3
    --- stderr ---
    error: this is the project's last owner (last_owner)
    hint: make somebody else an owner first
    ");
    assert_snapshot!(desk.run(&["project", "members", "role", "olivia", "viewer"]), @"
    exit code: 3
    --- stderr ---
    error: this is the project's last owner (last_owner)
    hint: make somebody else an owner first
    ");
}
