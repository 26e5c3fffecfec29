use crate::arguments::system::Prune;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &Prune) -> Result<()> {
    let client = invocation.client().await?;
    let report = client.prune(arguments.dry_run).await?;
    let names: Vec<String> = report.items.iter().map(|item| item.what.clone()).collect();
    let rows: Vec<Vec<String>> = report.items.iter().map(|item| vec![item.what.clone(), item.count.to_string()]).collect();
    let header = if report.dry_run { "would go" } else { "removed" };
    invocation.printer.list(&report, &names, &["what", header], &rows, "nothing is old enough to go")
}
