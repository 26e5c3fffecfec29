//! What differs between two checkpoints, or between one and now.

use stead_domain::changes::RelativePath;
use stead_domain::checkpoint_diff::Differences;
use stead_domain::hexadecimal;
use stead_domain::ids::{CheckpointId, EnvironmentId};
use stead_domain::page::{Cursor, PageRequest};
use stead_domain::{Code, Error, Result};

use crate::provider::{View, Wanted};
use crate::{App, Entered};

/// What is compared, and how.
#[derive(Clone, Debug, Default)]
pub struct DiffQuery {
    /// What is there now when it is none.
    pub to: Option<CheckpointId>,
    /// Only this path.
    pub path: Option<RelativePath>,
    /// Also the lines that differ.
    pub text: bool,
}

impl App {
    /// In the order of the paths. Pages join without a gap while nothing in the environment writes.
    pub async fn diff_checkpoint(
        &self,
        entered: &Entered,
        id: EnvironmentId,
        from: CheckpointId,
        query: DiffQuery,
        page: PageRequest,
    ) -> Result<Differences> {
        let environment = self.get_environment(entered, id).await?;
        let before = self.find_checkpoint(entered, from).await?;
        if !environment.status.is_live() {
            crate::processes::check_usable(&environment)?;
        }
        if let (None, Some(mount)) = (query.to, environment.spec.bound_workspace()) {
            let message = format!("the workspace of environment `{}` is `{}`, which is no checkpoint's", environment.name, mount.source);
            return Err(Error::new(Code::CheckpointUnsupported, message).suggestion("compare with another checkpoint: `to`"));
        }
        let keeper = self.keeper(&environment)?;
        // Nobody is kept waiting for this: one that is deleted meanwhile cannot be compared to its end.
        let after = match query.to {
            Some(to) => {
                let to = self.find_checkpoint(entered, to).await?;
                self.check_host_id(to.host_id)?;
                View { layers: to.layers, live: false }
            }
            None => View { layers: environment.stack.all(environment.sandbox_id), live: true },
        };
        self.check_host_id(before.host_id)?;
        let before = View { layers: before.layers, live: false };
        let after_path = page.after.as_deref().map(read_cursor).transpose()?;
        let wanted = Wanted { only: query.path, after: after_path, limit: page.limit as usize, text: query.text };
        let found = keeper.layers()?.differences(&before, &after, &wanted).await?;
        let next_cursor = found.next.map(|path| Cursor(hexadecimal::write(path.as_bytes())).encode());
        Ok(Differences { has_more: next_cursor.is_some(), next_cursor, items: found.items, unreadable: found.unreadable })
    }
}

fn read_cursor(text: &str) -> Result<RelativePath> {
    let invalid = || {
        Error::new(Code::InvalidCursor, "the cursor was not made by this list")
            .detail("field", "cursor")
            .suggestion("start again without `cursor`")
    };
    let bytes = hexadecimal::read(text).ok_or_else(invalid)?;
    RelativePath::parse("cursor", &bytes).map_err(|_| invalid())
}
