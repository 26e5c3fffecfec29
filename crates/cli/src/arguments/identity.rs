//! `stead key …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use stead_domain::duration::Duration;

use super::lists::ListArguments;
use super::words::duration;

#[derive(Subcommand, Debug)]
pub enum KeyCommand {
    /// Make a key; it is shown once
    Create(CreateKey),
    /// List keys, without the keys themselves
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Make a key useless
    #[command(visible_alias = "rm", alias = "delete")]
    Revoke(RevokeKey),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead key create laptop -o laptop.key
  stead key create nightly --for ci-bot --expires 30d > nightly.key
  stead login https://stead.example.org --key-file laptop.key

The key goes to stdout and is never shown again; everything else goes to stderr.")]
pub struct CreateKey {
    /// What the key is for
    pub name: String,
    /// Whose key it is: a member's name or id; without it, your own
    #[arg(long = "for", value_name = "PRINCIPAL")]
    pub principal: Option<String>,
    /// How long it is good for, e.g. 90d or 12h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub expires: Option<Duration>,
    /// Write the key to a new file that only you can read
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct RevokeKey {
    /// A name, an id, or a prefix of either that fits only one
    pub key: String,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}
