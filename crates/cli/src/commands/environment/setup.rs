use super::view;
use crate::arguments::changes::Setup;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Setup) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let environment = client.set_up_environment(environment.id, arguments.again).await?;
    if environment.spec.setup.as_ref().and_then(|setup| setup.script.as_ref()).is_none() {
        invocation
            .printer
            .hint(&format!("{} has no setup script: `stead env update {} --set setup.script=…`", environment.name, environment.name));
    }
    invocation.printer.record(&environment, &environment.id.to_string(), |printer| view::show(printer, &environment))
}
