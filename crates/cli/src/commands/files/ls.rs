use stead_client::Listing;
use stead_domain::changes::EntryType;
use stead_domain::files::FileEntry;
use stead_domain::page::Page;

use super::inside;
use crate::arguments::files::Ls;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::references;
use crate::session::patience::patiently;

/// Rows of one request.
const PAGE: u64 = 10_000;

pub async fn run(invocation: &Invocation<'_>, arguments: &Ls) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let path = inside(&arguments.path)?;
    let mut whole = Page { items: Vec::new(), has_more: false, next_cursor: None };
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    loop {
        let listing = Listing { recursive: arguments.recursive, limit: Some(left.min(PAGE)), cursor: whole.next_cursor.take() };
        let mut page = patiently(async || client.list_files(environment.id, &path, &listing).await).await?;
        left = left.saturating_sub(page.items.len() as u64);
        // A server that gives nothing and promises more would be asked for ever.
        let is_last = page.next_cursor.is_none() || page.items.is_empty() || left == 0;
        whole.items.append(&mut page.items);
        (whole.has_more, whole.next_cursor) = (page.has_more, page.next_cursor);
        if is_last {
            break;
        }
    }
    if !invocation.printer.is_json() && !invocation.printer.is_human() {
        return whole.items.iter().try_for_each(|entry| invocation.printer.name(entry.exact_path().as_bytes()));
    }
    let rows: Vec<Vec<String>> = whole.items.iter().map(row).collect();
    invocation.printer.list(&whole, &[], &["mode", "size", "modified", "path"], &rows, "the directory is empty")?;
    if whole.has_more {
        invocation.printer.hint("there is more: raise --limit, or leave it out");
    }
    Ok(())
}

pub fn row(entry: &FileEntry) -> Vec<String> {
    let size = if entry.r#type == EntryType::File { human::bytes(entry.size) } else { entry.r#type.to_string() };
    let name = match &entry.target {
        Some(target) => format!("{} -> {target}", entry.path),
        None => entry.path.clone(),
    };
    vec![entry.mode.clone(), size, human::moment(entry.modified_at), name]
}
