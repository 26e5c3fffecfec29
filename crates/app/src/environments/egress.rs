//! What left an environment, or wanted to.

use stead_domain::egress::EgressEntry;
use stead_domain::ids::EnvironmentId;
use stead_domain::page::{Cursor, MAXIMUM_LIMIT, Page, PageRequest};
use stead_domain::{Error, Result};

use crate::place::EgressStart;
use crate::{App, Entered};

impl App {
    /// Oldest first. With `tail`, the first page is the latest so many. `next_cursor` is there also when nothing more is, to go on later.
    pub async fn list_egress(
        &self,
        entered: &Entered,
        id: EnvironmentId,
        tail: Option<u32>,
        page: PageRequest,
    ) -> Result<Page<EgressEntry>> {
        let (_, ground) = self.awake_or_not(entered, id).await?;
        let (start, limit) = match (page.after, tail) {
            (Some(_), Some(_)) => return Err(Error::field("tail", "begins a list; a cursor goes on with one")),
            (Some(position), None) => (EgressStart::After(position), page.limit),
            (None, Some(tail)) if (1..=MAXIMUM_LIMIT).contains(&tail) => (EgressStart::Latest, tail),
            (None, Some(_)) => return Err(Error::field("tail", format!("must be between 1 and {MAXIMUM_LIMIT}"))),
            (None, None) => (EgressStart::Oldest, page.limit),
        };
        let piece = ground.place()?.egress(id, &start, limit as usize).await?;
        Ok(Page { items: piece.entries, has_more: piece.has_more, next_cursor: piece.next.map(|next| Cursor(next).encode()) })
    }
}
