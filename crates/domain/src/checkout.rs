//! Putting a repository into an environment: which one, at which commit, and what becomes of what is there.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::definition::Repos;
use crate::error::{Code, Error, Result};
use crate::repository;

const LONGEST: usize = 1024;

text_enum! {
    /// What becomes of changes that a checkout finds where it is to be.
    pub enum OnChanges {
        /// It fails, and says what they are.
        Fail = "fail",
        /// They are gone afterwards. What git ignores stays: it is why environments are kept.
        Discard = "discard",
    }
}

/// The body of a checkout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckoutRequest {
    /// `owner/name`, one of `repos.allowed`; `repos.default` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// A branch, or a full name such as `refs/tags/v1` or `refs/pull/7/head`; the default branch when it is left out.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The exact commit, in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Below the workspace; the repository's name when it is left out, `.` for the workspace itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// As `repos.submodules` says when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submodules: Option<bool>,
    /// Contents of files are fetched when they are needed. When it is left out, so are those of a repository that is known to be large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<bool>,
    /// `fail` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_changes: Option<OnChanges>,
}

impl CheckoutRequest {
    pub fn check(&self) -> Result<()> {
        if let Some(name) = &self.repository {
            repository::check("repository", name)?;
        }
        if let Some(reference) = &self.reference {
            check_reference(reference)?;
        }
        if let Some(commit) = &self.commit
            && !(matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)))
        {
            return Err(Error::field("commit", "must be a commit in full: 40 or 64 lower-case hexadecimal digits"));
        }
        match &self.directory {
            Some(directory) => check_directory(directory),
            None => Ok(()),
        }
    }

    /// The repository that is meant, if the definition allows it.
    pub fn repository<'a>(&'a self, repos: Option<&'a Repos>) -> Result<&'a str> {
        let allowed = repos.and_then(|repos| repos.allowed.as_deref()).unwrap_or_default();
        let Some(wanted) = self.repository.as_deref().or_else(|| repos?.default.as_deref()) else {
            return Err(Error::field("repository", "is left out, and the definition has no default one")
                .suggestion("name one, or set `repos.default`: `stead env update ENVIRONMENT --repo OWNER/NAME`"));
        };
        // Written as the definition writes it: that is how it is cloned, and asked for.
        allowed.iter().map(String::as_str).find(|name| name.eq_ignore_ascii_case(wanted)).ok_or_else(|| not_allowed(wanted))
    }
}

/// Of a repository that the definition does not name.
pub fn not_allowed(repository: &str) -> Error {
    Error::new(Code::RepositoryNotAllowed, format!("`{repository}` is none of the repositories that this environment may use"))
        .detail("repository", repository)
        .suggestion("add it to `repos.allowed` of the definition")
}

/// What git takes for the name of a reference, and for nothing else: no option, no expression, no pattern.
fn check_reference(name: &str) -> Result<()> {
    let plain = |byte: u8| byte > b' ' && byte != 0x7f && !b"~^:?*[\\".contains(&byte);
    let whole = !name.is_empty() && name.len() <= LONGEST && name.bytes().all(plain);
    let parts = name.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"));
    if whole
        && parts
        && !name.starts_with(['-', '+'])
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && name != "@"
    {
        return Ok(());
    }
    Err(Error::field("ref", "is no name of a branch or of a reference").suggestion("a branch such as `main`, or `refs/tags/v1`"))
}

fn check_directory(directory: &str) -> Result<()> {
    let inside = !directory.is_empty() && directory.len() <= LONGEST && !directory.starts_with(['/', '-']) && !directory.contains('\0');
    if inside && directory.split('/').all(|part| part != ".." && part != ".git") {
        return Ok(());
    }
    Err(Error::field("directory", "must be below the workspace, without `..`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_git_takes_for_a_name_is_one() {
        for good in ["main", "feature/x-1", "refs/tags/v1.0", "refs/pull/7/head", "größe"] {
            check_reference(good).unwrap();
        }
        for bad in [
            "",
            "-d",
            "--upload-pack=x",
            "a..b",
            "a b",
            "a\nb",
            "a:b",
            "+a",
            "a~1",
            "a^",
            "x.lock",
            ".x",
            "a/.b",
            "a//b",
            "/a",
            "@",
            "a@{1}",
            "*",
        ] {
            assert!(check_reference(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_checkout_stays_in_the_workspace() {
        let with = |directory: &str| CheckoutRequest { directory: Some(directory.to_owned()), ..CheckoutRequest::default() }.check();
        for good in [".", "web", "a/b", "..a"] {
            with(good).unwrap();
        }
        for bad in ["", "/etc", "..", "a/../..", "-x", "a\0b", ".git", "a/.git/hooks"] {
            assert!(with(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_is_allowed_is_meant() {
        let repos = Repos {
            default: Some("acme/Web".to_owned()),
            allowed: Some(vec!["acme/Web".to_owned(), "acme/lib".to_owned()]),
            ..Repos::default()
        };
        let asked = |name: Option<&str>| CheckoutRequest { repository: name.map(str::to_owned), ..CheckoutRequest::default() };
        assert_eq!(asked(None).repository(Some(&repos)).unwrap(), "acme/Web");
        assert_eq!(asked(Some("ACME/web")).repository(Some(&repos)).unwrap(), "acme/Web");
        assert_eq!(asked(Some("acme/other")).repository(Some(&repos)).unwrap_err().code(), Code::RepositoryNotAllowed);
        assert_eq!(asked(None).repository(None).unwrap_err().code(), Code::InvalidField);
    }
}
