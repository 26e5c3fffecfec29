use crate::arguments::project::RemoveMember;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::{prompt, references};

pub async fn run(invocation: &Invocation<'_>, arguments: &RemoveMember) -> Result<()> {
    let client = invocation.client().await?;
    let member = references::member(&client, &arguments.member).await?;
    prompt::confirm(invocation.printer, &format!("Take {} out of project {}?", member.name, client.project()), arguments.yes)?;
    client.remove_member(member.principal_id).await?;
    invocation.printer.record(&member, &member.principal_id.to_string(), |printer| {
        printer.note(&format!("{} is no longer in project {}", member.name, client.project()));
        Ok(())
    })
}
