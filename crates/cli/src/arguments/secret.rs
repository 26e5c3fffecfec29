//! `stead secret …`, and which secrets environments use.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use stead_domain::definition::{InjectScheme, SecretDelivery};

use super::environment::Reference;
use super::lists::ListArguments;
use super::words::one_of;

#[derive(Subcommand, Debug)]
pub enum SecretCommand {
    /// Give a secret a value: from stdin, from a file, or typed unseen
    Set(SetSecret),
    /// List secrets: names, versions, who and when; never a value
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Show when a secret was set, and by whom
    History(SecretName),
    /// Delete a secret
    #[command(visible_alias = "rm")]
    Delete(DeleteSecret),
    /// Seal everything with another master key, while everything goes on
    RotateKey(RotateKey),
}

#[derive(Args, Debug)]
pub struct SecretName {
    /// The secret's name
    pub name: String,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead secret set OPENAI_API_KEY                  type it, unseen
  pass show openai | stead secret set OPENAI_API_KEY
  stead secret set DEPLOY_KEY --file ~/.ssh/deploy

A value is never an argument, because arguments are seen by everybody on the machine. From stdin one newline at the end is left out; a file is \
taken as it is.")]
pub struct SetSecret {
    /// The secret's name: upper-case letters, digits and underscores
    pub name: String,
    /// A file that holds the value
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Refused, and not repeated in the refusal
    #[arg(hide = true, allow_hyphen_values = true)]
    pub refused: Vec<String>,
}

#[derive(Args, Debug)]
pub struct DeleteSecret {
    /// The secret's name
    pub name: String,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct RotateKey {
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead env bind-secret web OPENAI_API_KEY
  stead env bind-secret web SENTRY_DSN --optional
  stead env bind-secret web DEPLOY_KEY --delivery file
  stead env bind-secret web ANTHROPIC_API_KEY --delivery broker --host api.anthropic.com --header x-api-key

The same again changes nothing; another --optional makes it required or optional.")]
pub struct BindSecret {
    #[command(flatten)]
    pub reference: Reference,
    /// The secret's name
    #[arg(value_name = "SECRET")]
    pub name: String,
    /// Go on without it when it is not set
    #[arg(long)]
    pub optional: bool,
    /// How processes get it: in a variable, in a file, or not at all, but put in on the way out [default: env]
    #[arg(long, value_name = "DELIVERY", value_parser = one_of!(SecretDelivery))]
    pub delivery: Option<SecretDelivery>,
    /// With `--delivery broker`: a host that the value may go to
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// With `--delivery broker`: the header that it stands in [default: authorization]
    #[arg(long, value_name = "HEADER", conflicts_with = "query")]
    pub header: Option<String>,
    /// With `--delivery broker`: how it stands in the header
    #[arg(long, value_name = "SCHEME", value_parser = one_of!(InjectScheme), conflicts_with = "query")]
    pub scheme: Option<InjectScheme>,
    /// With `--delivery broker`: the query parameter that it stands in
    #[arg(long, value_name = "PARAMETER")]
    pub query: Option<String>,
}

#[derive(Args, Debug)]
pub struct UnbindSecret {
    #[command(flatten)]
    pub reference: Reference,
    /// The secret's name
    #[arg(value_name = "SECRET")]
    pub name: String,
}
