//! Commands in environments: `run`, `exec`, `shell`, `ps`, `logs`, `kill`, `attach`, `top`.

use clap::Args;
use stead_domain::definition::NetworkAccess;
use stead_domain::duration::Duration;
use stead_domain::process::OutputStream;
use stead_domain::signal::Signal;

use super::words::{one_of, pair};
use crate::completion;

pub const EXIT_CODES: &str = "\
It ends with the command's own exit code; 124 when the time is over, 125 when Stead itself could not do it, 126 when the program cannot be \
run and 127 when there is no such program.

Ctrl-C interrupts the command; where there is no terminal, the third one leaves it alone and says how to come back. In a terminal every key \
goes inside, but Ctrl-\\ three times in a row leaves; a single one goes inside half a second later.";

#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  stead run -- pytest -q                      on the project around this directory
  stead run --network disabled -- make        without any network
  stead run --network allowlist --allow-host pypi.org --allow-host files.pythonhosted.org -- pip download requests
  stead run --scratch --rm -- sh -c 'date > x; cat x'
  stead run --env web -- git status
  stead run --timeout 30s -e CI=1 -- ./slow.sh < input > output

Without --env, the nearest directory at or above this one that has .stead or .git, else this one, is the workspace of an environment of its \
own, which is made the first time and used again. A definition local-default or default in .stead/environments is what it is made from.

{EXIT_CODES}"))]
pub struct Run {
    /// In this environment, instead of one for this directory
    #[arg(long = "env", value_name = "ENVIRONMENT", conflicts_with_all = ["scratch", "remove", "network", "allowed_hosts"], add = completion::environments())]
    pub environment: Option<String>,
    /// With an empty workspace that Stead keeps, instead of this directory
    #[arg(long)]
    pub scratch: bool,
    /// In a new environment that is deleted afterwards
    #[arg(long = "rm", conflicts_with = "detach")]
    pub remove: bool,
    /// What of the network it reaches
    #[arg(long, value_name = "ACCESS", value_parser = one_of!(NetworkAccess))]
    pub network: Option<NetworkAccess>,
    /// A host that it reaches with `--network allowlist`: host, host:port or *.suffix
    #[arg(long = "allow-host", value_name = "HOST", requires = "network")]
    pub allowed_hosts: Vec<String>,
    /// Accept a posture that the provider does not enforce
    #[arg(long)]
    pub allow_unenforced: bool,
    #[command(flatten)]
    pub how: How,
    /// Only start it, and print its id
    #[arg(short, long)]
    pub detach: bool,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<String>,
}

/// How a command is run, wherever it is.
#[derive(Args, Debug)]
pub struct How {
    /// How long it may run, e.g. 90s
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<Duration>,
    /// A variable
    #[arg(short = 'e', long = "variable", value_name = "KEY=VALUE", value_parser = pair)]
    pub variables: Vec<(String, String)>,
    /// The directory inside to start in; a relative one begins where it would start without this
    #[arg(long, value_name = "DIR")]
    pub dir: Option<String>,
}

#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  stead exec web -- git log -1
  stead exec web --dir src -e CI=1 -- make test
  tar c src | stead exec web -- tar x
  stead exec web --detach -- npm start

{EXIT_CODES}"))]
pub struct Exec {
    /// A name, an id, or a prefix of either that fits only one
    #[arg(value_name = "ENVIRONMENT", add = completion::environments())]
    pub environment: String,
    #[command(flatten)]
    pub how: How,
    /// Only start it, and print its id
    #[arg(short, long)]
    pub detach: bool,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Shell {
    /// A name, an id, or a prefix of either that fits only one
    #[arg(value_name = "ENVIRONMENT", add = completion::environments())]
    pub environment: String,
    /// The shell; bash, or sh where there is none, when it is left out
    pub shell: Option<String>,
    /// A variable
    #[arg(short = 'e', long = "variable", value_name = "KEY=VALUE", value_parser = pair)]
    pub variables: Vec<(String, String)>,
    /// The directory inside to start in; a relative one begins at the workspace
    #[arg(long, value_name = "DIR")]
    pub dir: Option<String>,
}

#[derive(Args, Debug)]
pub struct ProcessReference {
    /// An id, or a beginning of one that fits only one
    #[arg(value_name = "PROCESS", add = completion::processes())]
    pub process: String,
}

#[derive(Args, Debug)]
pub struct Ps {
    /// Only those of this environment
    #[arg(value_name = "ENVIRONMENT", add = completion::environments())]
    pub environment: Option<String>,
    /// Also those that are over
    #[arg(short, long)]
    pub all: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead logs prc_019a2b
  stead logs prc_019a2b -f --since 4096
  stead logs prc_019a2b --stream stderr > errors

On a terminal control sequences are shown and not obeyed, because whatever ran inside has written them; --raw leaves them as they are.")]
pub struct Logs {
    #[command(flatten)]
    pub reference: ProcessReference,
    /// Stay until it is over
    #[arg(short, long)]
    pub follow: bool,
    /// Where to begin, in bytes of both streams together
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    pub since: u64,
    /// Only this one
    #[arg(long, value_name = "STREAM", value_parser = one_of!(OutputStream))]
    pub stream: Option<OutputStream>,
    /// As it is, also on a terminal
    #[arg(long)]
    pub raw: bool,
}

#[derive(Args, Debug)]
pub struct Kill {
    #[command(flatten)]
    pub reference: ProcessReference,
    /// A name such as INT or HUP, or a number
    #[arg(default_value = "TERM")]
    pub signal: Signal,
}

#[derive(Args, Debug)]
pub struct Attach {
    #[command(flatten)]
    pub reference: ProcessReference,
    /// Where in its output to begin; 0 shows all of it, and what comes from now on is shown when this is left out
    #[arg(long, value_name = "OFFSET")]
    pub since: Option<u64>,
}

#[derive(Args, Debug)]
pub struct Top {
    /// Once, as for a script
    #[arg(long)]
    pub once: bool,
    /// How often it is looked at
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub interval: Duration,
}
