use crate::arguments::lists::ListArguments;
use crate::commands::paging;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;

pub async fn run(invocation: &Invocation<'_>, arguments: &ListArguments) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let page = paging::collect(arguments, async |options| client.list_api_keys(&options).await).await?;
    let ids: Vec<String> = page.items.iter().map(|key| key.id.to_string()).collect();
    let now = invocation.now();
    let rows: Vec<Vec<String>> = page
        .items
        .iter()
        .map(|key| {
            vec![
                key.name.clone(),
                format!("{}…", key.key_prefix),
                key.principal_id.to_string(),
                key.last_used_at.map_or_else(|| "never".to_owned(), |at| format!("{} ago", human::age(now, at))),
                match key.expires_at {
                    None => "never".to_owned(),
                    Some(at) if at <= now => "expired".to_owned(),
                    Some(at) => format!("in {}", human::age(at, now)),
                },
                key.id.to_string(),
            ]
        })
        .collect();
    let empty = "no keys in this project; make one: stead key create NAME";
    invocation.printer.list(&page, &ids, &["name", "key", "principal", "used", "expires", "id"], &rows, empty)?;
    paging::more(invocation.printer, &page);
    Ok(())
}
