//! `stead provider …` and `stead sandbox …`.

use insta::assert_snapshot;

use super::desk::Desk;
use crate::support::Server;

#[test]
fn providers_say_whether_they_can_be_used() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["provider", "list"]), @"
    exit code: 0
    --- stdout ---
    PROVIDER               CONFIGURED  NOTE
    local                  yes
    worker                 no          needs a worker that attaches it (`stead worker --attach DIR`)
    sprites                no          needs the project secret SPRITES_TOKEN
    daytona                no          needs DAYTONA_API_KEY and DAYTONA_API_URL in the server's environment
    docker                 no          needs the setting `docker_socket` of the server
    cloudflare_containers  no          needs the setting `provider_alias` of the server, because this version has no adapter of its own for it
    ");
    assert_snapshot!(desk.run(&["provider", "check", "local"]), @"
    exit code: 0
    --- stdout ---
    ok  local  directories below [DATA]/sandboxes can be made
    ");
    assert_snapshot!(desk.run(&["provider", "check", "docker"]), @"
    exit code: 1
    --- stdout ---
    fail  docker  provider `docker` is not configured on this server: it needs the setting `docker_socket` of the server
    ");
    assert_snapshot!(desk.run(&["provider", "check", "mars"]), @"
    exit code: 2
    --- stderr ---
    error: invalid value 'mars' for '<NAME>'
      [possible values: local, worker, sprites, daytona, docker, cloudflare_containers]

    For more information, try '--help'.
    ");
}

#[test]
fn one_provider_may_be_served_by_another() {
    let desk = Desk::beside(Server::builder().with(&["--provider-alias", "sprites=local"]));
    assert_snapshot!(desk.run(&["provider", "list"]), @"
    exit code: 0
    --- stdout ---
    PROVIDER               CONFIGURED  NOTE
    local                  yes
    worker                 no          needs a worker that attaches it (`stead worker --attach DIR`)
    sprites                yes         served by local
    daytona                no          needs DAYTONA_API_KEY and DAYTONA_API_URL in the server's environment
    docker                 no          needs the setting `docker_socket` of the server
    cloudflare_containers  no          needs the setting `provider_alias` of the server, because this version has no adapter of its own for it
    ");
    desk.done(&["env", "create", "web", "--provider", "sprites"]);
    let view = desk.done(&["env", "view", "web"]);
    assert!(view.contains("provider       sprites\nserved by      local\n"), "{view}");
}

#[test]
fn a_sandbox_is_shared_and_outlives_those_who_use_it() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["sandbox", "create"]), @"
    exit code: 0
    --- stdout ---
    id             sbx_[ID]
    status         ready
    provider       local
    resource       sbx_[ID]
    resource name  sandbox-[DIGITS]
    host           hst_[ID]
    fence          0
    observed       [TIME]
    created        [TIME]
    --- stderr ---
    hint: use it: stead env create NAME --sandbox sbx_[ID]
    ");
    let shared = desk.json(&["sandbox", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
    for name in ["one", "two"] {
        assert_eq!(desk.json(&["env", "create", name, "--sandbox", &shared])["sandbox_id"], shared.as_str());
    }
    assert_snapshot!(desk.run(&["sandbox", "list"]), @"
    exit code: 0
    --- stdout ---
    ID                                    STATUS  PROVIDER  MADE FOR                              AGE
    sbx_[ID]  ready   local                                           [AGE]
    sbx_[ID]  ready   local     env_[ID]  [AGE]
    ");
    assert_snapshot!(desk.run(&["sandbox", "delete", &shared, "--yes"]), @"
    exit code: 3
    --- stderr ---
    error: 2 live environments use sandbox `sbx_[ID]` (sandbox_in_use)
    hint: delete those first
    ");
    desk.done(&["env", "delete", "one", "two", "--yes"]);
    assert_snapshot!(desk.run(&["sandbox", "view", &shared]), @"
    exit code: 0
    --- stdout ---
    id             sbx_[ID]
    status         ready
    provider       local
    resource       sbx_[ID]
    resource name  sandbox-[DIGITS]
    host           hst_[ID]
    fence          0
    observed       [TIME]
    created        [TIME]
    ");
    assert_snapshot!(desk.run(&["sandbox", "delete", &shared]), @"
    exit code: 2
    --- stderr ---
    error: this needs a yes, and there is no terminal to ask on: Delete sandbox sbx_[ID] and everything in it? (usage)
    hint: say --yes to go ahead
    ");
    assert_snapshot!(desk.run(&["sandbox", "rm", &shared, "--yes"]), @"
    exit code: 0
    --- stderr ---
    deleted sandbox sbx_[ID]
    ");
    assert!(!desk.data().join("sandboxes").join(&shared).exists());
}

#[test]
fn a_sandbox_goes_with_the_environment_that_it_was_made_for() {
    let desk = Desk::new();
    let web = desk.json(&["env", "create", "web"]);
    let sandbox = web["sandbox_id"].as_str().unwrap();
    assert_eq!(desk.json(&["sandbox", "view", sandbox])["made_for"], web["id"]);
    desk.done(&["env", "delete", "web", "--yes"]);
    assert!(!desk.data().join("sandboxes").join(sandbox).exists());
}
