//! Lists in pages: the one that was asked for, or all of them.

use std::collections::HashSet;

use stead_client::ListOptions;
use stead_domain::page::Page;
use stead_domain::{Code, Error};

use crate::arguments::lists::ListArguments;
use crate::failure::{Failure, Result};
use crate::printer::Printer;

/// The most pages that are read: a list that goes on after so many does not end.
const MOST_PAGES: usize = 100_000;

pub async fn collect<T>(arguments: &ListArguments, list: impl AsyncFn(ListOptions) -> stead_client::Result<Page<T>>) -> Result<Page<T>> {
    let mut options = arguments.options();
    let mut whole = list(options.clone()).await?;
    let mut seen = HashSet::new();
    while arguments.all
        && let Some(cursor) = whole.next_cursor.take()
    {
        // A server that leads in a circle would fill the memory.
        if seen.len() + 1 >= MOST_PAGES || !seen.insert(cursor.clone()) {
            return Err(endless(&cursor));
        }
        options.cursor = Some(cursor);
        let next = list(options.clone()).await?;
        whole.items.extend(next.items);
        whole.has_more = next.has_more;
        whole.next_cursor = next.next_cursor;
    }
    Ok(whole)
}

fn endless(cursor: &str) -> Failure {
    Error::new(Code::Unreachable, format!("the server's list does not end: after `{cursor}` it goes on, or begins again"))
        .suggestion("the server may be of another version: `stead status`")
        .into()
}

/// Tells people that the list goes on.
pub fn more<T>(printer: &Printer, page: &Page<T>) {
    if let Some(cursor) = &page.next_cursor {
        printer.hint(&format!("there is more: --cursor {cursor}, or --all"));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const ALL: ListArguments = ListArguments { limit: 50, cursor: None, all: true };

    fn page(cursor: Option<String>) -> stead_client::Result<Page<u32>> {
        Ok(Page { items: vec![1], has_more: cursor.is_some(), next_cursor: cursor })
    }

    #[tokio::test]
    async fn every_page_is_read_once() {
        let next = async |options: ListOptions| {
            let number: u32 = options.cursor.map_or(0, |cursor| cursor.parse().unwrap());
            page((number < 3).then(|| (number + 1).to_string()))
        };
        assert_eq!(collect(&ALL, next).await.unwrap().items.len(), 4);
        let one = collect(&ListArguments { all: false, ..ALL }, next).await.unwrap();
        assert_eq!((one.items.len(), one.next_cursor.as_deref()), (1, Some("1")));
    }

    #[tokio::test]
    async fn a_list_without_end_is_an_error() {
        let asked = Cell::new(0);
        let circle = async |_: ListOptions| {
            asked.set(asked.get() + 1);
            page(Some((asked.get() % 3).to_string()))
        };
        assert!(collect(&ALL, circle).await.is_err());
        assert_eq!(asked.take(), 4);
        let on_and_on = async |_: ListOptions| {
            asked.set(asked.get() + 1);
            page(Some(asked.get().to_string()))
        };
        assert!(collect(&ALL, on_and_on).await.is_err());
        assert_eq!(asked.get(), MOST_PAGES);
    }
}
