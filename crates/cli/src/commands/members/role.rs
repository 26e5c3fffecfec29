use crate::arguments::project::SetRole;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &SetRole) -> Result<()> {
    let client = invocation.client().await?;
    let member = references::member(&client, &arguments.member).await?;
    let member = client.set_role(member.principal_id, arguments.role).await?;
    invocation.printer.record(&member, &member.principal_id.to_string(), |printer| {
        printer.note(&format!("{} is now {} of project {}", member.name, member.role, client.project()));
        Ok(())
    })
}
