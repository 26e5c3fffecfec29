//! `stead env …`.

mod apply;
mod archive;
mod changes;
mod checkout;
mod create;
mod delete;
mod egress;
mod export;
mod github_token;
mod history;
mod import;
mod life;
mod list;
mod reconcile;
mod rollback;
mod secrets;
mod setup;
pub mod spec;
mod update;
mod view;

use crate::arguments::environment::EnvironmentCommand;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, command: EnvironmentCommand) -> Result<()> {
    match command {
        EnvironmentCommand::List(arguments) => list::run(invocation, &arguments).await,
        EnvironmentCommand::View(arguments) => view::run(invocation, &arguments).await,
        EnvironmentCommand::Create(arguments) => create::run(invocation, &arguments).await,
        EnvironmentCommand::Update(arguments) => update::run(invocation, &arguments).await,
        EnvironmentCommand::Delete(arguments) => delete::run(invocation, &arguments).await,
        EnvironmentCommand::History(arguments) => history::run(invocation, &arguments).await,
        EnvironmentCommand::Rollback(arguments) => rollback::run(invocation, &arguments).await,
        EnvironmentCommand::Apply(arguments) => apply::run(invocation, &arguments).await,
        EnvironmentCommand::Export(arguments) => export::run(invocation, &arguments).await,
        EnvironmentCommand::Import(arguments) => import::run(invocation, &arguments).await,
        EnvironmentCommand::Wake(arguments) => life::wake(invocation, &arguments).await,
        EnvironmentCommand::Sleep(arguments) => life::sleep(invocation, &arguments).await,
        EnvironmentCommand::Stop(arguments) => life::stop(invocation, &arguments).await,
        EnvironmentCommand::Posture(arguments) => life::posture(invocation, &arguments).await,
        EnvironmentCommand::Setup(arguments) => setup::run(invocation, &arguments).await,
        EnvironmentCommand::Checkout(arguments) => checkout::run(invocation, &arguments).await,
        EnvironmentCommand::Changes(arguments) => changes::list(invocation, &arguments).await,
        EnvironmentCommand::Keep(arguments) => changes::keep(invocation, &arguments).await,
        EnvironmentCommand::Drop(arguments) => changes::drop(invocation, &arguments).await,
        EnvironmentCommand::Egress(arguments) => egress::run(invocation, &arguments).await,
        EnvironmentCommand::BindSecret(arguments) => secrets::bind(invocation, &arguments).await,
        EnvironmentCommand::UnbindSecret(arguments) => secrets::unbind(invocation, &arguments).await,
        EnvironmentCommand::Reconcile(arguments) => reconcile::run(invocation, &arguments).await,
    }
}
