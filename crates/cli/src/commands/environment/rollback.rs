use super::view;
use crate::arguments::environment::Rollback;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Rollback) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let environment = client.roll_back(environment.id, arguments.version).await?;
    invocation.printer.record(&environment, &environment.id.to_string(), |printer| {
        printer.note(&format!("version {} of {} is what version {} was", environment.spec_version, environment.name, arguments.version));
        view::show(printer, &environment)
    })
}
