//! Lists come in pages, newest first, joined by opaque cursors.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::{Code, Error, Result};

pub const DEFAULT_LIMIT: u32 = 50;
pub const MAXIMUM_LIMIT: u32 = 200;

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub has_more: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Makes a page of `limit` rows out of up to `limit + 1` that were read.
    pub fn new(mut rows: Vec<T>, limit: u32, key: impl Fn(&T) -> String) -> Self {
        let limit = limit as usize;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next_cursor = rows.last().filter(|_| has_more).map(|row| Cursor(key(row)).encode());
        Self { items: rows, has_more, next_cursor }
    }
}

/// Where the next page begins: after the row with this key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

impl Cursor {
    /// Hexadecimal of a version byte and the key: nothing in it needs escaping, and nobody is tempted to write one by hand.
    pub fn encode(&self) -> String {
        std::iter::once(1u8).chain(self.0.bytes()).map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn decode(text: &str) -> Result<Self> {
        let invalid = || {
            Error::new(Code::InvalidCursor, "the cursor was not made by this list")
                .detail("field", "cursor")
                .suggestion("start again without `cursor`")
        };
        if text.len() < 4 || text.len() > 512 || !text.len().is_multiple_of(2) || !text.is_ascii() {
            return Err(invalid());
        }
        let bytes = (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| invalid()))
            .collect::<Result<Vec<u8>>>()?;
        match bytes.split_first() {
            Some((1, key)) if key.iter().all(u8::is_ascii_graphic) => String::from_utf8(key.to_vec()).map(Self).map_err(|_| invalid()),
            _ => Err(invalid()),
        }
    }
}

/// What a caller asks of a list.
#[derive(Clone, Debug)]
pub struct PageRequest {
    pub limit: u32,
    pub after: Option<String>,
}

impl PageRequest {
    pub fn new(limit: Option<u32>, cursor: Option<&str>) -> Result<Self> {
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAXIMUM_LIMIT).contains(&limit) {
            return Err(Error::field("limit", format!("must be between 1 and {MAXIMUM_LIMIT}")));
        }
        // A client that has no cursor may say so with an empty one.
        let after = cursor.filter(|cursor| !cursor.is_empty()).map(Cursor::decode).transpose()?.map(|cursor| cursor.0);
        Ok(Self { limit, after })
    }

    /// One row more than the page holds tells whether there is another page.
    pub fn rows(&self) -> i64 {
        i64::from(self.limit) + 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_knows_whether_more_follows() {
        let page = Page::new(vec!["c".to_owned(), "b".to_owned(), "a".to_owned()], 2, Clone::clone);
        assert_eq!((page.items.len(), page.has_more), (2, true));
        assert_eq!(Cursor::decode(&page.next_cursor.unwrap()).unwrap().0, "b");
        let last = Page::new(vec!["a".to_owned()], 2, Clone::clone);
        assert_eq!((last.has_more, last.next_cursor), (false, None));
    }

    proptest! {
        #[test]
        fn cursors_survive_and_nothing_else_passes(key in "[!-~]{1,80}", noise in ".*") {
            prop_assert_eq!(Cursor::decode(&Cursor(key.clone()).encode()).unwrap().0, key);
            let _ = Cursor::decode(&noise);
        }
    }
}
