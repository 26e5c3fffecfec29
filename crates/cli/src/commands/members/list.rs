use crate::arguments::lists::ListArguments;
use crate::commands::paging;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &ListArguments) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let page = paging::collect(arguments, async |options| client.list_members(&options).await).await?;
    let ids: Vec<String> = page.items.iter().map(|member| member.principal_id.to_string()).collect();
    let rows: Vec<Vec<String>> = page
        .items
        .iter()
        .map(|member| vec![member.name.clone(), member.role.to_string(), member.kind.to_string(), member.principal_id.to_string()])
        .collect();
    let empty = "no members; admit somebody: stead project members add NAME";
    invocation.printer.list(&page, &ids, &["name", "role", "kind", "id"], &rows, empty)?;
    paging::more(invocation.printer, &page);
    Ok(())
}
