use std::collections::HashMap;

use serde_json::Value;
use stead_client::{Client, ListOptions};
use stead_domain::environment::Environment;
use stead_domain::ids::PrincipalId;
use stead_domain::page::MAXIMUM_LIMIT;

use crate::arguments::environment::History;
use crate::commands::paging;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::references;

const LONGEST_NAME: usize = 20;

pub async fn run(invocation: &Invocation<'_>, arguments: &History) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    if let Some([from, to]) = arguments.diff.as_deref() {
        return difference(invocation, &client, &environment, *from, *to).await;
    }
    let page = paging::collect(&arguments.list, async |options| client.list_versions(environment.id, &options).await).await?;
    let names = if invocation.printer.is_human() { member_names(&client).await } else { HashMap::new() };
    let numbers: Vec<String> = page.items.iter().map(|version| version.version.to_string()).collect();
    let rows: Vec<Vec<String>> = page
        .items
        .iter()
        .map(|version| {
            vec![
                version.version.to_string(),
                human::moment(version.created_at),
                version.created_by.map(|principal| called(&names, principal)).unwrap_or_default(),
                version.fingerprint.get(..12).unwrap_or_default().to_owned(),
                version.rolled_back_to.map(|earlier| format!("back to {earlier}")).unwrap_or_default(),
            ]
        })
        .collect();
    invocation.printer.list(&page, &numbers, &["version", "created", "by", "fingerprint", "note"], &rows, "no versions")?;
    paging::more(invocation.printer, &page);
    Ok(())
}

/// Who the project's members are. A table without names is still a table, so nothing that goes wrong here matters.
async fn member_names(client: &Client) -> HashMap<PrincipalId, String> {
    let options = ListOptions { limit: Some(MAXIMUM_LIMIT), cursor: None };
    let members = client.list_members(&options).await.map(|page| page.items).unwrap_or_default();
    members.into_iter().map(|member| (member.principal_id, member.name)).collect()
}

/// A name, or the end of an id, which tells two apart where the beginning is a time; short enough for a row of 80 columns.
fn called(names: &HashMap<PrincipalId, String>, principal: PrincipalId) -> String {
    match names.get(&principal) {
        Some(name) if name.chars().count() <= LONGEST_NAME => name.clone(),
        Some(name) => name.chars().take(LONGEST_NAME - 1).chain(['…']).collect(),
        None => {
            let id = principal.to_string();
            format!("prn_…{}", &id[id.len().saturating_sub(12)..])
        }
    }
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
