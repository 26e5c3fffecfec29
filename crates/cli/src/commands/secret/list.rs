use std::collections::HashMap;

use crate::arguments::lists::ListArguments;
use crate::commands::paging;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;

pub async fn run(invocation: &Invocation<'_>, arguments: &ListArguments) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let page = paging::collect(arguments, async |options| client.list_secrets(&options).await).await?;
    let names = super::people(&client, page.items.iter().map(|secret| secret.updated_by)).await;
    let ids: Vec<String> = page.items.iter().map(|secret| secret.name.clone()).collect();
    let now = invocation.now();
    let who = |names: &HashMap<_, String>, id| names.get(&id).cloned().unwrap_or_else(|| format!("{id}"));
    let rows: Vec<Vec<String>> = page
        .items
        .iter()
        .map(|secret| {
            let set = format!("{} ago", human::age(now, secret.updated_at));
            vec![secret.name.clone(), secret.version.to_string(), who(&names, secret.updated_by), set]
        })
        .collect();
    let empty = "no secrets in this project; set one: stead secret set NAME";
    invocation.printer.list(&page, &ids, &["name", "version", "set by", "set"], &rows, empty)?;
    paging::more(invocation.printer, &page);
    Ok(())
}
