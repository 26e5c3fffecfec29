//! `GITHUB_TOKEN` for a process that begins: for the repositories that the definition allows, and nothing else.

use stead_domain::Result;
use stead_domain::environment::Environment;
use stead_domain::ids::{EnvironmentId, LeaseId};
use stead_domain::repository::RepositoryGrant;
use stead_domain::secret::SecretValue;
use stead_domain::{Code, Error};
use stead_store::{environments, leases};

use super::{Holder, TokenRequest, covers, named, pass};
use crate::App;
use crate::place::Warrant;
use crate::secrets::Resolved;

/// The variable that a process finds its token in.
pub(crate) const VARIABLE: &str = "GITHUB_TOKEN";
/// How many tokens are revoked at a time.
const AT_ONCE: usize = 8;

impl App {
    /// Adds the token of the repositories to what a process is given. `stated` is what the caller itself sets, which counts more.
    pub(crate) async fn resolve_repositories(
        &self,
        environment: &Environment,
        warrant: Warrant,
        stated: bool,
        resolved: &mut Resolved,
    ) -> Result<()> {
        let Some((installation, allowed)) = named(environment.spec.repos.as_ref()) else { return Ok(()) };
        if stated {
            return Ok(());
        }
        let Some(host) = &self.repositories.host else {
            resolved
                .warnings
                .push(format!("there is no {VARIABLE}: this server has no GitHub App (GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY)"));
            return Ok(());
        };
        let grant = self.grant_of(environment.id).await?;
        if !environment.spec.repos.as_ref().is_some_and(|repos| covers(grant.as_ref(), repos)) {
            resolved.warnings.push(format!(
                "there is no {VARIABLE}: nobody has shown yet that they see the repositories of installation {installation}; \
                 set `repos` again with a token of your own, as `stead env update {} --github-installation {installation}` does",
                environment.name
            ));
            return Ok(());
        }
        let wanted = TokenRequest { installation, repositories: allowed.to_vec(), permissions: self.repositories.permissions.clone() };
        let holder = holder(environment.id, warrant);
        let token = self.repositories.tokens.get(&**host, &self.context, environment.project_id, &wanted, holder).await?;
        let text = token.value.text().ok_or_else(|| Error::internal("a token is no text"))?.to_owned();
        if resolved.env.iter().any(|(name, _)| name == VARIABLE) {
            resolved.env.retain(|(name, _)| name != VARIABLE);
            resolved.warnings.push(format!(
                "the secret {VARIABLE} is bound, and the token of installation {installation} stands in its place; unbind it, or take \
                 `github_installation_id` out"
            ));
        }
        resolved.env.push((VARIABLE.to_owned(), text));
        resolved.delivery.known.push((format!("***{VARIABLE}***"), token.value));
        // That token ends within the hour. Git asks for one of its own whenever it needs one.
        let pass = self.git_pass(environment.id, warrant)?;
        resolved.env.extend(self.git_variables());
        resolved.env.push((pass::VARIABLE.to_owned(), pass.clone()));
        resolved.delivery.known.push((format!("***{}***", pass::VARIABLE), SecretValue::new(pass.into_bytes())));
        Ok(())
    }

    /// What an environment was shown to be entitled to.
    pub(crate) async fn grant_of(&self, environment: EnvironmentId) -> Result<Option<RepositoryGrant>> {
        self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(environments::repository_grant(unit, environment).await?) })).await
    }

    /// A lease is over, and with it what was given out under it.
    pub(crate) fn revoke_tokens_of_lease(&self, lease: LeaseId) {
        self.revoke_behind(self.repositories.tokens.let_go(|holder| holder.lease == Some(lease)));
    }

    /// An environment is going.
    pub(crate) fn revoke_tokens_of_environment(&self, environment: EnvironmentId) {
        self.revoke_behind(self.repositories.tokens.let_go(|holder| holder.environment == environment));
    }

    /// Whoever turned out to have no right to a token any more does not keep it from being given back.
    pub(super) fn kept_or_given_up(&self, environment: EnvironmentId, warrant: Warrant, held: Result<()>) -> Result<()> {
        if held.as_ref().is_err_and(|error| error.code() == Code::FenceStale) {
            let lost = holder(environment, warrant);
            self.revoke_behind(self.repositories.tokens.let_go(|holder| *holder == lost));
        }
        held
    }

    /// Beside what goes on: nobody who lets go waits for the host. What it does not hear of ends by itself within the hour.
    fn revoke_behind(&self, tokens: Vec<SecretValue>) {
        let Some(host) = self.repositories.host.clone().filter(|_| !tokens.is_empty()) else { return };
        self.tasks.spawn(async move {
            use futures::{StreamExt, stream};
            let revoked = stream::iter(tokens).map(|token| {
                let host = host.clone();
                async move { host.revoke(&token).await }
            });
            let outcomes: Vec<_> = revoked.buffer_unordered(AT_ONCE).collect().await;
            for failure in outcomes.into_iter().filter_map(std::result::Result::err) {
                tracing::warn!(%failure, "a token of an installation could not be revoked; it ends by itself");
            }
        });
    }

    /// Lets go for leases that ended where nobody here was told: on another server, or in the middle of a start.
    pub(crate) async fn sweep_tokens(&self) -> Result<()> {
        if self.repositories.tokens.is_empty() {
            return Ok(());
        }
        self.repositories.tokens.forget_expired(&self.context);
        let held = self.repositories.tokens.leases();
        let ended: Vec<LeaseId> = self
            .store
            .read(move |unit| {
                Box::pin(async move {
                    let mut ended = Vec::new();
                    for lease in held {
                        if leases::find(unit, lease).await?.is_none_or(|record| record.end.is_some()) {
                            ended.push(lease);
                        }
                    }
                    Ok::<_, Error>(ended)
                })
            })
            .await?;
        ended.into_iter().for_each(|lease| self.revoke_tokens_of_lease(lease));
        Ok(())
    }
}

pub(super) fn holder(environment: EnvironmentId, warrant: Warrant) -> Holder {
    Holder { environment, lease: warrant.lease, fence: warrant.fence }
}
