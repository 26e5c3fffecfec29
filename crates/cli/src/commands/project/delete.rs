use crate::arguments::project::Delete;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::prompt;

pub async fn run(invocation: &Invocation<'_>, arguments: &Delete) -> Result<()> {
    let client = invocation.client().await?;
    // Asked for first: a handle that does not exist needs no answer from anybody.
    let project = client.get_project(&arguments.project.handle).await?;
    let question = format!("Delete project {} with all its environments and secrets?", project.handle);
    prompt::confirm(invocation.printer, &question, arguments.yes)?;
    let project = client.delete_project(&project.handle).await?;
    invocation.printer.record(&project, &project.id.to_string(), |printer| {
        printer.note(&format!("deleted project {} ({})", project.handle, project.id));
        Ok(())
    })
}
