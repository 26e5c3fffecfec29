//! What GitHub shows to somebody, by a token of theirs.

use stead_domain::Result;
use stead_domain::repository::{InstallationList, InstallationRepositoryList};
use stead_domain::secret::SecretValue;
use stead_domain::{Code, Error};

use crate::App;

impl App {
    pub async fn github_installations(&self, user: Option<&SecretValue>) -> Result<InstallationList> {
        let host = self.git_host_or_not_configured()?;
        let installations = host.installations(user.ok_or_else(nobody)?).await.map_err(|failure| failure.of_user())?;
        Ok(InstallationList { total_count: installations.len() as u64, installations })
    }

    pub async fn github_repositories(&self, user: Option<&SecretValue>, installation: &str) -> Result<InstallationRepositoryList> {
        let host = self.git_host_or_not_configured()?;
        let user = user.ok_or_else(nobody)?;
        let id: u64 = installation
            .parse()
            .map_err(|_| Error::field("id", "is no id of an installation").suggestion("`GET /api/github/installations` lists them"))?;
        let repositories = host.repositories(user, id).await.map_err(|failure| failure.of_user())?;
        Ok(InstallationRepositoryList { total_count: repositories.len() as u64, repositories })
    }
}

fn nobody() -> Error {
    Error::new(Code::GithubIdentityRequired, "this is told to a user of GitHub, and an API key of this server is none")
        .suggestion("sign in at /api/auth/github/login, or send a token of your own in the header `X-GitHub-Token`")
}
