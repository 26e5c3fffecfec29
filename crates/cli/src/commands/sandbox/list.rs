use crate::arguments::lists::ListArguments;
use crate::commands::paging;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;

pub async fn run(invocation: &Invocation<'_>, arguments: &ListArguments) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let page = paging::collect(arguments, async |options| client.list_sandboxes(&options).await).await?;
    let ids: Vec<String> = page.items.iter().map(|sandbox| sandbox.id.to_string()).collect();
    let now = invocation.now();
    let rows: Vec<Vec<String>> = page
        .items
        .iter()
        .map(|sandbox| {
            vec![
                sandbox.id.to_string(),
                sandbox.status.to_string(),
                sandbox.provider.to_string(),
                sandbox.made_for.map(|environment| environment.to_string()).unwrap_or_default(),
                human::age(now, sandbox.created_at),
            ]
        })
        .collect();
    let empty = "no sandboxes; each environment makes its own: stead env create NAME";
    invocation.printer.list(&page, &ids, &["id", "status", "provider", "made for", "age"], &rows, empty)?;
    paging::more(invocation.printer, &page);
    Ok(())
}
