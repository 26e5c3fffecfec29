//! `stead lease …`.

mod acquire;
mod break_lease;
mod find;
mod keeping;
mod list;
mod loss;
mod obtaining;
mod queue;
mod refusal;
mod release;
mod renew;
mod run;
mod token_file;
mod transfer;
mod vigil;
mod watch;
pub mod words;

use crate::arguments::lease::LeaseCommand;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, command: LeaseCommand) -> Result<()> {
    match command {
        LeaseCommand::Acquire(arguments) => acquire::run(invocation, &arguments).await,
        LeaseCommand::Run(arguments) => run::run(invocation, &arguments).await,
        LeaseCommand::Renew(arguments) => renew::run(invocation, &arguments).await,
        LeaseCommand::Release(arguments) => release::run(invocation, &arguments).await,
        LeaseCommand::Break(arguments) => break_lease::run(invocation, &arguments).await,
        LeaseCommand::Transfer(arguments) => transfer::run(invocation, &arguments).await,
        LeaseCommand::List(arguments) => list::run(invocation, &arguments).await,
        LeaseCommand::Watch(arguments) => watch::run(invocation, &arguments).await,
    }
}
