//! The command line as types; what the commands do stands in `commands`.

pub mod changes;
pub mod checkout;
pub mod checkpoint;
pub mod copy;
pub mod egress;
pub mod environment;
pub mod files;
pub mod github;
pub mod identity;
pub mod lease;
pub mod lists;
pub mod local;
pub mod port;
pub mod process;
pub mod project;
#[cfg(test)]
mod reference;
pub mod sandbox;
pub mod secret;
pub mod system;
pub mod words;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::completion;
use crate::printer::Format;
use crate::server::ServeOptions;

const EXAMPLES: &str = "\
Examples:
  stead init                                  write .stead/environments/local-default.json
  stead run -- make test                      run a command on this directory, guarded
  stead env create web --repo acme/web        make an environment
  stead env list                              what there is
  stead doctor                                find out what is wrong";

/// Managed environments for agents and automations: places to work that are kept, shared and guarded
#[derive(Parser, Debug)]
#[command(name = "stead", version, after_help = EXAMPLES, arg_required_else_help = true, max_term_width = 120)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArguments,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Args, Clone, Debug, Default)]
pub struct GlobalArguments {
    /// The server's address, http://…, https://… or unix:/path (STEAD_URL); without one, the local server
    #[arg(long, global = true, value_name = "URL", help_heading = "Connection")]
    pub url: Option<String>,
    /// A file that holds the API key, `-` for stdin (the key itself in STEAD_API_KEY)
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub key_file: Option<PathBuf>,
    /// A file that holds the token of a lease, which is then presented (the token itself in STEAD_LEASE)
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub lease_token_file: Option<PathBuf>,
    /// A file of certificates, in PEM, to trust instead of the machine's (STEAD_CA_FILE)
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub ca_file: Option<PathBuf>,
    /// The project's handle (STEAD_PROJECT)
    #[arg(short, long, alias = "house", global = true, value_name = "HANDLE", help_heading = "Connection", add = completion::projects())]
    pub project: Option<String>,
    /// A profile that `stead login` wrote; `local` is the local server
    #[arg(long, global = true, value_name = "NAME", help_heading = "Connection")]
    pub profile: Option<String>,
    /// Where the local server keeps everything (STEAD_DATA_DIR)
    #[arg(long, global = true, value_name = "DIR", help_heading = "Connection")]
    pub data_dir: Option<PathBuf>,
    /// Never start the local server (STEAD_NO_START)
    #[arg(long, global = true, help_heading = "Connection")]
    pub no_start: bool,
    /// Print the API's own JSON
    #[arg(long, global = true, conflicts_with = "quiet", help_heading = "Output")]
    pub json: bool,
    /// Print ids and nothing else
    #[arg(long, global = true, help_heading = "Output")]
    pub quiet: bool,
    /// No colour (NO_COLOR)
    #[arg(long, global = true, help_heading = "Output")]
    pub no_color: bool,
}

impl GlobalArguments {
    pub fn format(&self) -> Format {
        match (self.json, self.quiet) {
            (true, _) => Format::Json,
            (_, true) => Format::Quiet,
            _ => Format::Human,
        }
    }
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the server
    Serve(Box<ServeOptions>),
    /// Write the definition `local-default` into this directory
    Init(local::Init),
    /// Start the local server if it does not run, and say where it is
    Up,
    /// Stop the local server; commands in environments go on
    Down(local::Down),
    /// Say whether the server runs, and where
    Status,
    /// Remember a server and a key for it
    Login(local::Login),
    /// Forget a profile and its key
    Logout,
    /// Run a command on this directory, in an environment of its own
    Run(process::Run),
    /// Run a command in an environment
    Exec(process::Exec),
    /// A terminal in an environment
    Shell(process::Shell),
    /// List the commands that run in environments
    Ps(process::Ps),
    /// Show what a command printed
    Logs(process::Logs),
    /// Send a signal to a command
    Kill(process::Kill),
    /// Come back to a command that goes on without you
    Attach(process::Attach),
    /// Watch environments and what runs in them
    Top(process::Top),
    /// Environments: places to work
    #[command(subcommand, visible_aliases = ["environment", "environments"])]
    Env(environment::EnvironmentCommand),
    /// Leases: who may change an environment, and who waits
    #[command(subcommand, visible_alias = "leases")]
    Lease(lease::LeaseCommand),
    /// Checkpoints: points in an environment's files to go back to
    #[command(subcommand, visible_alias = "checkpoints")]
    Checkpoint(checkpoint::CheckpointCommand),
    /// Make environments that begin with the files of another one
    Fork(checkpoint::Fork),
    /// Files of environments
    #[command(subcommand, alias = "file")]
    Files(files::FilesCommand),
    /// Copy files and directories into environments, out of them and between them
    Cp(copy::Cp),
    /// Ports of environments: what listens, and how it is reached
    #[command(subcommand, alias = "ports")]
    Port(port::PortCommand),
    /// Projects and who belongs to them
    #[command(subcommand, visible_alias = "house", alias = "projects")]
    Project(project::ProjectCommand),
    /// API keys
    #[command(subcommand, alias = "keys")]
    Key(identity::KeyCommand),
    /// Secrets: values by name, for environments
    #[command(subcommand, alias = "secrets")]
    Secret(secret::SecretCommand),
    /// Sandboxes: what stands behind environments
    #[command(subcommand, alias = "sandboxes")]
    Sandbox(sandbox::SandboxCommand),
    /// Providers: who makes sandboxes
    #[command(subcommand, alias = "providers")]
    Provider(sandbox::ProviderCommand),
    /// Who changed what
    Audit(system::Audit),
    /// Look for what is wrong here, and mend what can be mended
    Doctor(system::Doctor),
    /// The server's own affairs
    #[command(subcommand)]
    System(system::SystemCommand),
    /// Remove what the server has kept for long enough
    Prune(system::Prune),
    /// The settings that commands use
    #[command(subcommand)]
    Config(local::ConfigCommand),
    /// Print the completion script of a shell
    Completion(local::Completion),
    /// Send a request to the API as it is
    Http(system::Http),
    /// Write the server's state into one file
    Backup(local::Backup),
    /// Bring back what `stead backup` wrote
    Restore(local::Restore),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_flags_are_taken_on_either_side() {
        for line in [
            &["stead", "--data-dir", "/d", "--house", "acme", "env", "ls"][..],
            &["stead", "env", "list", "--data-dir", "/d", "-p", "acme"],
        ] {
            let cli = Cli::try_parse_from(line).unwrap();
            assert_eq!(cli.global.data_dir.as_deref(), Some("/d".as_ref()));
            assert_eq!(cli.global.project.as_deref(), Some("acme"));
        }
        for line in [&["stead", "--data-dir", "/d", "serve"], &["stead", "serve", "--data-dir", "/d"]] {
            let Command::Serve(options) = Cli::try_parse_from(line).unwrap().command else { panic!() };
            assert_eq!(options.data_dir.as_deref(), Some("/d".as_ref()), "{line:?}");
        }
    }
}
