//! What an app does: tokens of its installations, what its users see, and how they sign in.

use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use stead_app::{GitFailure, GitHost, InstallationToken, Login, TokenRequest, UserToken};
use stead_domain::repository::{self, Installation, InstallationRepository};
use stead_domain::secret::SecretValue;

use crate::Github;
use crate::calls::{By, failure_of, is_success};
use crate::http::{Authorization, Question, ask};
use crate::replies::{Exchanged, InstallationPage, InstallationReply, Minted, RepositoryPage, plain, read};

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What one page holds at most.
const PAGE: usize = 100;
/// So many pages are asked for; nobody sees more than that at once.
const MOST_PAGES: usize = 50;
/// No token of an installation lives longer than an hour; some clocks are wrong.
const LONGEST_LIFE: Duration = Duration::from_secs(2 * 3600);

fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[async_trait]
impl GitHost for Github {
    fn name(&self) -> &str {
        &self.name
    }

    fn web(&self) -> String {
        self.options.web.to_string()
    }

    fn app(&self) -> &str {
        &self.options.app_id
    }

    fn signs_in(&self) -> bool {
        self.options.login.is_some()
    }

    async fn mint(&self, wanted: &TokenRequest) -> Result<InstallationToken, GitFailure> {
        // A body without repositories asks for all of them.
        if wanted.repositories.is_empty() {
            return Err(GitFailure::Failed("no repository was named".to_owned()));
        }
        let names: Vec<&str> = wanted.repositories.iter().filter_map(|name| repository::split(name)).map(|(_, name)| name).collect();
        let permissions: Map<String, Value> = wanted.permissions.each().map(|(name, level)| (name.to_owned(), level.into())).collect();
        let body = json!({ "repositories": names, "permissions": permissions });
        let path = format!("/app/installations/{}/access_tokens", wanted.installation);
        let reply = self.call(By::App, Method::POST, path, Some(&body)).await?;
        let minted: Minted = read(&reply, "for a token")?;
        let value = minted.token.token().ok_or_else(|| GitFailure::Failed("GitHub answered with what is no token".to_owned()))?;
        let value = SecretValue::new(value.as_bytes().to_vec());
        if let Err(why) = self.check_minted(wanted, &minted) {
            // Nobody asked for this one.
            let _ = self.revoke(&value).await;
            return Err(GitFailure::Unprocessable(why));
        }
        Ok(InstallationToken { value, expires_at: minted.expires_at })
    }

