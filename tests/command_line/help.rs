//! Help and what is not understood. Every help text stands in `docs/cli.md`, which a test keeps current.

use insta::assert_snapshot;

use super::desk::Desk;

#[test]
fn help_goes_to_stdout_and_names_every_command() {
    let desk = Desk::alone();
    assert_snapshot!(desk.run(&["--help"]), @"
    exit code: 0
    --- stdout ---
    Managed environments for agents and automations: places to work that are kept, shared and guarded

    Usage: stead [OPTIONS] <COMMAND>

    Commands:
      serve       Run the server
      init        Write the definition `local-default` into this directory
      up          Start the local server if it does not run, and say where it is
      down        Stop the local server; commands in environments go on
      status      Say whether the server runs, and where
      login       Remember a server and a key for it
      logout      Forget a profile and its key
      run         Run a command on this directory, in an environment of its own
      exec        Run a command in an environment
      shell       A terminal in an environment
      ps          List the commands that run in environments
      logs        Show what a command printed
      kill        Send a signal to a command
      attach      Come back to a command that goes on without you
      top         Watch environments and what runs in them
      env         Environments: places to work [aliases: environment, environments]
      lease       Leases: who may change an environment, and who waits [alias: leases]
      checkpoint  Checkpoints: points in an environment's files to go back to [alias: checkpoints]
      fork        Make environments that begin with the files of another one
      files       Files of environments
      cp          Copy files and directories into environments, out of them and between them
      port        Ports of environments: what listens, and how it is reached
      project     Projects and who belongs to them [alias: house]
      key         API keys
      secret      Secrets: values by name, for environments
      sandbox     Sandboxes: what stands behind environments
      provider    Providers: who makes sandboxes
      audit       Who changed what
      doctor      Look for what is wrong here, and mend what can be mended
      system      The server's own affairs
      prune       Remove what the server has kept for long enough
      config      The settings that commands use
      completion  Print the completion script of a shell
      http        Send a request to the API as it is
      backup      Write the server's state into one file
      restore     Bring back what `stead backup` wrote
      help        Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Connection:
          --url <URL>                The server's address, http://…, https://… or unix:/path
                                     (STEAD_URL); without one, the local server
          --key-file <FILE>          A file that holds the API key, `-` for stdin (the key itself in
                                     STEAD_API_KEY)
          --lease-token-file <FILE>  A file that holds the token of a lease, which is then presented
                                     (the token itself in STEAD_LEASE)
          --ca-file <FILE>           A file of certificates, in PEM, to trust instead of the machine's
                                     (STEAD_CA_FILE)
      -p, --project <HANDLE>         The project's handle (STEAD_PROJECT)
          --profile <NAME>           A profile that `stead login` wrote; `local` is the local server
          --data-dir <DIR>           Where the local server keeps everything (STEAD_DATA_DIR)
          --no-start                 Never start the local server (STEAD_NO_START)

    Output:
          --json      Print the API's own JSON
          --quiet     Print ids and nothing else
          --no-color  No colour (NO_COLOR)

    Examples:
      stead init                                  write .stead/environments/local-default.json
      stead run -- make test                      run a command on this directory, guarded
      stead env create web --repo acme/web        make an environment
      stead env list                              what there is
      stead doctor                                find out what is wrong
    ");
    assert_snapshot!(desk.run(&["--version"]), @"
    exit code: 0
    --- stdout ---
    stead [VERSION]
    ");
}

#[test]
fn a_command_has_help_with_examples() {
    let desk = Desk::alone();
    assert_snapshot!(desk.run(&["env", "apply", "--help"]), @"
    exit code: 0
    --- stdout ---
    Create or update environments from definition files

    Usage: stead env apply [OPTIONS] --file <FILE|DIR>

    Options:
      -f, --file <FILE|DIR>   A definition file, or a directory of them
          --allow-unenforced  Accept a posture that the provider does not enforce
      -h, --help              Print help

    Connection:
          --url <URL>                The server's address, http://…, https://… or unix:/path
                                     (STEAD_URL); without one, the local server
          --key-file <FILE>          A file that holds the API key, `-` for stdin (the key itself in
                                     STEAD_API_KEY)
          --lease-token-file <FILE>  A file that holds the token of a lease, which is then presented
                                     (the token itself in STEAD_LEASE)
          --ca-file <FILE>           A file of certificates, in PEM, to trust instead of the machine's
                                     (STEAD_CA_FILE)
      -p, --project <HANDLE>         The project's handle (STEAD_PROJECT)
          --profile <NAME>           A profile that `stead login` wrote; `local` is the local server
          --data-dir <DIR>           Where the local server keeps everything (STEAD_DATA_DIR)
          --no-start                 Never start the local server (STEAD_NO_START)

    Output:
          --json      Print the API's own JSON
          --quiet     Print ids and nothing else
          --no-color  No colour (NO_COLOR)

    Examples:
      stead env apply -f .stead/environments/web.json
      stead env apply -f .stead/environments
      stead env apply -f .

    Every file is read and checked before the first is applied. One that then fails keeps none of the
    others from being applied.
    ");
}

#[test]
fn nouns_are_taken_as_people_say_them() {
    let desk = Desk::new();
    for words in [
        &["environments", "ls"][..],
        &["environment", "list"],
        &["projects", "ls"],
        &["keys", "ls"],
        &["leases", "ls"],
        &["sandboxes", "ls"],
        &["providers", "ls"],
    ] {
        assert_eq!(desk.code(words), 0, "{words:?}");
    }
}

#[test]
fn nothing_to_do_is_a_usage_error() {
    let desk = Desk::alone();
    let output = desk.output(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty() && String::from_utf8_lossy(&output.stderr).contains("Usage: stead"));
}

#[test]
fn what_is_not_understood_is_named() {
    let desk = Desk::alone();
    assert_snapshot!(desk.run(&["env", "creat", "web"]), @"
    exit code: 2
    --- stderr ---
    error: unrecognized subcommand 'creat'

      tip: a similar subcommand exists: 'create'

    Usage: stead env [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(desk.run(&["enviroments", "list"]), @"
    exit code: 2
    --- stderr ---
    error: unrecognized subcommand 'enviroments'

      tip: some similar subcommands exist: 'secrets', 'env', 'environment', 'environments'

    Usage: stead [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(desk.run(&["env", "list", "--statu", "ready"]), @"
    exit code: 2
    --- stderr ---
    error: unexpected argument '--statu' found

      tip: a similar argument exists: '--status'

    Usage: stead env list --status <STATUS>

    For more information, try '--help'.
    ");
    assert_snapshot!(desk.run(&["env", "create"]), @"
    exit code: 2
    --- stderr ---
    error: the following required arguments were not provided:
      <NAME>

    Usage: stead env create <NAME>

    For more information, try '--help'.
    ");
    assert_snapshot!(desk.run(&["env", "list", "--status", "sleeping"]), @"
    exit code: 2
    --- stderr ---
    error: invalid value 'sleeping' for '--status <STATUS>'
      [possible values: provisioning, ready, running, retained, failed, orphaned, destroying, destroyed]

    For more information, try '--help'.
    ");
    assert_snapshot!(desk.run(&["env", "list", "--limit", "201"]), @"
    exit code: 2
    --- stderr ---
    error: invalid value '201' for '--limit <NUMBER>': 201 is not in 1..=200

    For more information, try '--help'.
    ");
    assert_snapshot!(desk.run(&["env", "list", "--json", "--quiet"]), @r#"
    exit code: 2
    --- stderr ---
    {"error":{"code":"usage","message":"the argument '--json' cannot be used with '--quiet'","details":{"suggestion":"stead --help","recoverable":false}}}
    "#);
    assert!(!desk.data().exists(), "a usage error starts no server");
}
