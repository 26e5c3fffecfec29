use stead_domain::checkpoint::ForkRequest;

use super::{meant, on_running};
use crate::arguments::checkpoint::Fork;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Fork) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    let checkpoint_id = match &arguments.checkpoint {
        Some(reference) => Some(meant(&client, &environment, reference).await?.0),
        None => None,
    };
    let request = ForkRequest {
        checkpoint_id,
        name: arguments.name.clone(),
        count: Some(arguments.count),
        on_running: on_running(&arguments.running),
    };
    let forks = client.fork_environment(environment.id, &request).await?;
    let ids: Vec<String> = forks.items.iter().map(|fork| fork.id.to_string()).collect();
    invocation.printer.records(&forks, &ids, |printer| {
        for fork in &forks.items {
            printer.line(&fork.name)?;
        }
        if let Some(first) = forks.items.first() {
            printer.hint(&format!("run something in it: stead exec {} -- ls", first.name));
        }
        Ok(())
    })
}
