use crate::arguments::sandbox::CheckProvider;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::printer::{GREEN, RED, escape};

pub async fn run(invocation: &Invocation<'_>, arguments: &CheckProvider) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let check = client.check_provider(arguments.name).await?;
    invocation.printer.record(&check, check.name.as_str(), |printer| {
        let word = if check.ok { printer.paint(GREEN, "ok") } else { printer.paint(RED, "fail") };
        printer.styled(&format!("{word}  {}  {}", check.name, escape::line(&check.message)))
    })?;
    if check.ok { Ok(()) } else { Err(Failure::Told(ExitStatus::Failed)) }
}
