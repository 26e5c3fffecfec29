//! Repositories by `owner/name`, and what lets git into one.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroize;

use crate::definition::Repos;
use crate::error::{Error, Result};
use crate::time::Timestamp;

/// How a repository is told apart from others: its host takes both parts in any case.
pub fn key(full_name: &str) -> String {
    full_name.to_ascii_lowercase()
}

/// Owner and name.
pub fn split(full_name: &str) -> Option<(&str, &str)> {
    full_name.split_once('/')
}

/// Whether something is `owner/name`.
pub fn check(field: &str, value: &str) -> Result<()> {
    let part = |text: &str, longest: usize| {
        (1..=longest).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            && !matches!(text, "." | "..")
            && !text.starts_with('-')
    };
    match split(value) {
        Some((owner, name)) if part(owner, 39) && part(name, 100) => Ok(()),
        _ => Err(Error::field(field, "must be `owner/name`").suggestion("write it as in the repository's address, such as acme/web")),
    }
}

/// The name without `.git`, which addresses may end with.
pub fn without_suffix(full_name: &str) -> &str {
    full_name.strip_suffix(".git").unwrap_or(full_name)
}

/// What a token may do, by the names that the host has for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permissions(BTreeMap<String, String>);

impl Default for Permissions {
    /// The least with which somebody can work: to push, to propose what was pushed, and to see that the repository is there.
    fn default() -> Self {
        Self::of([("contents", "write"), ("pull_requests", "write"), ("metadata", "read")])
    }
}

impl Permissions {
    pub fn of<'a>(each: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(each.into_iter().map(|(name, level)| (name.to_owned(), level.to_owned())).collect())
    }

    /// As an operator writes them: `contents=read,pull_requests=write`. `metadata` is always there, because every token has it.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::field("github_permissions", format!("`{what}` is not a permission such as contents=write")).suggestion(
                "write names of GitHub's permissions with `read`, `write` or `admin`, such as contents=read,pull_requests=write",
            )
        };
        let mut all = Self::of([("metadata", "read")]);
        for each in text.split(',').map(str::trim).filter(|each| !each.is_empty()) {
            let (name, level) = each.split_once('=').map(|(name, level)| (name.trim(), level.trim())).ok_or_else(|| wrong(each))?;
            let is_name = !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            if !is_name || !["read", "write", "admin"].contains(&level) {
                return Err(wrong(each));
            }
            all.0.insert(name.to_owned(), level.to_owned());
        }
        Ok(all)
    }

    /// What git needs of these for an operation, and nothing else. More than these is never given.
    pub fn for_git(&self, operation: GitOperation) -> Self {
        let mut all = Self::of([("metadata", "read")]);
        let contents = match self.0.get("contents").map(String::as_str) {
            Some("write" | "admin") if operation == GitOperation::Push => "write",
            Some(_) => "read",
            None => return all,
        };
        all.0.insert("contents".to_owned(), contents.to_owned());
        if let Some(level) = self.0.get("workflows").filter(|_| contents == "write") {
            all.0.insert("workflows".to_owned(), level.clone());
        }
        all
    }

    pub fn may_push(&self) -> bool {
        self.0.get("contents").is_some_and(|level| level != "read")
    }

    pub fn each(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, level)| (name.as_str(), level.as_str()))
    }
}

impl fmt::Display for Permissions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> = self.each().map(|(name, level)| format!("{name}={level}")).collect();
        formatter.write_str(&each.join(","))
    }
}

text_enum! {
    /// What git is about to do.
    pub enum GitOperation {
        Clone = "clone",
        Fetch = "fetch",
        Push = "push",
    }
}

/// What git inside an environment asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitCredentialRequest {
    /// `owner/name`.
    #[schema(max_length = 140)]
    pub repo_full_name: String,
    #[serde(default = "GitCredentialRequest::default_operation")]
    #[schema(default = "clone")]
    pub operation: GitOperation,
}

impl GitCredentialRequest {
    fn default_operation() -> GitOperation {
        GitOperation::Clone
    }
}

/// What lets git into one repository for a while.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct GitCredential {
    /// The host that it is for, such as `github.com`.
    pub host: String,
    pub username: String,
    pub token: String,
    pub expires_at: Timestamp,
    pub repo_full_name: String,
}

impl fmt::Debug for GitCredential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GitCredential")
            .field("host", &self.host)
            .field("repo_full_name", &self.repo_full_name)
            .finish_non_exhaustive()
    }
}

