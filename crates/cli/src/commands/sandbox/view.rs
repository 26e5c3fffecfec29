use stead_domain::sandbox::Sandbox;

use crate::arguments::sandbox::SandboxReference;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::Printer;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &SandboxReference) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let sandbox = references::sandbox(&client, &arguments.sandbox).await?;
    invocation.printer.record(&sandbox, &sandbox.id.to_string(), |printer| show(printer, &sandbox))
}

pub fn show(printer: &Printer, sandbox: &Sandbox) -> Result<()> {
    printer.fields(&[
        ("id", Some(sandbox.id.to_string())),
        ("status", Some(sandbox.status.to_string())),
        ("last error", sandbox.last_error.clone()),
        ("provider", Some(sandbox.provider.to_string())),
        ("resource", sandbox.resource_id.clone()),
        ("resource name", sandbox.resource_name.clone()),
        ("host", sandbox.host_id.map(|host| host.to_string())),
        ("made for", sandbox.made_for.map(|environment| environment.to_string())),
        ("fence", Some(sandbox.fence.to_string())),
        ("observed", sandbox.observed_at.map(|at| at.to_string())),
        ("created", Some(sandbox.created_at.to_string())),
        ("destroyed", sandbox.destroyed_at.map(|at| at.to_string())),
    ])
}
