use super::find;
use crate::arguments::checkpoint::One;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;

pub async fn run(invocation: &Invocation<'_>, arguments: &One) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let (environment, checkpoint) = find(&client, &arguments.reference.environment, &arguments.checkpoint).await?;
    invocation.printer.record(&checkpoint, &checkpoint.id.to_string(), |printer| {
        printer.fields(&[
            ("id", Some(checkpoint.id.to_string())),
            ("name", checkpoint.name.clone()),
            ("environment", Some(environment.name.clone())),
            ("parent", checkpoint.parent_id.map(|parent| parent.to_string())),
            ("state", Some(checkpoint.state.to_string())),
            ("message", checkpoint.message.clone()),
            ("reason", Some(checkpoint.reason.to_string())),
            ("created", Some(human::moment(checkpoint.created_at))),
            ("on the disk", checkpoint.durable_at.map(human::moment)),
        ])
    })
}
