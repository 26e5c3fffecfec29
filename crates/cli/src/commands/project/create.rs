use crate::arguments::project::Create;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &Create) -> Result<()> {
    let client = invocation.client().await?;
    let project = client.create_project(&arguments.handle, arguments.name.as_deref()).await?;
    invocation.printer.record(&project, &project.id.to_string(), |printer| {
        printer.note(&format!("created project {} ({})", project.handle, project.id));
        printer.hint(&format!("use it from now on: stead project select {}", project.handle));
        Ok(())
    })
}
