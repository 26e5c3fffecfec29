//! `stead env setup|changes|keep|drop`.

use std::ffi::OsString;

use clap::Args;

use super::environment::Reference;
use super::lists::ListArguments;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead env changes web
  stead env changes web src docs
  stead env keep web src && stead env drop web

With `workspace_access: cow` what is written inside stays beside the workspace until it is kept or dropped.")]
pub struct Changes {
    #[command(flatten)]
    pub reference: Reference,
    /// Only these and what lies below them, from the workspace on
    #[arg(value_name = "PATH")]
    pub paths: Vec<String>,
    #[command(flatten)]
    pub list: ListArguments,
}

#[derive(Args, Debug)]
pub struct Setup {
    #[command(flatten)]
    pub reference: Reference,
    /// Also when it has run for this version of the definition
    #[arg(long)]
    pub again: bool,
}

#[derive(Args, Debug)]
pub struct Keep {
    #[command(flatten)]
    pub reference: Reference,
    /// Only these and what lies below them, from the workspace on; everything when none is named
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct Drop {
    #[command(flatten)]
    pub reference: Reference,
    /// Only these and what lies below them, from the workspace on; everything when none is named
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}
