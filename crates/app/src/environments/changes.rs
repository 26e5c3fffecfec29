//! What an environment wrote beside its workspace: list it, keep it, drop it.

use std::sync::Arc;

use stead_domain::changes::{ChangeSelection, FileChange, RelativePath, SettledChanges};
use stead_domain::environment::Environment;
use stead_domain::ids::EnvironmentId;
use stead_domain::page::{Cursor, Page, PageRequest};
use stead_domain::{Code, Error, Result};
use stead_store::environments;

use crate::idempotency::Outcome;
use crate::{App, Entered};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Dropped,
}

impl App {
    /// In the order of the paths. Pages join without a gap while nothing in the environment writes.
    pub async fn list_changes(
        &self,
        entered: &Entered,
        id: EnvironmentId,
        below: Option<RelativePath>,
        page: PageRequest,
    ) -> Result<Page<FileChange>> {
        let (environment, ground) = self.awake_or_not(entered, id).await?;
        let skip = match &page.after {
            Some(text) => text.parse().map_err(|_| {
                Error::new(Code::InvalidCursor, "the cursor was not made by this list")
                    .detail("field", "cursor")
                    .suggestion("start again without `cursor`")
            })?,
            None => 0,
        };
        let limit = page.limit as usize;
        let mut items = ground.place()?.changes(&self.premises(&environment)?, below.as_ref(), skip, limit + 1).await?;
        let has_more = items.len() > limit;
        items.truncate(limit);
        let next_cursor = has_more.then(|| Cursor((skip + u64::from(page.limit)).to_string()).encode());
        Ok(Page { items, has_more, next_cursor })
    }

    /// Carries changes into the workspace.
    pub async fn keep_changes(&self, entered: &Entered, id: EnvironmentId, which: ChangeSelection) -> Result<Outcome<SettledChanges>> {
        self.settle_changes(entered, id, which, Fate::Kept).await
    }

    /// Throws changes away.
    pub async fn drop_changes(&self, entered: &Entered, id: EnvironmentId, which: ChangeSelection) -> Result<Outcome<SettledChanges>> {
        self.settle_changes(entered, id, which, Fate::Dropped).await
    }

    async fn settle_changes(
        &self,
        entered: &Entered,
        id: EnvironmentId,
        which: ChangeSelection,
        fate: Fate,
    ) -> Result<Outcome<SettledChanges>> {
        let paths = match which.selected() {
            Ok(paths) => paths,
            Err(error) => return Err(self.unless_unknown(entered, id, error).await),
        };
        let (app, whose, caller) = (self.clone(), entered.clone(), entered.caller.clone());
        let work = async move {
            let right = Arc::new(app.enter(&whose, &app.awake_or_not(&whose, id).await?.0).await?);
            let _guard = app.locks.lock(&id.to_string()).await;
            let (environment, ground) = app.awake_or_not(&whose, id).await?;
            let place = ground.place()?;
            // The layer is the sandbox's: all who share it must be out of the way. In one order, so that two of them never wait for each other.
            let mut gates = Vec::new();
            let all = app.sharers(&environment).await?;
            for other in &all {
                gates.push(app.gates.shut(*other).await);
            }
            for other in &all {
                let running = place.activity(*other).await?.map_or(0, |activity| activity.processes);
                if running > 0 {
                    return Err(Error::new(Code::Conflict, format!("{running} processes run in environment `{}`", environment.name))
                        .detail("processes", running)
                        .suggestion("wait for them, or end them with `stead env stop`; `stead ps` shows them"));
                }
            }
            let action = if fate == Fate::Kept { "environment.keep_changes" } else { "environment.drop_changes" };
            app.note_life(&whose, &environment, action, Some(&right)).await?;
            for other in &all {
                app.lay_down(place, *other, false).await?;
            }
            let premises = app.premises(&environment)?;
            let count = match fate {
                Fate::Kept => place.keep_changes(&premises, paths.as_deref()).await?,
                Fate::Dropped => place.drop_changes(&premises, paths.as_deref()).await?,
            };
            drop(right);
            Ok(SettledChanges { count })
        };
        let app = self.clone();
        self.detached(async move { app.once(&caller, work).await }).await
    }

    /// The live environments of the same sandbox, this one among them.
    pub(crate) async fn sharers(&self, environment: &Environment) -> Result<Vec<EnvironmentId>> {
        let sandbox = environment.sandbox_id;
        let mut all =
            self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(environments::of_sandbox(unit, sandbox).await?) })).await?;
        all.push(environment.id);
        all.sort();
        all.dedup();
        Ok(all)
    }
}
