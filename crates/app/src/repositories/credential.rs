//! A credential for git: one repository of those that the definition allows, for one operation.

use std::sync::Arc;

use serde_json::Value;
use stead_domain::environment::Environment;
use stead_domain::ids::EnvironmentId;
use stead_domain::repository::{self, GitCredential, GitCredentialRequest};
use stead_domain::secret::SecretValue;
use stead_domain::{Code, Error, Result};

use super::start::{VARIABLE, holder};
use super::{TokenRequest, covers, named};
use crate::audit::{Act, record};
use crate::leases::hold_in;
use crate::place::Warrant;
use crate::processes::check_usable;
use crate::{App, Entered};

/// What GitHub takes for a name beside a token.
const USERNAME: &str = "x-access-token";

impl App {
    /// For whoever holds the environment, or takes it for this call.
    pub async fn git_credential(&self, entered: &Entered, id: EnvironmentId, request: GitCredentialRequest) -> Result<GitCredential> {
        if let Err(error) = repository::check("repo_full_name", &request.repo_full_name) {
            return Err(self.unless_unknown(entered, id, error).await);
        }
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move {
            let environment = app.get_environment(&entered, id).await?;
            check_usable(&environment)?;
            // Nobody takes the environment for what it would be refused.
            let wanted = app.token_wanted(&environment, &request).await?;
            let right = Arc::new(app.enter(&entered, &environment).await?);
            let credential = app.credential_for(&environment, right.warrant, wanted).await?;
            let (office, context, warrant) = (app.office(), app.context.clone(), right.warrant);
            let details = details(&request);
            // Whoever lost the environment meanwhile is told nothing.
            let held = app
                .store
                .write(move |unit| {
                    Box::pin(async move {
                        hold_in(unit, &office, &right).await?;
                        record(unit, &context, &entered.caller, act(&environment, details)).await
                    })
                })
                .await;
            app.kept_or_given_up(id, warrant, held)?;
            Ok(credential)
        })
        .await
    }

    /// The token that a credential needs, if the definition and the server have one for it.
    pub(super) async fn token_wanted(&self, environment: &Environment, request: &GitCredentialRequest) -> Result<TokenRequest> {
        let repos = environment.spec.repos.clone().unwrap_or_default();
        let wanted = repository::key(repository::without_suffix(&request.repo_full_name));
        let found = repos.allowed.iter().flatten().find(|name| repository::key(name) == wanted || **name == request.repo_full_name);
        let name = found.cloned().ok_or_else(|| not_allowed(environment, &request.repo_full_name))?;
        if self.repositories.host.is_none() {
            return Err(Error::new(Code::GitUnavailable, "this server has no GitHub App, and gives no credential")
                .suggestion("its operator sets GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY; docs/github.md says how"));
        }
        let Some((installation, _)) = named(Some(&repos)) else {
            let message = format!("the definition of environment `{}` names no installation", environment.name);
            return Err(Error::new(Code::GitUnavailable, message).suggestion(format!(
                "set `repos.github_installation_id`: `stead env update {} --github-installation ID`",
                environment.name
            )));
        };
        if !covers(self.grant_of(environment.id).await?.as_ref(), &repos) {
            return Err(super::grant::unproven(installation));
        }
        let permissions = self.repositories.permissions.for_git(request.operation);
        Ok(TokenRequest { installation, repositories: vec![name], permissions })
    }

    /// The credential itself, for whoever has shown that it may have one.
    pub(super) async fn credential_for(&self, environment: &Environment, warrant: Warrant, wanted: TokenRequest) -> Result<GitCredential> {
        let host = self.git_host_or_not_configured()?;
        let held_by = holder(environment.id, warrant);
        let token = self.repositories.tokens.get(&**host, &self.context, environment.project_id, &wanted, held_by).await?;
        self.hide_inside(environment, &token.value).await?;
        Ok(GitCredential {
            host: host.name().to_owned(),
            username: USERNAME.to_owned(),
            token: token.value.text().ok_or_else(|| Error::internal("a token is no text"))?.to_owned(),
            expires_at: token.expires_at,
            repo_full_name: wanted.repositories.into_iter().next().unwrap_or_default(),
        })
    }
}

impl App {
    /// Whatever is given a token may say it: what runs in the environment is told without it from before it is given.
    async fn hide_inside(&self, environment: &Environment, token: &SecretValue) -> Result<()> {
        let sandbox = self.load_sandbox(environment).await?;
        let ground = self.ground(sandbox.provider, sandbox.host_id)?;
        let known = [(format!("***{VARIABLE}***"), token.clone())];
        ground.place()?.learn(environment.id, &known).await.map_err(Error::from)
    }
}

fn not_allowed(environment: &Environment, name: &str) -> Error {
    Error::new(Code::RepositoryNotAllowed, format!("the definition of environment `{}` does not allow `{name}`", environment.name))
        .detail("repo_full_name", name)
        .suggestion("whoever may edit the definition adds it to `repos.allowed`")
}

pub(super) fn details(request: &GitCredentialRequest) -> Vec<(&'static str, Value)> {
    vec![("repo_full_name", request.repo_full_name.clone().into()), ("operation", request.operation.as_str().into())]
}

pub(super) fn act(environment: &Environment, details: Vec<(&'static str, Value)>) -> Act<'static> {
    Act {
        project: environment.project_id,
        action: "environment.git.credential",
        target_type: "environment",
        target_id: environment.id.to_string(),
        details,
    }
}
