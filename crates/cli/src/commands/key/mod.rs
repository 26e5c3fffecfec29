//! `stead key …`.

mod create;
mod list;
mod revoke;

use crate::arguments::identity::KeyCommand;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, command: KeyCommand) -> Result<()> {
    match command {
        KeyCommand::Create(arguments) => create::run(invocation, &arguments).await,
        KeyCommand::List(arguments) => list::run(invocation, &arguments).await,
        KeyCommand::Revoke(arguments) => revoke::run(invocation, &arguments).await,
    }
}
