use stead_client::NewMember;

use crate::arguments::project::AddMember;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &AddMember) -> Result<()> {
    let client = invocation.client().await?;
    let member = match arguments.member.parse() {
        Ok(principal_id) => NewMember::Known { principal_id, role: arguments.role },
        Err(_) => NewMember::Named { name: arguments.member.clone(), kind: arguments.kind, role: arguments.role },
    };
    let member = client.add_member(&member).await?;
    invocation.printer.record(&member, &member.principal_id.to_string(), |printer| {
        printer.note(&format!("{} ({}) is now {} of project {}", member.name, member.principal_id, member.role, client.project()));
        printer.hint(&format!("give it a key: stead key create NAME --for {}", member.principal_id));
        Ok(())
    })
}
