use stead_client::{DiffQuery, ListOptions};
use stead_domain::checkpoint_diff::{ContentKind, Difference, Differences};
use stead_domain::page::MAXIMUM_LIMIT;

use super::meant;
use crate::arguments::checkpoint::Diff;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::{Printer, human};
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Diff) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.which.reference.environment).await?;
    let (from, called) = meant(&client, &environment, &arguments.which.checkpoint).await?;
    let to = match &arguments.to {
        Some(to) => Some(meant(&client, &environment, to).await?.0),
        None => None,
    };
    let query = DiffQuery { to, path: arguments.path.clone(), text: arguments.text || arguments.path.is_some() };
    let mut whole = Differences { items: Vec::new(), has_more: false, next_cursor: None, unreadable: 0 };
    let mut cursor = None;
    loop {
        let options = ListOptions { limit: Some(MAXIMUM_LIMIT), cursor };
        let page = client.diff_checkpoint(environment.id, from, &query, &options).await?;
        whole.items.extend(page.items);
        whole.unreadable += page.unreadable;
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let paths: Vec<String> = whole.items.iter().map(|item| item.file.path.clone()).collect();
    if query.text && invocation.printer.is_human() {
        whole.items.iter().try_for_each(|item| lines(invocation.printer, item))?;
    } else {
        let rows: Vec<Vec<String>> = whole.items.iter().map(row).collect();
        let empty = format!("nothing differs from checkpoint {called}");
        invocation.printer.list(&whole, &paths, &["change", "type", "before", "after", "path"], &rows, &empty)?;
    }
    if whole.unreadable > 0 {
        let what = human::plural(usize::try_from(whole.unreadable).unwrap_or(usize::MAX), "directory", "directories");
        invocation.printer.warn(&format!("{what} could not be looked into"));
    }
    Ok(())
}

fn row(item: &Difference) -> Vec<String> {
    let size = |size: Option<u64>| size.filter(|_| item.file.r#type.as_str() == "file").map(human::bytes).unwrap_or_default();
    vec![
        item.file.kind.to_string(),
        item.file.r#type.to_string(),
        size(item.file.size_before),
        size(item.file.size_after),
        item.file.path.clone(),
    ]
}

/// As `diff -u` prints it, with a line for what has no lines.
fn lines(printer: &Printer, item: &Difference) -> Result<()> {
    if let Some(text) = &item.unified {
        return printer.block(text);
    }
    let why = match item.content {
        Some(ContentKind::Binary) => ", binary",
        Some(ContentKind::TooLarge) => ", too large to be compared line by line",
        Some(ContentKind::Unreadable) => ", which may not be read",
        _ => "",
    };
    printer.line(&format!("{} {}{why}: {}", item.file.kind, item.file.r#type, item.file.path))
}
