//! The proof that somebody may name repositories of an installation: GitHub shows them to whoever asks.
//!
//! Without it a member of one project could have tokens made for any account that installed the same app. What was shown is kept with the
//! environment, and a token is made for nothing else: also not for what was set while the server had no app to ask for.

use stead_domain::definition::{Repos, Spec};
use stead_domain::principal::{Caller, Credential};
use stead_domain::repository::{self, RepositoryGrant};
use stead_domain::secret::SecretValue;
use stead_domain::{Code, Error, Result};

use super::GitHost;
use crate::App;

impl App {
    /// What a definition may be granted: what it was before, and what the caller can show now. Fails where the caller would have to show
    /// something and cannot.
    pub(crate) async fn grant(&self, caller: &Caller, spec: &Spec, before: Option<&RepositoryGrant>) -> Result<Option<RepositoryGrant>> {
        let Some(repos) = &spec.repos else { return Ok(None) };
        let Some(installation) = repos.github_installation_id else { return Ok(None) };
        let kept = before.and_then(|before| before.within(repos));
        // Nobody to ask: nothing is granted, and no token is made before somebody has shown it.
        let Some(host) = &self.repositories.host else { return Ok(kept) };
        if kept.as_ref().is_some_and(|kept| kept.lacks(repos).is_empty()) {
            return Ok(kept);
        }
        let account = match (&caller.credential, &caller.github) {
            // Whoever runs the server has the app's own key, with which all of this could be had without it.
            (Credential::Socket, _) if caller.operator => {
                host.account_of(installation).await.map_err(|failure| failure.of_installation(installation))?
            }
            (_, Some(user)) => self.account_shown_to(&**host, user, installation, repos, kept.as_ref()).await?,
            (_, None) => return Err(unproven(installation)),
        };
        check_owner(repos, &account)?;
        let repositories = repos.allowed.iter().flatten().map(|name| repository::key(name)).collect();
        Ok(Some(RepositoryGrant { installation_id: installation, account, repositories }))
    }

    /// Whose installation it is, if somebody sees it and everything new that is named of it.
    async fn account_shown_to(
        &self,
        host: &dyn GitHost,
        user: &SecretValue,
        installation: u64,
        repos: &Repos,
        kept: Option<&RepositoryGrant>,
    ) -> Result<String> {
        let seen = host.installations(user).await.map_err(|failure| failure.of_user())?;
        let found = seen.into_iter().find(|seen| seen.id == installation).ok_or_else(|| {
            Error::new(Code::GithubProofRequired, format!("GitHub shows installation {installation} not to whoever's token this is"))
                .detail("github_installation_id", installation)
                .suggestion("`GET /api/github/installations` lists those that it shows; a token of the app's own login is needed")
        })?;
        let new: Vec<&str> = match kept {
            Some(kept) => kept.lacks(repos),
            None => repos.allowed.iter().flatten().map(String::as_str).collect(),
        };
        check_owner(repos, &found.account.login)?;
        if new.is_empty() {
            return Ok(found.account.login);
        }
        let shown = host.repositories(user, installation).await.map_err(|failure| failure.of_user())?;
        let pushes = self.repositories.permissions.may_push();
        for name in new {
            let refused = |why: &str| {
                Error::new(Code::GithubProofRequired, format!("`{name}` {why}"))
                    .detail("repo_full_name", name)
                    .suggestion("somebody who may push to it sets it; or leave it out")
            };
            match shown.iter().find(|shown| repository::key(&shown.full_name) == repository::key(name)) {
                None => return Err(refused("is not shown by GitHub to whoever's token this is, in that installation")),
                // A token of the environment may push: nobody gets by it what they have not.
                Some(shown) if pushes && shown.may_push == Some(false) => {
                    return Err(refused("may only be read by whoever's token this is, and the environment could push to it"));
                }
                Some(_) => {}
            }
        }
        Ok(found.account.login)
    }
}

fn check_owner(repos: &Repos, account: &str) -> Result<()> {
    let foreign = repos
        .allowed
        .iter()
        .flatten()
        .enumerate()
        .find(|(_, name)| repository::split(name).is_none_or(|(owner, _)| !owner.eq_ignore_ascii_case(account)));
    match foreign {
        None => Ok(()),
        Some((index, name)) => {
            Err(Error::field(format!("spec.repos.allowed[{index}]"), format!("`{name}` is not of `{account}`, whose installation it is"))
                .suggestion("name repositories of that account, or another installation"))
        }
    }
}

pub(super) fn unproven(installation: u64) -> Error {
    Error::new(
        Code::GithubProofRequired,
        format!("nothing shows that whoever sets them may use installation {installation} and the repositories that are named of it"),
    )
    .detail("github_installation_id", installation)
    .suggestion("send a token of your own at GitHub in the header `X-GitHub-Token`, or sign in at /api/auth/github/login; `stead` sends that of GH_TOKEN or GITHUB_TOKEN")
}
