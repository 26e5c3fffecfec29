//! Get and list.

use stead_domain::environment::Environment;
use stead_domain::ids::EnvironmentId;
use stead_domain::page::{Page, PageRequest};
use stead_domain::{Error, Result};
use stead_store::environments;
pub use stead_store::environments::EnvironmentFilter as EnvironmentQuery;

use crate::environments::unknown;
use crate::leases::add_holders;
use crate::patience::within;
use crate::{App, Entered};

impl App {
    pub async fn get_environment(&self, entered: &Entered, id: EnvironmentId) -> Result<Environment> {
        let project = entered.project;
        let found =
            self.store.glance(move |unit| Box::pin(async move { Ok::<_, Error>(environments::find(unit, project, id).await?) })).await?;
        found.map(|found| self.dress(found)).ok_or_else(|| unknown(id))
    }

    /// The record, and beside it what only the place knows now.
    pub async fn show_environment(&self, entered: &Entered, id: EnvironmentId) -> Result<Environment> {
        let (context, project) = (self.context.clone(), entered.project);
        let found = self
            .store
            .glance(move |unit| {
                Box::pin(async move {
                    let mut found = environments::find(unit, project, id).await?;
                    if let Some(environment) = &mut found {
                        add_holders(unit, &context, std::slice::from_mut(environment)).await?;
                    }
                    Ok::<_, Error>(found)
                })
            })
            .await?;
        self.with_place(self.dress(found.ok_or_else(|| unknown(id))?)).await
    }

    /// Adds what only the place knows. One that cannot be asked takes nothing away from the record.
    pub(crate) async fn with_place(&self, mut environment: Environment) -> Result<Environment> {
        let provider = environment.runtime.provider.unwrap_or(environment.provider);
        if environment.status.is_live()
            && let Ok(ground) = self.ground(provider, environment.runtime.host)
        {
            environment.runtime.draining = within(ground.place()?.is_draining(environment.id)).await.unwrap_or(false);
        }
        Ok(environment)
    }

    pub async fn list_environments(&self, entered: &Entered, query: EnvironmentQuery, page: PageRequest) -> Result<Page<Environment>> {
        let (context, project, limit) = (self.context.clone(), entered.project, page.limit);
        let rows = self
            .store
            .read(move |unit| {
                Box::pin(async move {
                    let mut rows = environments::list(unit, project, &query, &page).await?;
                    add_holders(unit, &context, &mut rows).await?;
                    Ok::<_, Error>(rows)
                })
            })
            .await?;
        let rows = rows.into_iter().map(|environment| self.dress(environment)).collect();
        Ok(Page::new(rows, limit, |environment| environment.id.to_string()))
    }
}
