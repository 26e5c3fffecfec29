//! Ports of environments.

mod forward;
mod list;
mod url;

use crate::arguments::port::PortCommand;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, command: PortCommand) -> Result<()> {
    match command {
        PortCommand::List(arguments) => list::run(invocation, &arguments).await,
        PortCommand::Forward(arguments) => forward::run(invocation, &arguments).await,
        PortCommand::Url(arguments) => url::run(invocation, &arguments).await,
    }
}