    async fn revoke(&self, token: &SecretValue) -> Result<(), GitFailure> {
        match self.call(By::Token(token), Method::DELETE, "/installation/token".to_owned(), None).await {
            // It has ended already.
            Ok(_) | Err(GitFailure::Rejected(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    async fn account_of(&self, installation: u64) -> Result<String, GitFailure> {
        let reply = self.call(By::App, Method::GET, format!("/app/installations/{installation}"), None).await?;
        Ok(read::<InstallationReply>(&reply, "for an installation")?.login())
    }

    async fn installations(&self, user: &SecretValue) -> Result<Vec<Installation>, GitFailure> {
        let mut all = Vec::new();
        for page in 1..=MOST_PAGES {
            let path = format!("/user/installations?per_page={PAGE}&page={page}");
            let reply = self.call(By::Token(user), Method::GET, path, None).await?;
            let InstallationPage { installations } = read(&reply, "for installations")?;
            let count = installations.len();
            all.extend(installations.into_iter().filter(|one| one.is_of(&self.options.app_id)).map(InstallationReply::installation));
            if count < PAGE {
                break;
            }
        }
        Ok(all)
    }

    async fn repositories(&self, user: &SecretValue, installation: u64) -> Result<Vec<InstallationRepository>, GitFailure> {
        let mut all = Vec::new();
        for page in 1..=MOST_PAGES {
            let path = format!("/user/installations/{installation}/repositories?per_page={PAGE}&page={page}");
            let reply = self.call(By::Token(user), Method::GET, path, None).await?;
            let RepositoryPage { repositories } = read(&reply, "for repositories")?;
            let count = repositories.len();
            all.extend(repositories.into_iter().map(InstallationRepository::from));
            if count < PAGE {
                break;
            }
        }
        Ok(all)
    }

    fn login_address(&self, login: Login<'_>) -> Result<String, GitFailure> {
        let (client, _) = self.options.login.as_ref().ok_or(GitFailure::NoLogin)?;
        // Where to come back to is said by the app's settings at GitHub, and by nobody who asks.
        Ok(format!(
            "{}/login/oauth/authorize?client_id={}&state={}&code_challenge={}&code_challenge_method=S256",
            self.options.web,
            escape(client),
            escape(login.state),
            escape(login.challenge)
        ))
    }

    async fn exchange(&self, code: &str, verifier: &str) -> Result<UserToken, GitFailure> {
        let (client, secret) = self.options.login.as_ref().ok_or(GitFailure::NoLogin)?;
        let body = json!({
            "client_id": client,
            "client_secret": secret.text().unwrap_or_default(),
            "code": code,
            "code_verifier": verifier,
        });
        let question = Question {
            method: Method::POST,
            at: &self.options.web,
            path: "/login/oauth/access_token".to_owned(),
            authorization: Authorization::None,
            body: Some(body.to_string().into_bytes()),
        };
        // Once: a code is good once.
        let reply = ask(&self.options.client, question).await.map_err(GitFailure::Failed)?;
        if !is_success(&reply) {
            return Err(failure_of(&reply));
        }
        let exchanged: Exchanged = read(&reply, "for a code")?;
        let token = exchanged.access_token.as_ref().and_then(|token| token.token());
        let Some(token) = token else {
            let why = exchanged.error_description.or(exchanged.error).unwrap_or_else(|| "it gave no token".to_owned());
            return Err(GitFailure::Rejected(plain(&why)));
        };
        let value = SecretValue::new(token.as_bytes().to_vec());
        let expires_at = exchanged.expires_in.map(|seconds| self.context.now().plus(Duration::from_secs(seconds)));
        Ok(UserToken { value, expires_at })
    }

    async fn sign_out(&self, token: &SecretValue) -> Result<(), GitFailure> {
        let (client, _) = self.options.login.as_ref().ok_or(GitFailure::NoLogin)?;
        let body = json!({ "access_token": token.text().unwrap_or_default() });
        match self.call(By::Client, Method::DELETE, format!("/applications/{}/token", escape(client)), Some(&body)).await {
            // It is gone already.
            Ok(_) | Err(GitFailure::NotFound(_) | GitFailure::Unprocessable(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}

impl Github {
    /// Whether a token is for what was asked for, and for nothing else: names are sent without their owner, and repositories are renamed.
    fn check_minted(&self, wanted: &TokenRequest, minted: &Minted) -> Result<(), String> {
        if minted.repository_selection.as_deref() == Some("all") {
            return Err("the token would be for every repository of the installation".to_owned());
        }
        let mut asked: Vec<String> = wanted.repositories.iter().map(|name| repository::key(name)).collect();
        let mut given: Vec<String> = minted.repositories.iter().map(|one| repository::key(&one.full_name)).collect();
        asked.sort();
        given.sort();
        if asked != given {
            return Err(format!("the token would be for {} and not for {}", some(&given), some(&asked)));
        }
        let now = self.context.now();
        if minted.expires_at > now.plus(LONGEST_LIFE) {
            return Err(format!("the token would live until {}", minted.expires_at.to_the_second()));
        }
        Ok(())
    }
}

fn some(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(5).map(|name| plain(name)).collect();
    let more = names.len().saturating_sub(shown.len());
    match (shown.is_empty(), more) {
        (true, _) => "no repository".to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
