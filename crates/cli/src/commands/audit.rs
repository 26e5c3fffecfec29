use serde_json::Value;
use stead_client::AuditFilter;
use stead_domain::audit::AuditRecord;

use super::paging;
use crate::arguments::system::Audit;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &Audit) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let filter = AuditFilter { action: arguments.action.clone(), target_id: arguments.target.clone() };
    let page = paging::collect(&arguments.list, async |options| client.list_audit(&filter, &options).await).await?;
    let ids: Vec<String> = page.items.iter().map(|record| record.id.to_string()).collect();
    let mut headers = vec!["at", "action", "target", "by", "from"];
    let mut rows: Vec<Vec<String>> = page
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
    let reason = |record: &AuditRecord| record.details.get("reason").and_then(Value::as_str).map(str::to_owned);
    if page.items.iter().any(|record| reason(record).is_some()) {
        headers.push("reason");
        rows.iter_mut().zip(&page.items).for_each(|(row, record)| row.push(reason(record).unwrap_or_default()));
    }
    invocation.printer.list(&page, &ids, &headers, &rows, "nothing has been recorded that fits")?;
    paging::more(invocation.printer, &page);
    Ok(())
}
