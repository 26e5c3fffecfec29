//! What GitHub says, as far as it is looked at. What is missing or of another kind is an error, and what is longer than it can be is cut.

use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use stead_app::GitFailure;
use stead_domain::Timestamp;
use stead_domain::repository::{Installation, InstallationAccount, InstallationRepository};
use zeroize::Zeroize;

use stead_outbound::Reply;

/// The longest token that is taken. Those that say themselves whose they are have some hundred characters.
const LONGEST_TOKEN: usize = 4096;
const LONGEST_MESSAGE: usize = 300;

/// A text that is a credential.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Hidden(String);

impl Hidden {
    /// None when it is no token.
    pub fn token(&self) -> Option<&str> {
        let is_token = (1..=LONGEST_TOKEN).contains(&self.0.len()) && self.0.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then_some(&self.0)
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Hidden")
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[derive(Deserialize)]
pub(crate) struct Minted {
    pub token: Hidden,
    pub expires_at: Timestamp,
    #[serde(default)]
    pub repository_selection: Option<String>,
    #[serde(default)]
    pub repositories: Vec<Named>,
}

#[derive(Deserialize)]
pub(crate) struct Named {
    pub full_name: String,
}

#[derive(Deserialize)]
struct Account {
    login: String,
    #[serde(rename = "type", default)]
    kind: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct InstallationReply {
    id: u64,
    account: Account,
    #[serde(default)]
    repository_selection: Option<String>,
    #[serde(default)]
    app_id: Option<u64>,
    #[serde(default)]
    client_id: Option<String>,
}

impl InstallationReply {
    /// Whether it is of this app. A token of another app's user shows those of the other.
    pub fn is_of(&self, app_id: &str) -> bool {
        match (&self.app_id, &self.client_id) {
            (None, None) => true,
            (id, client) => id.is_some_and(|id| id.to_string() == app_id) || client.as_deref() == Some(app_id),
        }
    }

    pub fn login(self) -> String {
        self.account.login
    }

    pub fn installation(self) -> Installation {
        let account = InstallationAccount { login: self.account.login, kind: self.account.kind };
        Installation { id: self.id, account, repository_selection: self.repository_selection }
    }
}

#[derive(Deserialize)]
pub(crate) struct InstallationPage {
    pub installations: Vec<InstallationReply>,
}

#[derive(Deserialize)]
pub(crate) struct RepositoryPage {
    pub repositories: Vec<RepositoryReply>,
}

#[derive(Deserialize)]
struct MayDo {
    #[serde(default)]
    push: bool,
}

#[derive(Deserialize)]
pub(crate) struct RepositoryReply {
    id: u64,
    name: String,
    full_name: String,
    private: bool,
    #[serde(default)]
    default_branch: Option<String>,
    #[serde(default)]
    permissions: Option<MayDo>,
}

impl From<RepositoryReply> for InstallationRepository {
    fn from(reply: RepositoryReply) -> Self {
        let RepositoryReply { id, name, full_name, private, default_branch, permissions } = reply;
        Self { id, name, full_name, private, default_branch, may_push: permissions.map(|may| may.push) }
    }
}

/// What an exchanged code gives; GitHub says 200 also where it gives nothing.
#[derive(Deserialize)]
pub(crate) struct Exchanged {
    #[serde(default)]
    pub access_token: Option<Hidden>,
    #[serde(default)]
    pub expires_in: Option<u64>,
    #[serde(default)]
    pub error: Option<String>,
    #[serde(default)]
    pub error_description: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    message: String,
}

pub(crate) fn read<T: DeserializeOwned>(reply: &Reply, what: &str) -> Result<T, GitFailure> {
    serde_json::from_slice(&reply.body).map_err(|error| {
        // The place is said and the text is not: it may be a token's.
        let place = format!("line {}, column {}", error.line(), error.column());
        GitFailure::Failed(format!("GitHub answered {what} with something else ({place})"))
    })
}

/// What GitHub says of itself, in one line.
pub(crate) fn said(reply: &Reply) -> String {
    let message = serde_json::from_slice(&reply.body).map_or_else(|_| String::new(), |Message { message }| message);
    let text = if message.is_empty() { format!("status {}", reply.status) } else { message };
    plain(&text)
}

pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(LONGEST_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installations_of_another_app_are_none_of_ours() {
        let of = |more: &str| {
            let text = format!(r#"{{"id": 7, "account": {{"login": "acme", "type": "Organization", "id": 1}}{more}}}"#);
            serde_json::from_str::<InstallationReply>(&text).unwrap()
        };
        assert!(of(r#", "app_id": 12"#).is_of("12") && !of(r#", "app_id": 13"#).is_of("12"));
        assert!(of(r#", "app_id": 13, "client_id": "Iv1.a""#).is_of("Iv1.a"));
        assert!(of("").is_of("12"), "an older server does not say");
    }

    #[test]
    fn what_is_no_token_is_not_taken() {
        let hidden = |text: &str| Hidden(text.to_owned());
        assert!(hidden("ghs_abc").token().is_some() && hidden(&format!("ghs_1_{}", "a.b".repeat(200))).token().is_some());
        for bad in ["", "a b", "a\nb", "ä", &"a".repeat(5000)] {
            assert!(hidden(bad).token().is_none());
        }
    }
}
