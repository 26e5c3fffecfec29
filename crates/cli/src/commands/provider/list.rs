use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let list = client.list_providers().await?;
    let names: Vec<String> = list.items.iter().map(|provider| provider.name.to_string()).collect();
    let rows: Vec<Vec<String>> = list
        .items
        .iter()
        .map(|provider| {
            let served_by = provider.served_by.map(|real| format!("served by {real}"));
            let missing = provider.missing.as_ref().map(|missing| format!("needs {missing}"));
            vec![
                provider.name.to_string(),
                if provider.configured { "yes" } else { "no" }.to_owned(),
                served_by.or(missing).unwrap_or_default(),
            ]
        })
        .collect();
    invocation.printer.list(&list, &names, &["provider", "configured", "note"], &rows, "this server has no providers")
}
