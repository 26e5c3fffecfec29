//! Lists in pages: the one that was asked for, or all of them.

use stead_client::ListOptions;
use stead_domain::page::Page;

use crate::arguments::lists::ListArguments;
use crate::failure::Result;
use crate::printer::Printer;

pub async fn collect<T>(arguments: &ListArguments, list: impl AsyncFn(ListOptions) -> stead_client::Result<Page<T>>) -> Result<Page<T>> {
    let mut options = arguments.options();
    let mut whole = list(options.clone()).await?;
    while arguments.all && whole.next_cursor.is_some() {
        options.cursor = whole.next_cursor.take();
        let next = list(options.clone()).await?;
        whole.items.extend(next.items);
        whole.has_more = next.has_more;
        whole.next_cursor = next.next_cursor;
    }
    Ok(whole)
}

/// Tells people that the list goes on.
pub fn more<T>(printer: &Printer, page: &Page<T>) {
    if let Some(cursor) = &page.next_cursor {
        printer.hint(&format!("there is more: --cursor {cursor}, or --all"));
    }
}
