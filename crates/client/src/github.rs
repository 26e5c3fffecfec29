//! Repositories of environments, and who the caller is at GitHub.

use stead_domain::ids::EnvironmentId;
use stead_domain::repository::{GitCredential, GitCredentialRequest, InstallationList, InstallationRepositoryList};
use stead_domain::secret::SecretValue;

use crate::{Client, Request, Result};

impl Client {
    /// Shows with every call what GitHub shows to whoever's token this is.
    #[must_use]
    pub fn with_github_token(mut self, token: Option<SecretValue>) -> Self {
        self.github = token;
        self
    }

    /// A credential for git in one repository of the environment's.
    pub async fn git_credential(&self, environment: EnvironmentId, request: &GitCredentialRequest) -> Result<GitCredential> {
        self.json(Request::post(self.project_path(&format!("/environments/{environment}/git/credentials"))).json(request)?).await
    }

    pub async fn github_installations(&self) -> Result<InstallationList> {
        self.json(Request::get("/api/github/installations")).await
    }

    pub async fn github_repositories(&self, installation: u64) -> Result<InstallationRepositoryList> {
        self.json(Request::get(format!("/api/github/installations/{installation}/repos"))).await
    }
}
