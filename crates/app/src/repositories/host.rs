//! Who keeps repositories, and gives out tokens for them.

use async_trait::async_trait;
use stead_domain::Timestamp;
use stead_domain::repository::{Installation, InstallationRepository, Permissions};
use stead_domain::secret::SecretValue;
use stead_domain::{Code, Error};

/// A token that is wanted: of one installation, for the repositories named and no others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenRequest {
    pub installation: u64,
    /// `owner/name`, at least one, all of one owner.
    pub repositories: Vec<String>,
    pub permissions: Permissions,
}

/// A token, and how long it lives. The value is shown by nothing, and gone from memory when nobody has it any more.
#[derive(Clone, Debug)]
pub struct InstallationToken {
    pub value: SecretValue,
    pub expires_at: Timestamp,
}

/// A token of somebody's own.
#[derive(Clone, Debug)]
pub struct UserToken {
    pub value: SecretValue,
    /// Not said by every app.
    pub expires_at: Option<Timestamp>,
}

/// What goes with somebody who is sent to sign in.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    pub state: &'a str,
    /// SHA-256 of the verifier, in base64url.
    pub challenge: &'a str,
}

/// Why there is no answer. It never holds a token or a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GitFailure {
    /// What is asked for belongs to an app that signs people in, and this one cannot.
    #[error("the GitHub App has no client secret")]
    NoLogin,
    /// 401.
    #[error("GitHub answered 401: {0}")]
    Rejected(String),
    /// 403 that is no limit.
    #[error("GitHub answered 403: {0}")]
    Forbidden(String),
    /// 404.
    #[error("GitHub answered 404: {0}")]
    NotFound(String),
    /// 422.
    #[error("GitHub answered 422: {0}")]
    Unprocessable(String),
    /// Everything that may be otherwise a while later.
    #[error("{0}")]
    Failed(String),
}

impl GitFailure {
    /// What this is to whoever wanted a token of an installation.
    pub(crate) fn of_installation(&self, installation: u64) -> Error {
        let said = self.to_string();
        let error = match self {
            Self::Rejected(_) => Error::new(Code::GithubAppRejected, format!("no token for the repositories: {said}"))
                .suggestion("the operator checks GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY and the clock of the server"),
            Self::Forbidden(_) => Error::new(Code::GithubForbidden, format!("no token of installation {installation}: {said}"))
                .suggestion("see in the settings of the account at GitHub whether the app is suspended there"),
            Self::NotFound(_) => {
                Error::new(Code::GithubNotInstalled, format!("installation {installation} is none of this server's app: {said}"))
                    .suggestion("install the app on the account again, and set `repos.github_installation_id` to the new installation")
            }
            Self::Unprocessable(_) => Error::new(Code::GithubRepositoryMissing, format!("no token of installation {installation}: {said}"))
                .suggestion("let the installation have every repository of `repos.allowed`, and the permissions that the server asks for; or take out what it has not"),
            Self::NoLogin => no_login(),
            Self::Failed(_) => unavailable(&said),
        };
        error.detail("github_installation_id", installation)
    }

    /// What this is to whoever asked with a token of their own.
    pub(crate) fn of_user(&self) -> Error {
        let said = self.to_string();
        match self {
            Self::Rejected(_) | Self::Forbidden(_) => {
                Error::new(Code::GithubIdentityRequired, format!("GitHub does not take the token that was sent: {said}"))
                    .suggestion("sign in again at /api/auth/github/login, or send another token in `X-GitHub-Token`")
            }
            Self::NotFound(_) => Error::new(Code::NotFound, format!("GitHub does not show that: {said}"))
                .suggestion("`GET /api/github/installations` lists what it shows"),
            Self::Unprocessable(_) => Error::new(Code::GithubFailed, said).suggestion("the message is GitHub's own"),
            Self::NoLogin => no_login(),
            Self::Failed(_) => unavailable(&said),
        }
    }
}

fn no_login() -> Error {
    Error::new(Code::GithubNotConfigured, "the GitHub App of this server signs nobody in: it has no client id and secret")
        .suggestion("its operator sets GITHUB_APP_CLIENT_ID and GITHUB_APP_CLIENT_SECRET; `X-GitHub-Token` works without")
}

fn unavailable(said: &str) -> Error {
    Error::new(Code::GithubFailed, format!("GitHub is of no help now: {said}"))
        .recoverable(true)
        .suggestion("try again in a while; the operator can see by `stead doctor` whether the server reaches it")
}

/// GitHub, or one of one's own.
#[async_trait]
pub trait GitHost: Send + Sync {
    /// The name that git knows it by, with its port if it has one of its own: `github.com`.
    fn name(&self) -> &str;

    /// Where git finds it: `https://github.com`.
    fn web(&self) -> String;

    /// For people: which app this is.
    fn app(&self) -> &str;

    /// Whether somebody can sign in by it.
    fn signs_in(&self) -> bool;

    /// A new token for these repositories and no others.
    async fn mint(&self, wanted: &TokenRequest) -> Result<InstallationToken, GitFailure>;

    /// Ends a token of an installation before its time. One that has ended already is no failure.
    async fn revoke(&self, token: &SecretValue) -> Result<(), GitFailure>;

    /// Whose installation it is, asked as the app.
    async fn account_of(&self, installation: u64) -> Result<String, GitFailure>;

    /// The installations of this app that somebody sees.
    async fn installations(&self, user: &SecretValue) -> Result<Vec<Installation>, GitFailure>;

    /// What somebody sees of one of them.
    async fn repositories(&self, user: &SecretValue, installation: u64) -> Result<Vec<InstallationRepository>, GitFailure>;

    /// Where somebody signs in.
    fn login_address(&self, login: Login<'_>) -> Result<String, GitFailure>;

    /// From what came back with somebody to a token of theirs.
    async fn exchange(&self, code: &str, verifier: &str) -> Result<UserToken, GitFailure>;

    /// Ends a token of somebody's own.
    async fn sign_out(&self, token: &SecretValue) -> Result<(), GitFailure>;
}
