//! `stead project members …`.

mod add;
mod list;
mod remove;
mod role;

use crate::arguments::project::MembersCommand;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, command: MembersCommand) -> Result<()> {
    match command {
        MembersCommand::List(arguments) => list::run(invocation, &arguments).await,
        MembersCommand::Add(arguments) => add::run(invocation, &arguments).await,
        MembersCommand::Remove(arguments) => remove::run(invocation, &arguments).await,
        MembersCommand::Role(arguments) => role::run(invocation, &arguments).await,
    }
}
