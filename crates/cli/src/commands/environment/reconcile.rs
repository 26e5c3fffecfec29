use super::view;
use crate::arguments::environment::Reference;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Reference) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    let environment = client.reconcile_environment(environment.id).await?;
    invocation.printer.record(&environment, &environment.id.to_string(), |printer| view::show(printer, &environment))
}
