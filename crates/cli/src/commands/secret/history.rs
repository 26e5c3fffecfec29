use stead_domain::page::Page;

use crate::arguments::secret::SecretName;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;

pub async fn run(invocation: &Invocation<'_>, arguments: &SecretName) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let history = client.secret_history(&arguments.name).await?;
    let names = super::people(&client, history.items.iter().map(|version| version.created_by)).await;
    let now = invocation.now();
    let ids: Vec<String> = history.items.iter().map(|version| version.version.to_string()).collect();
    let rows: Vec<Vec<String>> = history
        .items
        .iter()
        .map(|version| {
            let who = names.get(&version.created_by).cloned().unwrap_or_else(|| version.created_by.to_string());
            let used = if version.current { "in use" } else { "" };
            vec![version.version.to_string(), who, format!("{} ago", human::age(now, version.created_at)), used.to_owned()]
        })
        .collect();
    if invocation.printer.is_json() {
        return invocation.printer.json(&history);
    }
    let page = Page { items: history.items, has_more: false, next_cursor: None };
    invocation.printer.list(&page, &ids, &["version", "set by", "set", ""], &rows, "never set")
}