impl Drop for GitCredential {
    fn drop(&mut self) {
        self.token.zeroize();
    }
}

/// Which repositories of an installation an environment was shown to be entitled to: whoever set them could see them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryGrant {
    pub installation_id: u64,
    /// Whose installation it is.
    pub account: String,
    /// By their keys.
    pub repositories: Vec<String>,
}

impl RepositoryGrant {
    /// Those that a definition names and this does not cover.
    pub fn lacks<'a>(&self, repos: &'a Repos) -> Vec<&'a str> {
        let allowed = repos.allowed.iter().flatten().map(String::as_str);
        let same = repos.github_installation_id == Some(self.installation_id);
        allowed.filter(|name| !same || !self.repositories.contains(&key(name))).collect()
    }

    /// What is left of it under another definition: nobody keeps what was taken out.
    pub fn within(&self, repos: &Repos) -> Option<Self> {
        if repos.github_installation_id != Some(self.installation_id) {
            return None;
        }
        let named: Vec<String> = repos.allowed.iter().flatten().map(|name| key(name)).collect();
        let repositories = self.repositories.iter().filter(|name| named.contains(name)).cloned().collect();
        Some(Self { repositories, ..self.clone() })
    }
}

/// Where the app is installed, as its user sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Installation {
    pub id: u64,
    pub account: InstallationAccount,
    /// `all` or `selected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository_selection: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstallationAccount {
    pub login: String,
    /// `User` or `Organization`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstallationList {
    pub total_count: u64,
    pub installations: Vec<Installation>,
}

/// A repository of an installation, as somebody sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstallationRepository {
    pub id: u64,
    pub name: String,
    pub full_name: String,
    pub private: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_branch: Option<String>,
    /// Whether that somebody may push to it, where the host says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_push: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstallationRepositoryList {
    pub total_count: u64,
    pub repositories: Vec<InstallationRepository>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_gets_no_more_than_it_needs_and_than_there_is() {
        let usual = Permissions::default();
        assert_eq!(usual.for_git(GitOperation::Fetch).to_string(), "contents=read,metadata=read");
        assert_eq!(usual.for_git(GitOperation::Push).to_string(), "contents=write,metadata=read");
        let lowered = Permissions::parse("contents=read").unwrap();
        assert_eq!(lowered.for_git(GitOperation::Push).to_string(), "contents=read,metadata=read");
        let raised = Permissions::parse("contents=write, workflows=write,issues=write").unwrap();
        assert_eq!(raised.for_git(GitOperation::Push).to_string(), "contents=write,metadata=read,workflows=write");
        assert_eq!(raised.for_git(GitOperation::Clone).to_string(), "contents=read,metadata=read");
        assert_eq!(Permissions::parse("issues=read").unwrap().for_git(GitOperation::Push).to_string(), "metadata=read");
        for wrong in ["contents", "contents=all", "Contents=read", "=read", "a b=read"] {
            assert!(Permissions::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_grant_covers_what_was_shown_and_loses_what_is_taken_out() {
        let repos = |allowed: &[&str], installation| Repos {
            allowed: Some(allowed.iter().map(|name| (*name).to_owned()).collect()),
            github_installation_id: Some(installation),
            ..Repos::default()
        };
        let grant = RepositoryGrant {
            installation_id: 7,
            account: "acme".to_owned(),
            repositories: vec!["acme/web".to_owned(), "acme/lib".to_owned()],
        };
        assert!(grant.lacks(&repos(&["Acme/Web"], 7)).is_empty());
        assert_eq!(grant.lacks(&repos(&["acme/web", "acme/pay"], 7)), ["acme/pay"]);
        assert_eq!(grant.lacks(&repos(&["acme/web"], 8)), ["acme/web"]);
        let left = grant.within(&repos(&["acme/lib", "acme/pay"], 7)).unwrap();
        assert_eq!(left.repositories, ["acme/lib"]);
        assert_eq!(grant.within(&repos(&["acme/lib"], 8)), None);
    }

    #[test]
    fn a_credential_is_not_shown() {
        let credential = GitCredential {
            host: "github.com".to_owned(),
            username: "x-access-token".to_owned(),
            token: "ghs_secret".to_owned(),
            expires_at: Timestamp::EPOCH,
            repo_full_name: "acme/web".to_owned(),
        };
        assert!(!format!("{credential:?}").contains("ghs_secret"));
    }
}
