use crate::arguments::secret::RotateKey;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::prompt;

pub async fn run(invocation: &Invocation<'_>, arguments: &RotateKey) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let question = "Seal everything with another master key? Copies of the present one open nothing afterwards.";
    prompt::confirm(invocation.printer, question, arguments.yes)?;
    let rotation = client.rotate_master_key().await?;
    for warning in &rotation.warnings {
        invocation.printer.warn(warning);
    }
    invocation.printer.record(&rotation, &rotation.key_id, |printer| {
        let (new, old, count) = (&rotation.key_id, &rotation.previous_key_id, rotation.rewrapped);
        printer.note(&format!("the master key is {new} now, and was {old}; {count} secrets were wrapped anew"));
        printer.hint("keep a copy of it apart from the backups, which do not hold it");
        Ok(())
    })
}
