//! A credential for git inside, which has no key and no lease of its own: the place says by what right it runs.

use stead_domain::Result;
use stead_domain::environment::Environment;
use stead_domain::ids::EnvironmentId;
use stead_domain::lease::{Answer, Event};
use stead_domain::repository::{self, GitCredential, GitCredentialRequest};
use stead_store::{Unit, desks, environments, leases};

use super::credential::{act, details};
use crate::App;
use crate::audit::record_own;
use crate::leases::{Asked, Office, decide_in, taken_over};
use crate::place::Warrant;
use crate::processes::check_usable;

impl App {
    /// For what runs in an environment under a warrant. The warrant is held against what the store says now: whatever was started under a
    /// lease that has ended gets nothing. The caller has it from a place, and from nowhere else.
    pub async fn git_credential_inside(&self, id: EnvironmentId, warrant: Warrant, request: GitCredentialRequest) -> Result<GitCredential> {
        repository::check("repo_full_name", &request.repo_full_name)?;
        let app = self.clone();
        self.detached(async move {
            let environment = app.load(id).await?;
            check_usable(&environment)?;
            let wanted = app.token_wanted(&environment, &request).await?;
            // Before, so that nothing is asked for in vain; and after, because that takes its time.
            let (office, of) = (app.office(), environment.clone());
            app.store.write(move |unit| Box::pin(async move { hold_warrant_in(unit, &office, &of, warrant).await })).await?;
            let credential = app.credential_for(&environment, warrant, wanted).await?;
            let (office, context, details) = (app.office(), app.context.clone(), details(&request));
            let held = app
                .store
                .write(move |unit| {
                    Box::pin(async move {
                        hold_warrant_in(unit, &office, &environment, warrant).await?;
                        record_own(unit, &context, act(&environment, details)).await
                    })
                })
                .await;
            app.kept_or_given_up(id, warrant, held)?;
            Ok(credential)
        })
        .await
    }
}

/// Whether what was started under a warrant may still do something.
async fn hold_warrant_in(unit: &mut Unit, office: &Office, environment: &Environment, warrant: Warrant) -> Result<()> {
    let sandbox = environment.sandbox_id;
    let rules = office.rules_of(&environments::sharing(unit, sandbox).await?);
    let loaded = desks::look(unit, sandbox, rules, office.own).await?;
    // Its holder may have made another lease of the one that it was started under, and it goes on under the same fence.
    let current = loaded.as_ref().and_then(|loaded| loaded.desk.owner());
    let holds = match (warrant.lease, current) {
        (Some(own), Some(lease)) => {
            let is_known = own == lease || leases::find(unit, own).await?.is_some_and(|record| record.lease.fence == warrant.fence);
            let decided = decide_in(unit, office, sandbox, None, Asked::by_itself(Event::Present { lease })).await?;
            is_known && matches!(decided.map(|decided| decided.answer), Some(Ok(Answer::Pass { fence })) if fence == warrant.fence)
        }
        (Some(_), None) => false,
        // Nobody holds it alone: whatever was not stopped by a barrier goes on.
        (None, _) => loaded.is_some_and(|loaded| rules.open && loaded.quarantined.is_none() && loaded.desk.fence == warrant.fence),
    };
    if holds { Ok(()) } else { Err(taken_over()) }
}
