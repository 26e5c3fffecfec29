//! The `stead` command: client commands, and the server's role.

mod arguments;
mod atomic_file;
mod commands;
mod completion;
mod connection;
mod definitions;
mod exit_status;
mod failure;
mod git_credential;
mod host;
mod invocation;
mod printer;
mod prompt;
mod references;
mod roles;
mod server;
mod session;
mod settings;
mod world;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;
use stead_domain::{Code, Error};

use crate::arguments::Cli;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::printer::{Format, Printer};
use crate::settings::Surroundings;

fn main() -> ExitCode {
    // Before anything else: this role forks, so it has one thread and as little memory as can be.
    if let Some(status) = roles::run() {
        return status;
    }
    // Answers the shell and ends, when it is the shell that asks.
    CompleteEnv::with_factory(Cli::command).var(completion::VARIABLE).complete();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error).into(),
    };
    let printer = Printer::of(&cli.global);
    let status = match run(cli, &printer) {
        Ok(()) => ExitStatus::Success,
        Err(failure) => {
            printer.failure(&failure);
            failure.exit_status()
        }
    };
    status.into()
}

fn run(cli: Cli, printer: &Printer) -> Result<()> {
    let invocation = Invocation { global: cli.global, printer, surroundings: Surroundings::of_this_process()?, context: world::context() };
    let Some(command) = commands::run_here(&invocation, cli.command)? else { return Ok(()) };
    // A client asks a few questions one after the other: threads would only cost it time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(Code::Internal, format!("the command could not be set up: {error}")))?;
    runtime.block_on(commands::run(&invocation, command))
}

/// Help and version on stdout; what was not understood on stderr, as JSON for those who asked for that.
fn usage(error: &clap::Error) -> ExitStatus {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitStatus::Success;
    }
    if std::env::args_os().any(|argument| argument == "--json") {
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let failure = Failure::from(Error::new(Code::Usage, message).suggestion("stead --help"));
        Printer::new(Format::Json, true).failure(&failure);
    } else {
        let _ = error.print();
    }
    ExitStatus::Usage
}
