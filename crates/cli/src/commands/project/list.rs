use crate::arguments::lists::ListArguments;
use crate::commands::paging;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &ListArguments) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let page = paging::collect(arguments, async |options| client.list_projects(&options).await).await?;
    let ids: Vec<String> = page.items.iter().map(|project| project.id.to_string()).collect();
    let rows: Vec<Vec<String>> = page
        .items
        .iter()
        .map(|project| {
            let mark = if project.handle == client.project() { "*" } else { "" };
            vec![mark.to_owned(), project.handle.clone(), project.name.clone(), project.id.to_string()]
        })
        .collect();
    let empty = "no projects that you may see; make one: stead project create HANDLE";
    invocation.printer.list(&page, &ids, &["", "handle", "name", "id"], &rows, empty)?;
    paging::more(invocation.printer, &page);
    Ok(())
}
