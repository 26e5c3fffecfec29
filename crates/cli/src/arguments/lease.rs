//! `stead lease …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use stead_domain::definition::AtRelease;
use stead_domain::duration::Duration;
use stead_domain::lease::LeaseBind;

use super::process::{EXIT_CODES, How};
use super::words::{lease_lifetime, lease_ttl, lease_wait, one_of};
use crate::completion;

#[derive(Subcommand, Debug)]
pub enum LeaseCommand {
    /// Become the only one who may change an environment, for a while
    Acquire(Acquire),
    /// Run a command in an environment that is yours until it ends
    Run(Run),
    /// Begin the time of a lease anew
    Renew(Held),
    /// Let go of an environment
    Release(Release),
    /// End somebody's lease
    Break(Break),
    /// Hand a lease on to somebody else; what runs goes on
    Transfer(Transfer),
    /// List leases: who holds what, and for how long
    #[command(visible_alias = "ls")]
    List(List),
    /// Watch who holds environments, for how long, and who waits
    Watch(Watch),
}

/// What is asked for, however it is used.
#[derive(Args, Debug)]
pub struct Wanted {
    /// How long it lasts from one renewal to the next, 1s to 24h; what the definition says when it is left out, or 90s
    #[arg(long, value_name = "DURATION", value_parser = lease_ttl)]
    pub ttl: Option<Duration>,
    /// After which no renewal helps, 1s to 30d; what the definition says is the most
    #[arg(long, value_name = "DURATION", value_parser = lease_lifetime)]
    pub max_lifetime: Option<Duration>,
    /// How long to wait for it while somebody else holds it, up to 30d
    #[arg(long, value_name = "DURATION", value_parser = lease_wait, conflicts_with = "preempt")]
    pub wait: Option<Duration>,
    /// Take it away from whoever holds it; only an owner may
    #[arg(long)]
    pub preempt: bool,
    /// From -10 to 10: each step is worth half a minute of waiting
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(i8).range(-10..=10))]
    pub priority: Option<i8>,
    /// What it is for, for whoever finds it held
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// What becomes of the environment at the end
    #[arg(long, value_name = "WHAT", value_parser = one_of!(AtRelease))]
    pub at_release: Option<AtRelease>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease=$(stead lease acquire web --ttl 30m) && eval \"$lease\"
  stead exec web -- make test && stead lease renew
  stead lease release; unset STEAD_LEASE
  stead lease acquire web --wait 5m --note 'release 1.2' -o web.lease

It prints a line for a shell that sets STEAD_LEASE. While that is set, every command that changes something presents the lease, and only \
such commands are its holder's: another terminal with the same key is somebody else. With --quiet it prints the token alone, with --json \
the API's reply.

It exits with 3 when somebody else holds the environment, or still does when the wait is over; Ctrl-C gives up the place in the queue.")]
pub struct Acquire {
    /// A name, an id, or a prefix of either that fits only one
    #[arg(value_name = "ENVIRONMENT", add = completion::environments())]
    pub environment: String,
    #[command(flatten)]
    pub wanted: Wanted,
    /// Only read, and keep writers out meanwhile
    #[arg(long)]
    pub shared: bool,
    /// Whose calls are the holder's: those that present the token, or all of this principal, whoever makes them
    #[arg(long, value_name = "WHAT", value_parser = one_of!(LeaseBind), default_value = "token")]
    pub bind: LeaseBind,
    /// Write the token to this file, readable by you alone, instead of printing it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  stead lease run web -- make test
  stead lease run web --wait 5m --note 'nightly tests' -- ./nightly.sh
  stead lease run web --at-release checkpoint -- ./migrate.sh

The lease is acquired by its token, renewed while the command runs, and released when it has ended, however it did. When it is lost the \
command is stopped, but for one that was handed on: then the command goes on under its next holder.

It exits with 3 when it could not get the lease: somebody else holds the environment, or still does when the wait is over. When the lease \
was lost or handed on it exits with 125 and says who has it. Otherwise:

{EXIT_CODES}

Whoever leaves the command releases the lease, and with that the command is stopped."))]
pub struct Run {
    /// A name, an id, or a prefix of either that fits only one
    #[arg(value_name = "ENVIRONMENT", add = completion::environments())]
    pub environment: String,
    #[command(flatten)]
    pub wanted: Wanted,
    #[command(flatten)]
    pub how: How,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<String>,
}

/// A lease that is held.
#[derive(Args, Debug)]
pub struct Held {
    /// A lease by its id, or the environment that it is of; the one that STEAD_LEASE presents when it is left out
    #[arg(value_name = "LEASE|ENVIRONMENT", add = completion::environments())]
    pub lease: Option<String>,
}

#[derive(Args, Debug)]
pub struct Release {
    #[command(flatten)]
    pub held: Held,
    /// What becomes of the environment, instead of what was said before
    #[arg(long, value_name = "WHAT", value_parser = one_of!(AtRelease))]
    pub at_release: Option<AtRelease>,
}

#[derive(Args, Debug)]
pub struct Break {
    /// A lease by its id, or the environment that it is of
    #[arg(value_name = "LEASE|ENVIRONMENT", add = completion::environments())]
    pub lease: String,
    /// Why, for its holder and the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead lease transfer --to alice --note 'over to you' -o for-alice.lease
  stead lease transfer web --to ci-bot --bind principal

Whoever has its new token holds the lease: it prints a line for a shell that sets STEAD_LEASE, or writes a file for --lease-token-file. With --bind principal nothing is printed: calls of that principal are the holder's.")]
pub struct Transfer {
    #[command(flatten)]
    pub held: Held,
    /// A principal of the project, by name or id
    #[arg(long, value_name = "PRINCIPAL")]
    pub to: String,
    /// Whose calls are the holder's from now on
    #[arg(long, value_name = "WHAT", value_parser = one_of!(LeaseBind), default_value = "token")]
    pub bind: LeaseBind,
    /// What it is for, instead of what was said before
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Write the new token to this file, readable by you alone, instead of printing it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct List {
    /// Only those of this environment
    #[arg(value_name = "ENVIRONMENT", add = completion::environments())]
    pub environment: Option<String>,
    /// Also those that have ended
    #[arg(short, long)]
    pub all: bool,
    /// How many at most, 1 to 200
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: u32,
    /// Where to go on, as the page before said
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
}

#[derive(Args, Debug)]
pub struct Watch {
    /// Only this environment
    #[arg(value_name = "ENVIRONMENT", add = completion::environments())]
    pub environment: Option<String>,
}
