use std::ffi::OsString;

use stead_domain::changes::{ChangeSelection, FileChange};
use stead_domain::page::Page;

use crate::arguments::changes::{Changes, Drop, Keep};
use crate::commands::paging;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::{prompt, references};

pub async fn list(invocation: &Invocation<'_>, arguments: &Changes) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let mut whole: Option<Page<FileChange>> = None;
    let paths = arguments.paths.iter().map(|path| Some(path.as_str()));
    let paths: Vec<Option<&str>> = if arguments.paths.is_empty() { vec![None] } else { paths.collect() };
    for path in &paths {
        let page = paging::collect(&arguments.list, async |options| client.list_changes(environment.id, *path, &options).await).await?;
        whole = Some(match whole {
            None => page,
            // A cursor belongs to one list; of several joined ones only the whole can be had.
            Some(mut joined) => {
                joined.items.extend(page.items);
                Page { has_more: joined.has_more || page.has_more, next_cursor: None, items: joined.items }
            }
        });
    }
    let page = whole.unwrap_or(Page { items: Vec::new(), has_more: false, next_cursor: None });
    let names: Vec<String> = page.items.iter().map(|change| change.path.clone()).collect();
    let row = |change: &FileChange| {
        let size = if change.r#type.as_str() == "file" { human::bytes(change.size) } else { String::new() };
        vec![change.kind.to_string(), change.r#type.to_string(), size, change.path.clone()]
    };
    let rows: Vec<Vec<String>> = page.items.iter().map(row).collect();
    let empty = format!("nothing was changed beside the workspace of {}", environment.name);
    invocation.printer.list(&page, &names, &["change", "type", "size", "path"], &rows, &empty)?;
    paging::more(invocation.printer, &page);
    if page.has_more && page.next_cursor.is_none() {
        invocation.printer.hint("there is more: --all");
    }
    Ok(())
}

pub async fn keep(invocation: &Invocation<'_>, arguments: &Keep) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let settled = client.keep_changes(environment.id, &selection(&arguments.paths)).await?;
    invocation.printer.record(&settled, &settled.count.to_string(), |printer| {
        printer.note(&format!("kept {} in the workspace of {}", counted(settled.count), environment.name));
        Ok(())
    })
}

pub async fn drop(invocation: &Invocation<'_>, arguments: &Drop) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let what = if arguments.paths.is_empty() { "everything".to_owned() } else { human::plural(arguments.paths.len(), "path", "paths") };
    prompt::confirm(invocation.printer, &format!("Throw away {what} that {} changed?", environment.name), arguments.yes)?;
    let settled = client.drop_changes(environment.id, &selection(&arguments.paths)).await?;
    invocation.printer.record(&settled, &settled.count.to_string(), |printer| {
        printer.note(&format!("dropped {} of {}", counted(settled.count), environment.name));
        Ok(())
    })
}

fn counted(count: u64) -> String {
    human::plural(usize::try_from(count).unwrap_or(usize::MAX), "change", "changes")
}

/// Names that are no text go over the wire as digits.
fn selection(paths: &[OsString]) -> ChangeSelection {
    let (mut texts, mut odd) = (Vec::new(), Vec::new());
    for path in paths {
        match path.to_str() {
            Some(text) => texts.push(text.to_owned()),
            None => odd.push(path.as_encoded_bytes().iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }
    let some = |list: Vec<String>| if list.is_empty() { None } else { Some(list) };
    ChangeSelection { paths: some(texts), path_bytes: some(odd) }
}
