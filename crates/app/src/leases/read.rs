//! Get and list.

use stead_domain::ids::LeaseId;
use stead_domain::lease::{LeaseRecord, LeaseView};
use stead_domain::page::{Page, PageRequest};
use stead_domain::{Context, Error, Result};
pub use stead_store::leases::LeaseFilter as LeaseQuery;
use stead_store::{Unit, leases};

use super::view::{Names, previous, queue, view};
use crate::{App, Entered};

/// A lease with what was before it, and who waits for it.
pub(super) async fn whole_in(unit: &mut Unit, context: &Context, record: &LeaseRecord) -> Result<LeaseView> {
    let (mut names, now) = (Names::default(), unit.moment().await?);
    let mut shown = view(unit, context, &mut names, record, now).await?;
    shown.previous = previous(unit, &mut names, record).await?;
    if record.end.is_none() {
        shown.waiting = queue(unit, &mut names, record.of.sandbox_id).await?;
    }
    Ok(shown)
}

impl App {
    pub async fn get_lease(&self, entered: &Entered, id: LeaseId) -> Result<LeaseView> {
        let (context, project) = (self.context.clone(), entered.project);
        self.store
            .glance(move |unit| {
                Box::pin(async move {
                    let record = leases::find_in(unit, project, id).await?.ok_or_else(|| super::held::unknown(id))?;
                    whole_in(unit, &context, &record).await
                })
            })
            .await
    }

    /// Newest first. Those of an environment are those of its sandbox: whoever shares it shares them.
    pub async fn list_leases(&self, entered: &Entered, query: LeaseQuery, page: PageRequest) -> Result<Page<LeaseView>> {
        let (context, project, limit) = (self.context.clone(), entered.project, page.limit);
        let query = match query.environment {
            Some(environment) => {
                let sandbox = self.get_environment(entered, environment).await?.sandbox_id;
                LeaseQuery { environment: None, sandbox: Some(sandbox), ..query }
            }
            None => query,
        };
        let rows = self
            .store
            .read(move |unit| {
                Box::pin(async move {
                    let (mut names, now) = (Names::default(), unit.moment().await?);
                    let mut shown = Vec::new();
                    for record in leases::list(unit, project, &query, &page).await? {
                        shown.push(view(unit, &context, &mut names, &record, now).await?);
                    }
                    Ok::<_, Error>(shown)
                })
            })
            .await?;
        Ok(Page::new(rows, limit, |lease| lease.id.to_string()))
    }
}
