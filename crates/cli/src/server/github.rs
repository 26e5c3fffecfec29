//! The GitHub App that the operator gave the server: an id and a key, and where GitHub is.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use stead_domain::repository::Permissions;
use stead_domain::secret::SecretValue;
use stead_domain::{Code, Error, Result};
use stead_github::{Address, AppKey, LIMITS, Options};
use stead_outbound::Client;

const WEB: &str = "https://github.com";
const API: &str = "https://api.github.com";
/// No key comes near it.
const LARGEST_KEY: u64 = 64 << 10;

/// A text that is shown by nothing, whatever is wrong with it.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    /// From the environment and never from the command line, which everybody on the machine can read.
    pub fn variable(name: &str) -> Option<Self> {
        std::env::var(name).ok().filter(|text| !text.is_empty()).map(Self)
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Hidden")
    }
}

/// What was said of it, wherever.
#[derive(Debug, Default)]
pub struct Stated {
    pub app_id: Option<String>,
    pub private_key: Option<Hidden>,
    pub client_id: Option<String>,
    pub client_secret: Option<Hidden>,
    pub url: Option<String>,
    pub api_url: Option<String>,
    pub ca: Option<PathBuf>,
    pub permissions: Option<String>,
}

/// An app that is whole.
pub struct GithubApp {
    pub options: Options,
    /// The most that tokens of environments may do.
    pub permissions: Permissions,
}

impl fmt::Debug for GithubApp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GithubApp").field("app_id", &self.options.app_id).finish_non_exhaustive()
    }
}

impl GithubApp {
    /// None when there is none. Half of one is an error: tokens would be missing where somebody means to have them.
    pub fn settle(stated: Stated) -> Result<Option<Self>> {
        let permissions = stated.permissions.as_deref().map_or_else(|| Ok(Permissions::default()), Permissions::parse);
        let permissions = permissions.map_err(|error| error.with_code(Code::Usage))?;
        let (app_id, key) = match (stated.app_id, stated.private_key) {
            (None, None) => return Ok(None),
            (Some(_), None) => return Err(half("GITHUB_APP_ID is set, and GITHUB_APP_PRIVATE_KEY is not")),
            (None, Some(_)) => return Err(half("GITHUB_APP_PRIVATE_KEY is set, and GITHUB_APP_ID is not")),
            (Some(app_id), Some(key)) => (check_id("GITHUB_APP_ID", app_id)?, key),
        };
        let login = match (stated.client_id, stated.client_secret) {
            (None, None) => None,
            (Some(id), Some(secret)) => {
                Some((check_id("GITHUB_APP_CLIENT_ID", id)?, SecretValue::new(secret.0.trim().as_bytes().to_vec())))
            }
            _ => return Err(half("GITHUB_APP_CLIENT_ID and GITHUB_APP_CLIENT_SECRET go together")),
        };
        let address = |name: &str, text: &str| {
            Address::parse(text).map_err(|error| usage(format!("{name}: {error}")).suggestion("write it as https://github.example"))
        };
        let web = address("GITHUB_URL", stated.url.as_deref().unwrap_or(WEB))?;
        let api = match (&stated.api_url, &stated.url) {
            (Some(text), _) => address("GITHUB_API_URL", text)?,
            (None, Some(_)) if web != address("GITHUB_URL", WEB)? => web.api_of_server(),
            _ => address("GITHUB_API_URL", API)?,
        };
        let client = Client::new(stated.ca.as_deref(), LIMITS)
            .map_err(|error| usage(format!("github_ca: {error}")).suggestion("name a file of certificates in PEM"))?;
        Ok(Some(Self { options: Options { app_id, key: key_of(&key)?, login, api, web, client }, permissions }))
    }
}

/// The key: PEM, or the path of a file that holds it. Nothing of what was said is told, because it may be the key itself.
fn key_of(stated: &Hidden) -> Result<AppKey> {
    let text = stated.0.trim();
    let is_path = !text.contains("-----BEGIN");
    let wrong = |why: &str| {
        let from = if is_path { "the file that GITHUB_APP_PRIVATE_KEY names" } else { "GITHUB_APP_PRIVATE_KEY" };
        usage(format!("{from} cannot be used as the private key of a GitHub App: {why}"))
            .suggestion("set it to the PEM that GitHub let you download for the app, or to the path of that file")
    };
    if !is_path {
        return AppKey::from_pem(text).map_err(|error| wrong(&error.to_string()));
    }
    let path = Path::new(text);
    let size = std::fs::metadata(path).map_err(|error| wrong(&error.kind().to_string()))?.len();
    if size > LARGEST_KEY {
        return Err(wrong("it is too large for one"));
    }
    let mut pem = std::fs::read_to_string(path).map_err(|error| wrong(&error.kind().to_string()))?;
    let key = AppKey::from_pem(&pem).map_err(|error| wrong(&error.to_string()));
    zeroize::Zeroize::zeroize(&mut pem);
    key
}

fn check_id(name: &str, id: String) -> Result<String> {
    let id = id.trim().to_owned();
    if (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        return Ok(id);
    }
    Err(usage(format!("{name} is no id of a GitHub App")).suggestion("the settings of the app at GitHub show it"))
}

fn half(message: &str) -> Error {
    usage(message.to_owned()).suggestion("set both, or none: docs/github.md says where they come from")
}

fn usage(message: String) -> Error {
    Error::new(Code::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(text: &str) -> Option<Hidden> {
        Some(Hidden(text.to_owned()))
    }

    #[test]
    fn half_an_app_is_an_error_and_none_is_none() {
        assert!(GithubApp::settle(Stated::default()).unwrap().is_none());
        assert!(GithubApp::settle(Stated { url: Some("https://ghe.example".to_owned()), ..Stated::default() }).unwrap().is_none());
        for stated in
            [Stated { app_id: Some("1".to_owned()), ..Stated::default() }, Stated { private_key: hidden("x"), ..Stated::default() }]
        {
            assert_eq!(GithubApp::settle(stated).unwrap_err().code(), Code::Usage);
        }
    }

    #[test]
    fn a_wrong_key_is_said_and_not_shown() {
        let secret = "-----BEGIN RSA PRIVATE KEY-----\nTUlJRXNlY3JldA==\n-----END RSA PRIVATE KEY-----";
        for text in [secret, "/not/there/at/all.pem", "TUlJRXNlY3JldA=="] {
            let error =
                GithubApp::settle(Stated { app_id: Some("1".to_owned()), private_key: hidden(text), ..Stated::default() }).unwrap_err();
            let all = format!("{error} {error:?} {:?}", error.suggested());
            assert!(!all.contains("TUlJ") && !all.contains("/not/there") && all.contains("GITHUB_APP_PRIVATE_KEY"), "{all}");
        }
    }
}
