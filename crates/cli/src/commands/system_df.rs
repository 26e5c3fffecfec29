use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;

pub async fn run(invocation: &Invocation<'_>) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let usage = client.usage().await?;
    let names: Vec<String> = usage.items.iter().map(|item| item.what.clone()).collect();
    let rows: Vec<Vec<String>> = usage
        .items
        .iter()
        .map(|item| {
            vec![
                item.what.clone(),
                item.count.map(|count| count.to_string()).unwrap_or_default(),
                item.bytes.map(human::bytes).unwrap_or_default(),
            ]
        })
        .collect();
    invocation.printer.list(&usage, &names, &["what", "count", "size"], &rows, "nothing is kept yet")
}
