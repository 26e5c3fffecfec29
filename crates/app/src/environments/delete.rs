//! Delete: works from every state, answers with the final record, frees the name at once and keeps the tombstone.

use stead_domain::environment::{CleanupStatus, Environment, EnvironmentStatus};
use stead_domain::ids::{EnvironmentId, PrincipalId};
use stead_domain::{Context, Error, Result};
use stead_store::{Unit, checkpoints, environments};

use crate::audit::{Act, record};
use crate::environments::unknown;
use crate::{App, Entered};

/// Marks an environment as going; its name is free from here on. What is gone already stays as it is.
pub(crate) async fn begin_destroying(
    unit: &mut Unit,
    context: &Context,
    mut environment: Environment,
    by: Option<PrincipalId>,
) -> Result<()> {
    if !environment.status.is_live() {
        return Ok(());
    }
    environment.advance(EnvironmentStatus::Destroying)?;
    environment.cleanup_status = CleanupStatus::Pending;
    environment.updated_at = context.now();
    environment.updated_by = by.or(environment.updated_by);
    environments::save(unit, &environment).await?;
    checkpoints::delete_of(unit, environment.id, environment.updated_at).await?;
    Ok(())
}

impl App {
    pub async fn delete_environment(&self, entered: &Entered, id: EnvironmentId) -> Result<Environment> {
        let (context, entered) = (self.context.clone(), entered.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let found = environments::lock(unit, id).await?.filter(|found| found.project_id == entered.project);
                    let environment = found.ok_or_else(|| unknown(id))?;
                    if environment.status.is_live() {
                        let details = vec![("name", environment.name.clone().into())];
                        let act = Act {
                            project: entered.project,
                            action: "environment.delete",
                            target_type: "environment",
                            target_id: id.to_string(),
                            details,
                        };
                        record(unit, &context, &entered.caller, act).await?;
                        begin_destroying(unit, &context, environment, Some(entered.caller.principal)).await?;
                    }
                    Ok::<_, Error>(())
                })
            })
            .await?;
        let app = self.clone();
        self.detached(async move { app.drive(id).await }).await
    }
}
