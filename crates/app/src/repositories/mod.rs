//! Repositories: tokens for those that a definition allows, credentials for git, and the proof that somebody may name them.
//!
//! A token is in memory and nowhere else: no row, no log and no error has one. Whoever holds the environment has it; when the last holder
//! lets go it is given back.

mod checkout;
mod credential;
mod grant;
mod host;
mod inside;
mod listing;
pub mod pass;
mod session;
mod start;
mod tokens;

pub use host::{GitFailure, GitHost, InstallationToken, Login, TokenRequest, UserToken};
pub use session::{GithubSession, LOGIN_TIME};
pub(crate) use start::VARIABLE;
pub(crate) use tokens::{Holder, Tokens};

use std::sync::Arc;

use stead_domain::definition::Repos;
use stead_domain::repository::{Permissions, RepositoryGrant};
use stead_domain::{Code, Error, Result};

use crate::App;

/// What a server does for repositories: nothing without a host.
#[derive(Clone, Default)]
pub(crate) struct Repositories {
    pub host: Option<Arc<dyn GitHost>>,
    /// The most that a token of an environment may do.
    pub permissions: Permissions,
    pub tokens: Arc<Tokens>,
    /// Ways to the host and back that have ended, so that none is gone twice.
    pub logins: Arc<session::UsedLogins>,
}

impl App {
    /// Who gives out tokens for repositories, and the most that they may do.
    #[must_use]
    pub fn with_git_host(mut self, host: Arc<dyn GitHost>, permissions: Permissions) -> Self {
        self.repositories.host = Some(host);
        self.repositories.permissions = permissions;
        self
    }

    /// Where repositories are, if this server has an app there.
    pub fn git_host(&self) -> Option<&dyn GitHost> {
        self.repositories.host.as_deref()
    }

    /// Comes before anything that is wrong with a request.
    pub fn check_git_host(&self) -> Result<()> {
        self.git_host_or_not_configured().map(drop)
    }

    fn git_host_or_not_configured(&self) -> Result<&Arc<dyn GitHost>> {
        self.repositories.host.as_ref().ok_or_else(not_configured)
    }
}

fn not_configured() -> Error {
    Error::new(Code::GithubNotConfigured, "this server has no GitHub App")
        .suggestion("its operator makes one and sets GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY; docs/github.md says how")
}

/// The installation and what is allowed of it, where a definition names both. Without a single repository there is nothing to ask for: a
/// request that names none would be answered with a token for all of them.
fn named(repos: Option<&Repos>) -> Option<(u64, &[String])> {
    let repos = repos?;
    let allowed = repos.allowed.as_deref().filter(|allowed| !allowed.is_empty())?;
    Some((repos.github_installation_id?, allowed))
}

/// Whether a grant covers everything that a definition names.
fn covers(grant: Option<&RepositoryGrant>, repos: &Repos) -> bool {
    grant.is_some_and(|grant| Some(grant.installation_id) == repos.github_installation_id && grant.lacks(repos).is_empty())
}
