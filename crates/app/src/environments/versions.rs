//! The versions of a definition: list, read, compare, go back to.

use serde::Serialize;
use stead_domain::environment::{Change, DefinitionVersion, Environment, differences};
use stead_domain::ids::EnvironmentId;
use stead_domain::page::{Page, PageRequest};
use stead_domain::{Code, Error, Result};
use stead_store::{Unit, environments, versions};
use utoipa::ToSchema;

use crate::environments::unknown;
use crate::environments::update::{Judged, editable, save_edit};
use crate::idempotency::{self, Claim, Outcome};
use crate::{App, Entered};

/// What differs between two versions.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct VersionDiff {
    pub from: u64,
    pub to: u64,
    pub changes: Vec<Change>,
}

async fn find(unit: &mut Unit, id: EnvironmentId, version: u64) -> Result<DefinitionVersion> {
    versions::find(unit, id, version)
        .await?
        .ok_or_else(|| Error::not_found("version", version).suggestion("`stead env history` shows the versions"))
}

async fn exists(unit: &mut Unit, entered: &Entered, id: EnvironmentId) -> Result<()> {
    environments::find(unit, entered.project, id).await?.map(drop).ok_or_else(|| unknown(id))
}

impl App {
    pub async fn list_versions(&self, entered: &Entered, id: EnvironmentId, page: PageRequest) -> Result<Page<DefinitionVersion>> {
        let (entered, limit) = (entered.clone(), page.limit);
        let before = match &page.after {
            Some(text) => {
                let before = text.parse::<i64>().map_err(|_| {
                    Error::new(Code::InvalidCursor, "the cursor was not made by this list")
                        .detail("field", "cursor")
                        .suggestion("start again without `cursor`")
                })?;
                Some(before)
            }
            None => None,
        };
        let rows = self
            .store
            .read(move |unit| {
                Box::pin(async move {
                    exists(unit, &entered, id).await?;
                    Ok::<_, Error>(versions::list(unit, id, before, &page).await?)
                })
            })
            .await?;
        Ok(Page::new(rows, limit, |version| version.version.to_string()))
    }

    pub async fn get_version(&self, entered: &Entered, id: EnvironmentId, version: u64) -> Result<DefinitionVersion> {
        let entered = entered.clone();
        self.store
            .read(move |unit| {
                Box::pin(async move {
                    exists(unit, &entered, id).await?;
                    find(unit, id, version).await
                })
            })
            .await
    }

    pub async fn diff_versions(&self, entered: &Entered, id: EnvironmentId, from: u64, to: u64) -> Result<VersionDiff> {
        let entered = entered.clone();
        let (left, right) = self
            .store
            .read(move |unit| {
                Box::pin(async move {
                    exists(unit, &entered, id).await?;
                    Ok::<_, Error>((find(unit, id, from).await?, find(unit, id, to).await?))
                })
            })
            .await?;
        Ok(VersionDiff { from, to, changes: differences(&left.spec.to_value(), &right.spec.to_value()) })
    }

    /// Makes an earlier definition the present one again, as a new version: what was, stays.
    pub async fn roll_back(&self, entered: &Entered, id: EnvironmentId, version: u64) -> Result<Outcome<Environment>> {
        for _ in 0..8 {
            let present = self.get_environment(entered, id).await?;
            let wanted = self.get_version(entered, id, version).await?;
            if present.status.is_live() {
                self.knock(entered, &present).await?;
            }
            let judged = self.judge_definition(&entered.caller, &present, wanted.spec, present.allow_unenforced, Some(version)).await;
            if let Some(outcome) = self.try_to_roll_back(entered, id, judged).await? {
                if let Outcome::New(environment) = &outcome {
                    self.tell_place(environment).await;
                }
                return Ok(outcome);
            }
        }
        Err(Error::new(Code::Conflict, "the definition is being edited by others at this moment").recoverable(true).suggestion("try again"))
    }

    /// Makes the edit; none when the definition is another than the one that was judged. A repetition is answered whatever was judged now.
    async fn try_to_roll_back(&self, entered: &Entered, id: EnvironmentId, judged: Result<Judged>) -> Result<Option<Outcome<Environment>>> {
        let (app, entered) = (self.clone(), entered.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    match idempotency::claim(unit, &app.context, &*app.sealer, &entered.caller).await? {
                        Claim::New => {}
                        Claim::Answered(reply) => return Ok(Some(Outcome::Again(reply))),
                        Claim::Unfinished(_) => return Err(idempotency::in_progress()),
                    }
                    let mut environment = editable(unit, &entered, id).await?;
                    let judged = judged?;
                    if !judged.is_of(&environment) {
                        idempotency::give_back(unit, &entered.caller).await?;
                        return Ok(None);
                    }
                    let before = environment.clone();
                    app.set_definition(unit, &entered, &mut environment, judged).await?;
                    let environment = save_edit(unit, &app.context, &entered, before, environment, "environment.rollback").await?;
                    let environment = app.dress(environment);
                    idempotency::answer(unit, &app.context, &entered.caller, 200, &environment).await?;
                    Ok(Some(Outcome::New(environment)))
                })
            })
            .await
    }
}
