//! Audit records: written in the unit that makes the change.

use serde_json::{Map, Value};
use stead_domain::audit::AuditRecord;
use stead_domain::ids::{AuditId, ProjectId};
use stead_domain::page::{Page, PageRequest};
use stead_domain::principal::Caller;
use stead_domain::{Context, Error, Result};
use stead_store::Unit;
use stead_store::audit::AuditFilter;

use crate::identity::access::recheck;
use crate::{App, Entered};

/// What a caller did, to be written with the change.
pub(crate) struct Act<'a> {
    pub project: ProjectId,
    pub action: &'a str,
    pub target_type: &'a str,
    pub target_id: String,
    pub details: Vec<(&'a str, Value)>,
}

/// Writes what a caller did. Every change by a caller comes through here, and so does the question whether the caller may still make it.
pub(crate) async fn record(unit: &mut Unit, context: &Context, caller: &Caller, act: Act<'_>) -> Result<()> {
    begin(unit, context, caller, act).await.map(drop)
}

/// The same, of something whose outcome is added when it is known.
pub(crate) async fn begin(unit: &mut Unit, context: &Context, caller: &Caller, act: Act<'_>) -> Result<AuditRecord> {
    recheck(unit, caller, context.now()).await?;
    write(unit, context, caller, act).await
}

/// The same, of what follows from something that was recorded in the same unit: the caller may have given up with it what it may act by.
pub(crate) async fn record_after(unit: &mut Unit, context: &Context, caller: &Caller, act: Act<'_>) -> Result<()> {
    write(unit, context, caller, act).await.map(drop)
}

async fn write(unit: &mut Unit, context: &Context, caller: &Caller, act: Act<'_>) -> Result<AuditRecord> {
    let record = AuditRecord {
        id: AuditId::new(context),
        project_id: act.project,
        at: context.now(),
        principal_id: Some(caller.principal),
        action: act.action.to_owned(),
        target_type: act.target_type.to_owned(),
        target_id: act.target_id,
        source: caller.source.clone(),
        request_id: Some(caller.request_id.to_string()),
        details: act.details.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>(),
    };
    stead_store::audit::insert(unit, &record).await?;
    Ok(record)
}

/// What the server did by itself.
pub(crate) async fn record_own(unit: &mut Unit, context: &Context, act: Act<'_>) -> Result<()> {
    let record = AuditRecord {
        id: AuditId::new(context),
        project_id: act.project,
        at: context.now(),
        principal_id: None,
        action: act.action.to_owned(),
        target_type: act.target_type.to_owned(),
        target_id: act.target_id,
        source: "server".to_owned(),
        request_id: None,
        details: act.details.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>(),
    };
    stead_store::audit::insert(unit, &record).await?;
    Ok(())
}

#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    pub action: Option<String>,
    pub target_id: Option<String>,
}

impl App {
    pub async fn list_audit(&self, entered: &Entered, query: AuditQuery, page: PageRequest) -> Result<Page<AuditRecord>> {
        let project = entered.project;
        let limit = page.limit;
        let filter = AuditFilter { action: query.action, target_id: query.target_id };
        let rows = self
            .store
            .read(move |unit| Box::pin(async move { Ok::<_, Error>(stead_store::audit::list(unit, project, &filter, &page).await?) }))
            .await?;
        Ok(Page::new(rows, limit, |record| record.id.to_string()))
    }
}
