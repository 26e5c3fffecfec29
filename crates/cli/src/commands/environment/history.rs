use serde_json::Value;
use stead_client::Client;
use stead_domain::environment::Environment;

use crate::arguments::environment::History;
use crate::commands::paging;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &History) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    if let Some([from, to]) = arguments.diff.as_deref() {
        return difference(invocation, &client, &environment, *from, *to).await;
    }
    let page = paging::collect(&arguments.list, async |options| client.list_versions(environment.id, &options).await).await?;
    let numbers: Vec<String> = page.items.iter().map(|version| version.version.to_string()).collect();
    let rows: Vec<Vec<String>> = page
        .items
        .iter()
        .map(|version| {
            vec![
                version.version.to_string(),
                version.created_at.to_string(),
                version.created_by.map(|principal| principal.to_string()).unwrap_or_default(),
                version.fingerprint.get(..12).unwrap_or_default().to_owned(),
                version.rolled_back_to.map(|earlier| format!("back to {earlier}")).unwrap_or_default(),
            ]
        })
        .collect();
    invocation.printer.list(&page, &numbers, &["version", "created", "by", "fingerprint", "note"], &rows, "no versions")?;
    paging::more(invocation.printer, &page);
    Ok(())
}

async fn difference(invocation: &Invocation<'_>, client: &Client, environment: &Environment, from: u64, to: u64) -> Result<()> {
    let difference = client.diff_versions(environment.id, from, to).await?;
    let shown = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), ToString::to_string);
    let paths: Vec<String> = difference.changes.iter().map(|change| change.path.clone()).collect();
    let rows: Vec<Vec<String>> =
        difference.changes.iter().map(|change| vec![change.path.clone(), shown(change.from.as_ref()), shown(change.to.as_ref())]).collect();
    let headers = ["field", &format!("version {from}"), &format!("version {to}")];
    invocation.printer.list(&difference, &paths, &headers, &rows, &format!("versions {from} and {to} are equal"))
}
