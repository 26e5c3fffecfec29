//! Somebody who signs in with GitHub: the way there and back, and what their browser keeps of it. Nothing of it is in the store: what a browser
//! keeps is sealed, so that it holds what only this server reads.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stead_domain::secret::SecretValue;
use stead_domain::{Code, Error, Result, Timestamp};
use zeroize::Zeroize;

use super::Login;
use crate::App;

/// How long somebody may take at GitHub.
pub const LOGIN_TIME: Duration = Duration::from_secs(600);
/// How long a session lasts at most.
const SESSION_TIME: Duration = Duration::from_secs(8 * 3600);
/// So many ways back are remembered at a time.
const MOST_LOGINS: usize = 4096;

const LOGIN_BELONGS_TO: &[u8] = b"github login";
const SESSION_BELONGS_TO: &[u8] = b"github session";

/// What a browser carries while its user is at GitHub.
#[derive(Serialize, Deserialize)]
struct Begun {
    state: String,
    verifier: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    return_to: Option<String>,
    expires_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Signed {
    token: String,
    expires_at: Timestamp,
}

impl Drop for Signed {
    fn drop(&mut self) {
        self.token.zeroize();
    }
}

/// A session that has begun.
#[derive(Debug)]
pub struct GithubSession {
    /// What the browser keeps; nobody else can read it.
    pub cookie: String,
    pub expires_at: Timestamp,
    /// Where its user wanted to go.
    pub return_to: Option<String>,
}

/// Ways back that were gone.
#[derive(Debug, Default)]
pub(crate) struct UsedLogins(Mutex<HashMap<String, Timestamp>>);

impl UsedLogins {
    /// Whether this is the first time.
    fn first(&self, state: &str, expires_at: Timestamp, now: Timestamp) -> bool {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, expires_at| *expires_at > now);
        // Better nobody signs in for a while than somebody twice.
        used.len() < MOST_LOGINS && used.insert(state.to_owned(), expires_at).is_none()
    }
}

impl App {
    /// Where to send somebody, and what their browser has to keep until it comes back.
    pub fn begin_github_login(&self, return_to: Option<&str>) -> Result<(String, String)> {
        let host = self.git_host_or_not_configured()?;
        let return_to = return_to.map(|path| check_path(path).map(|()| path.to_owned())).transpose()?;
        let (state, verifier): ([u8; 32], [u8; 32]) = (self.context.random(), self.context.random());
        let (state, verifier) = (URL_SAFE_NO_PAD.encode(state), URL_SAFE_NO_PAD.encode(verifier));
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let address = host.login_address(Login { state: &state, challenge: &challenge }).map_err(|failure| failure.of_user())?;
        let begun = Begun { state, verifier, return_to, expires_at: self.context.now().plus(LOGIN_TIME) };
        Ok((address, self.sealed(LOGIN_BELONGS_TO, &begun)?))
    }

    /// Somebody comes back: the same browser, with what it was given, once.
    pub async fn finish_github_login(&self, kept: Option<&str>, state: &str, code: &str) -> Result<GithubSession> {
        let host = self.git_host_or_not_configured()?;
        let begun: Begun =
            kept.and_then(|kept| self.unsealed(LOGIN_BELONGS_TO, kept)).ok_or_else(|| not_begun("it did not begin in this browser"))?;
        let now = self.context.now();
        if begun.expires_at <= now {
            return Err(not_begun("it took too long"));
        }
        if !same(begun.state.as_bytes(), state.as_bytes()) {
            return Err(not_begun("it is another one than the one that began in this browser"));
        }
        if !self.repositories.logins.first(&begun.state, begun.expires_at, now) {
            return Err(not_begun("it was used before"));
        }
        let user = host.exchange(code, &begun.verifier).await.map_err(|failure| match failure {
            super::GitFailure::Failed(_) => failure.of_user(),
            failure => not_begun(&failure.to_string()),
        })?;
        let latest = now.plus(SESSION_TIME);
        let expires_at = user.expires_at.map_or(latest, |expires_at| expires_at.min(latest));
        let token = user.value.text().ok_or_else(|| Error::internal("a token is no text"))?.to_owned();
        let cookie = self.sealed(SESSION_BELONGS_TO, &Signed { token, expires_at })?;
        Ok(GithubSession { cookie, expires_at, return_to: begun.return_to })
    }

    /// The token of whoever signed in, as long as the session lasts. Anything else is nobody's.
    pub fn github_session(&self, kept: &str) -> Option<SecretValue> {
        let signed: Signed = self.unsealed(SESSION_BELONGS_TO, kept)?;
        (signed.expires_at > self.context.now()).then(|| SecretValue::new(signed.token.as_bytes().to_vec()))
    }

    /// Ends a session for good: whoever kept a copy of it has nothing.
    pub async fn end_github_session(&self, kept: &str) -> Result<()> {
        let (Some(host), Some(token)) = (self.git_host(), self.github_session(kept)) else { return Ok(()) };
        host.sign_out(&token).await.map_err(|failure| failure.of_user())
    }

    fn sealed(&self, belongs_to: &[u8], value: &impl Serialize) -> Result<String> {
        let mut text = serde_json::to_vec(value).map_err(Error::internal)?;
        let sealed = self.sealer.seal(belongs_to, &text);
        text.zeroize();
        Ok(URL_SAFE_NO_PAD.encode(sealed?))
    }

    fn unsealed<T: for<'de> Deserialize<'de>>(&self, belongs_to: &[u8], kept: &str) -> Option<T> {
        let sealed = URL_SAFE_NO_PAD.decode(kept).ok()?;
        let mut text = self.sealer.open(belongs_to, &sealed).ok()?;
        let value = serde_json::from_slice(&text).ok();
        text.zeroize();
        value
    }
}

/// In a time that says nothing of where they differ.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |differ, (left, right)| differ | (left ^ right)) == 0
}

/// A path of this server: nobody is sent anywhere else.
fn check_path(path: &str) -> Result<()> {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if path.starts_with('/') && !path.starts_with("//") && is_plain && path.len() <= 1024 {
        return Ok(());
    }
    Err(Error::field("return_to", "must be a path of this server").suggestion("leave it out, or write a path such as /docs/"))
}

fn not_begun(why: &str) -> Error {
    Error::new(Code::GithubLoginFailed, format!("this way back from GitHub leads nowhere: {why}"))
        .suggestion("begin again at /api/auth/github/login, in one browser")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere() {
        for good in ["/", "/docs/", "/a?b=c#d"] {
            check_path(good).unwrap();
        }
        for bad in ["", "docs", "//evil.example", "/\\evil.example", "https://evil.example/", "/a b", "/a\r\nSet-Cookie: x", "\\/evil"] {
            assert!(check_path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_way_back_is_gone_once() {
        let (used, now) = (UsedLogins::default(), Timestamp::from_microseconds(1));
        let later = now.plus(LOGIN_TIME);
        assert!(used.first("a", later, now) && !used.first("a", later, now) && used.first("b", later, now));
        assert!(used.first("a", later.plus(LOGIN_TIME), later), "what has expired is refused before it comes here");
    }
}
