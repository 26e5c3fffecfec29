use stead_client::Client;

use crate::arguments::system::Prune;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::Printer;
use crate::prompt;

pub async fn run(invocation: &Invocation<'_>, arguments: &Prune) -> Result<()> {
    let client = invocation.client().await?;
    if !arguments.dry_run && !arguments.yes {
        ask(&client, invocation.printer).await?;
    }
    let report = client.prune(arguments.dry_run).await?;
    let names: Vec<String> = report.items.iter().map(|item| item.what.clone()).collect();
    let rows: Vec<Vec<String>> = report.items.iter().map(|item| vec![item.what.clone(), item.count.to_string()]).collect();
    let header = if report.dry_run { "would go" } else { "removed" };
    invocation.printer.list(&report, &names, &["what", header], &rows, "nothing is old enough to go")
}

/// Old records go without a question: how long they are kept is a setting. Somebody's work does not.
async fn ask(client: &Client, printer: &Printer) -> Result<()> {
    let would_go = client.prune(true).await?;
    let lost: Vec<String> = would_go
        .items
        .iter()
        .filter(|item| item.irreplaceable && item.count > 0)
        .map(|item| format!("{} ({})", item.what, item.count))
        .collect();
    if lost.is_empty() {
        return Ok(());
    }
    prompt::confirm(printer, &format!("Remove {}, with all files in them?", lost.join(" and ")), false)
}
