//! `stead files …`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use stead_domain::files::parse_mode;

use super::environment::Reference;

const PATHS: &str =
    "Relative paths start at the workspace, absolute ones at the environment's root. An environment that sleeps is woken for it.";

#[derive(Subcommand, Debug)]
pub enum FilesCommand {
    /// List a directory
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Print a file
    Cat(Cat),
    /// Write a file, as a whole or not at all
    Put(Put),
    /// Remove files and directories
    Rm(Rm),
    /// Show what is there under a path
    Stat(Stat),
    /// Make a directory
    Mkdir(Mkdir),
    /// Move within an environment
    Mv(Transfer),
    /// Copy within an environment; `stead cp` copies in, out and between
    Cp(Transfer),
    /// Find files by their names
    Find(Find),
    /// Search files by their content
    Grep(Grep),
    /// Show what changes, as it happens
    Watch(Watch),
}

#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  stead files ls web
  stead files ls web src -r --quiet
  stead files ls web /etc --json

{PATHS}"))]
pub struct Ls {
    #[command(flatten)]
    pub reference: Reference,
    /// The directory; the workspace when it is left out
    #[arg(value_name = "PATH", default_value = ".")]
    pub path: OsString,
    /// Also what the directories in it hold
    #[arg(short, long)]
    pub recursive: bool,
    /// How many at most; all of them when it is left out
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}

#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  stead files cat web README.md
  stead files cat web build/app.tar.gz > app.tar.gz

On a terminal control sequences are shown and not obeyed; --raw leaves them as they are. {PATHS}"))]
pub struct Cat {
    #[command(flatten)]
    pub reference: Reference,
    #[arg(value_name = "PATH", help = "The file")]
    pub path: OsString,
    /// As it is, also on a terminal
    #[arg(long)]
    pub raw: bool,
}

#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  stead files put web notes.txt < notes.txt
  stead files put web bin/tool --file ./tool --mode 0755

{PATHS}"))]
pub struct Put {
    #[command(flatten)]
    pub reference: Reference,
    /// The file; directories that it lies in are made
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// What is written, `-` for stdin
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// Permissions in octal digits; those that it has, or 0644, when it is left out
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub mode: Option<u32>,
}

#[derive(Args, Debug)]
#[command(after_help = PATHS)]
pub struct Rm {
    #[command(flatten)]
    pub reference: Reference,
    /// What goes; of a link the link, and never what it leads to
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Directories with everything in them
    #[arg(short, long)]
    pub recursive: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
#[command(after_help = PATHS)]
pub struct Stat {
    #[command(flatten)]
    pub reference: Reference,
    /// A link is shown as a link
    #[arg(value_name = "PATH")]
    pub path: OsString,
}

#[derive(Args, Debug)]
#[command(after_help = PATHS)]
pub struct Mkdir {
    #[command(flatten)]
    pub reference: Reference,
    #[arg(value_name = "PATH", help = "The directory")]
    pub path: OsString,
    /// Also those that it lies in, and no error when it is there
    #[arg(long)]
    pub parents: bool,
    /// Permissions in octal digits
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub mode: Option<u32>,
}

#[derive(Args, Debug)]
#[command(after_help = PATHS)]
pub struct Transfer {
    #[command(flatten)]
    pub reference: Reference,
    #[arg(value_name = "FROM", help = "What there is")]
    pub from: OsString,
    #[arg(value_name = "TO", help = "The new path itself, and not a directory to put it in")]
    pub to: OsString,
    /// In place of what is there
    #[arg(short = 'f', long)]
    pub overwrite: bool,
}

#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  stead files find web '*.rs'
  stead files find web 'src/**/test_*.py' --quiet
  stead files find web Makefile /usr/share --all

A glob without `/` fits a name at any depth, any other one the path from PATH on. What is hidden, or named by ignore files, is left out \
unless --all is said. {PATHS}"))]
pub struct Find {
    #[command(flatten)]
    pub reference: Reference,
    #[arg(value_name = "GLOB", help = "Such as `*.rs`")]
    pub pattern: String,
    /// Where to begin
    #[arg(value_name = "PATH", default_value = ".")]
    pub path: OsString,
    /// Capital or small is the same
    #[arg(short, long)]
    pub ignore_case: bool,
    /// Also what is hidden or ignored
    #[arg(short, long)]
    pub all: bool,
    /// How many at most
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub limit: u64,
}

#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  stead files grep web 'fn main'
  stead files grep web -F 'a.b(c)' src -g '*.rs' -C 2
  stead files grep web TODO --quiet          only the files

It ends with 1 when nothing is found. Files that are no text are skipped, and so is what is hidden or named by ignore files unless --all is \
said. With --json each line of the API's answer is printed as it comes. {PATHS}"))]
pub struct Grep {
    #[command(flatten)]
    pub reference: Reference,
    #[arg(value_name = "PATTERN", help = "A regular expression")]
    pub pattern: String,
    /// Where to begin
    #[arg(value_name = "PATH", default_value = ".")]
    pub path: OsString,
    /// The pattern is a text as it is
    #[arg(short = 'F', long)]
    pub fixed: bool,
    /// Capital or small is the same
    #[arg(short, long)]
    pub ignore_case: bool,
    /// Only files that this fits
    #[arg(short, long = "glob", value_name = "GLOB")]
    pub globs: Vec<String>,
    /// Lines before and after each match
    #[arg(short = 'C', long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub context: u64,
    /// Also what is hidden or ignored
    #[arg(short, long)]
    pub all: bool,
    /// How many lines at most
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub limit: u64,
}

#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  stead files watch web
  stead files watch web src --json

When the server was gone meanwhile, or more happened than could be told, `overflow` says so. {PATHS}"))]
pub struct Watch {
    #[command(flatten)]
    pub reference: Reference,
    /// A directory or a file
    #[arg(value_name = "PATH", default_value = ".")]
    pub path: OsString,
    /// Only the directory itself, and none below
    #[arg(long)]
    pub shallow: bool,
}

fn mode(text: &str) -> Result<u32, String> {
    parse_mode(text).map_err(|_| "it should be octal digits such as 0644".to_owned())
}
