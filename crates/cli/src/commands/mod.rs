//! What the commands do: one command, one file.

mod audit;
mod backup;
mod checkpoint;
mod completion;
mod config_show;
mod copy;
mod doctor;
mod down;
mod environment;
mod files;
mod http;
mod init;
mod key;
mod lease;
mod login;
mod logout;
mod members;
mod paging;
mod port;
mod process;
mod project;
mod provider;
mod prune;
mod restore;
mod sandbox;
mod secret;
mod serve;
mod status;
mod store;
mod system_df;
mod up;

use crate::arguments::Command;
use crate::arguments::local::ConfigCommand;
use crate::arguments::system::SystemCommand;
use crate::failure::Result;
use crate::invocation::Invocation;

/// Commands that are the server, or work on its files: they bring a runtime of their own.
pub fn run_here(invocation: &Invocation<'_>, command: Command) -> Result<Option<Command>> {
    match command {
        Command::Serve(options) => serve::run(*options)?,
        Command::Backup(arguments) => backup::run(invocation, &arguments)?,
        Command::Restore(arguments) => restore::run(invocation, &arguments)?,
        other => return Ok(Some(other)),
    }
    Ok(None)
}

pub async fn run(invocation: &Invocation<'_>, command: Command) -> Result<()> {
    match command {
        Command::Init(arguments) => init::run(invocation, &arguments),
        Command::Up => up::run(invocation).await,
        Command::Down(arguments) => down::run(invocation, &arguments).await,
        Command::Status => status::run(invocation).await,
        Command::Login(arguments) => login::run(invocation, &arguments).await,
        Command::Logout => logout::run(invocation),
        Command::Run(arguments) => process::run(invocation, &arguments).await,
        Command::Exec(arguments) => process::exec(invocation, &arguments).await,
        Command::Shell(arguments) => process::shell(invocation, &arguments).await,
        Command::Ps(arguments) => process::ps(invocation, &arguments).await,
        Command::Logs(arguments) => process::logs(invocation, &arguments).await,
        Command::Kill(arguments) => process::kill(invocation, &arguments).await,
        Command::Attach(arguments) => process::attach(invocation, &arguments).await,
        Command::Top(arguments) => process::top(invocation, &arguments).await,
        Command::Env(command) => environment::run(invocation, command).await,
        Command::Lease(command) => lease::run(invocation, command).await,
        Command::Checkpoint(command) => checkpoint::run(invocation, command).await,
        Command::Fork(arguments) => checkpoint::fork(invocation, &arguments).await,
        Command::Files(command) => files::run(invocation, command).await,
        Command::Cp(arguments) => copy::run(invocation, &arguments).await,
        Command::Port(command) => port::run(invocation, command).await,
        Command::Project(command) => project::run(invocation, command).await,
        Command::Key(command) => key::run(invocation, command).await,
        Command::Secret(command) => secret::run(invocation, command).await,
        Command::Sandbox(command) => sandbox::run(invocation, command).await,
        Command::Provider(command) => provider::run(invocation, command).await,
        Command::Audit(arguments) => audit::run(invocation, &arguments).await,
        Command::Doctor(arguments) => doctor::run(invocation, &arguments).await,
        Command::System(SystemCommand::Df) => system_df::run(invocation).await,
        Command::Prune(arguments) => prune::run(invocation, &arguments).await,
        Command::Config(ConfigCommand::Show) => config_show::run(invocation),
        Command::Completion(arguments) => completion::run(invocation, &arguments),
        Command::Http(arguments) => http::run(invocation, &arguments).await,
        // Done by `run_here` already.
        Command::Serve(_) | Command::Backup(_) | Command::Restore(_) => Ok(()),
    }
}
