//! Looking after the server: `audit`, `doctor`, `system`, `prune`, `http`.

use clap::{Args, Subcommand};

use super::lists::ListArguments;

#[derive(Args, Debug)]
pub struct Audit {
    /// Only this action, e.g. environment.create
    #[arg(long)]
    pub action: Option<String>,
    /// Only what was done to this id
    #[arg(long, value_name = "ID")]
    pub target: Option<String>,
    #[command(flatten)]
    pub list: ListArguments,
}

#[derive(Args, Debug)]
pub struct Doctor {
    /// Mend what can be mended, after asking; what needs root is shown as commands to those who are not
    #[arg(long)]
    pub fix: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Subcommand, Debug)]
pub enum SystemCommand {
    /// What takes how much space
    Df,
}

#[derive(Args, Debug)]
pub struct Prune {
    /// Only say what would go
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask before workspaces go
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead http GET environments                          below the present project
  stead http GET /v1/projects
  stead http POST environments -d '{\"name\": \"web\"}'
  stead http PATCH environments/env_… -d @patch.json -H 'If-Match: \"3\"'
  stead env export web | stead http POST /v1/projects/{project}/environments -d @-

{project} in a path stands for the present project.")]
pub struct Http {
    /// GET, POST, PUT, PATCH or DELETE
    pub method: String,
    /// The path: as it is with a slash in front, below the project without
    pub path: String,
    /// The body; @FILE reads a file and @- stdin
    #[arg(short, long, value_name = "BODY|@FILE|@-")]
    pub data: Option<String>,
    /// A header
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
}
