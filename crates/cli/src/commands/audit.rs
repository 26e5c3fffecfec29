use stead_client::AuditFilter;

use super::paging;
use crate::arguments::system::Audit;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &Audit) -> Result<()> {
    let client = invocation.client().await?;
    let filter = AuditFilter { action: arguments.action.clone(), target_id: arguments.target.clone() };
    let page = paging::collect(&arguments.list, async |options| client.list_audit(&filter, &options).await).await?;
    let ids: Vec<String> = page.items.iter().map(|record| record.id.to_string()).collect();
    let rows: Vec<Vec<String>> = page
        .items
        .iter()
        .map(|record| {
            vec![
                record.at.to_string(),
                record.action.clone(),
                record.target_id.clone(),
                record.principal_id.map_or_else(|| "the server".to_owned(), |principal| principal.to_string()),
                record.source.clone(),
            ]
        })
        .collect();
    invocation.printer.list(&page, &ids, &["at", "action", "target", "by", "from"], &rows, "nothing has been recorded that fits")?;
    paging::more(invocation.printer, &page);
    Ok(())
}
