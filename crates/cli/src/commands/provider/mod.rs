//! `stead provider …`.

mod check;
mod list;

use crate::arguments::sandbox::ProviderCommand;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, command: ProviderCommand) -> Result<()> {
    match command {
        ProviderCommand::List => list::run(invocation).await,
        ProviderCommand::Check(arguments) => check::run(invocation, &arguments).await,
    }
}
