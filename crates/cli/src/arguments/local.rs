//! What concerns this machine: the local server, profiles, completion, backups.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args, Debug)]
pub struct Init {
    /// Do not ask, and mount nothing
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct Down {
    /// Also stop what runs in environments
    #[arg(long)]
    pub all: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead login https://stead.example.org --key-file stead.key
  stead login https://stead.example.org --key-file - --profile work
  stead login https://10.0.0.5:7070 --key-file stead.key --ca-file cert.pem

The profile is used from then on; `--profile local` is the local server.")]
pub struct Login {
    /// The server's address
    #[arg(value_name = "URL")]
    pub address: String,
}

#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Show each setting and where it comes from
    Show,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  source <(stead completion bash)
  stead completion zsh > ~/.zfunc/_stead
  stead completion fish > ~/.config/fish/completions/stead.fish")]
pub struct Completion {
    /// The shell
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    pub shell: String,
}

/// Which store, when it is not the one that the data directory says.
#[derive(Args, Debug)]
pub struct Store {
    /// The server's configuration file
    #[arg(long, env = "STEAD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A PostgreSQL URL; without one the state is SQLite in the data directory
    #[arg(long, env = "STEAD_DATABASE", value_name = "URL", hide_env_values = true)]
    pub database: Option<String>,
}

#[derive(Args, Debug)]
pub struct Backup {
    /// The file to write; it must not exist
    pub file: PathBuf,
    #[command(flatten)]
    pub store: Store,
}

#[derive(Args, Debug)]
pub struct Restore {
    /// A file that `stead backup` wrote
    pub file: PathBuf,
    /// Also over a store that holds something
    #[arg(long)]
    pub replace: bool,
    #[command(flatten)]
    pub store: Store,
}
