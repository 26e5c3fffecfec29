//! `stead checkpoint …` and `stead fork`.

use clap::{Args, Subcommand};

use super::environment::Reference;
use super::lists::ListArguments;
use crate::completion;

#[derive(Subcommand, Debug)]
pub enum CheckpointCommand {
    /// Seal the files of an environment as they are now
    Create(Create),
    /// List the checkpoints of an environment
    #[command(visible_alias = "ls")]
    List(List),
    /// Show one checkpoint
    #[command(aliases = ["show", "get"])]
    View(One),
    /// Show what differs between a checkpoint and another one, or what is there now
    Diff(Diff),
    /// Give an environment the files of a checkpoint
    Restore(Restore),
    /// Delete checkpoints
    #[command(visible_alias = "rm")]
    Delete(Delete),
    /// Draw which checkpoint came from which, forks included
    Tree(Reference),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead checkpoint create web
  stead checkpoint create web before-upgrade --stop
  stead checkpoint create web --freeze

The environment sleeps afterwards and wakes for its next command, unless something runs in it that --freeze lets go on.")]
pub struct Create {
    #[command(flatten)]
    pub reference: Reference,
    /// What to call it
    pub name: Option<String>,
    #[command(flatten)]
    pub running: Running,
    /// Do not wait until it is on the disk
    #[arg(long)]
    pub no_wait: bool,
}

/// What happens to what runs.
#[derive(Args, Debug)]
pub struct Running {
    /// End what runs in it
    #[arg(long)]
    pub stop: bool,
    /// Let what runs in it stand still for a moment; needs a data directory on XFS or Btrfs
    #[arg(long, conflicts_with = "stop")]
    pub freeze: bool,
}

#[derive(Args, Debug)]
pub struct List {
    #[command(flatten)]
    pub reference: Reference,
    #[command(flatten)]
    pub list: ListArguments,
}

#[derive(Args, Debug)]
pub struct One {
    #[command(flatten)]
    pub reference: Reference,
    /// Its name, its id, or a prefix of either that fits only one
    pub checkpoint: String,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead checkpoint diff web before-upgrade             names and sizes, compared with what is there now
  stead checkpoint diff web one two --text             also the lines that differ
  stead checkpoint diff web one --path src/main.rs")]
pub struct Diff {
    #[command(flatten)]
    pub which: One,
    /// Another checkpoint; what is there now when it is left out
    pub to: Option<String>,
    /// Also the lines that differ
    #[arg(short = 't', long)]
    pub text: bool,
    /// Only this file, with the lines that differ
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead checkpoint restore web before-upgrade
  stead checkpoint restore web ckp_0198 --save --yes

What runs in the environment is ended, and what was written since its last checkpoint goes, unless --save keeps it as another one.")]
pub struct Restore {
    #[command(flatten)]
    pub which: One,
    /// Make a checkpoint of what is there now, before it goes
    #[arg(long)]
    pub save: bool,
    /// Only if nothing runs in it
    #[arg(long)]
    pub unless_busy: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct Delete {
    #[command(flatten)]
    pub reference: Reference,
    /// Names, ids or prefixes that fit only one
    #[arg(value_name = "CHECKPOINT", required = true)]
    pub checkpoints: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead fork web                              one more with the files of web as they are now
  stead fork web -n 5 --name try              try-1 to try-5
  stead fork web --checkpoint before-upgrade --name old

A fork has the definition of the first one and an identity of its own; neither secrets nor a lease come along.")]
pub struct Fork {
    /// A name, an id, or a prefix of either that fits only one
    #[arg(value_name = "ENVIRONMENT", add = completion::environments())]
    pub environment: String,
    /// How many
    #[arg(short = 'n', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub count: u32,
    /// What to call it; of several, each gets a number after it
    #[arg(long)]
    pub name: Option<String>,
    /// Begin with this checkpoint, and not with what is there now
    #[arg(long, value_name = "CHECKPOINT")]
    pub checkpoint: Option<String>,
    #[command(flatten)]
    pub running: Running,
}
