//! The token that a vault is asked with: given, or had for a role. One that was had is renewed while it can be, and had anew when it ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use serde_json::json;
use stead_app::SourceFailure;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::reply::{Auth, Login};
use super::{Call, Template, Vault, failure};

/// No token is longer.
const LONGEST: u64 = 16 << 10;

/// Who we are to a vault.
pub enum VaultAuth {
    /// As it was in the surroundings of the server.
    Token(Zeroizing<String>),
    /// Read each time: whoever keeps it may change it.
    TokenFile(PathBuf),
    /// AppRole: a role, and a file with its secret id.
    Role { mount: Template, role_id: String, secret_id_file: PathBuf },
}

/// What was had for a role.
#[derive(Default)]
pub(super) struct Session {
    token: Zeroizing<String>,
    had: Option<Had>,
}

struct Had {
    /// Past it another one is had.
    ends: Instant,
    /// Past it this one is lengthened.
    renew: Option<Instant>,
}

impl Session {
    fn keep(&mut self, auth: Auth) -> Zeroizing<String> {
        let now = Instant::now();
        // Without an end it is asked for again in a day all the same.
        let lasts = Duration::from_secs(if auth.lease_duration == 0 { 86_400 } else { auth.lease_duration.min(86_400 * 365) });
        self.had = Some(Had { ends: now + lasts.mul_f64(0.9), renew: auth.renewable.then(|| now + lasts / 2) });
        self.token.clone_from(&auth.client_token);
        auth.client_token
    }
}

impl Vault {
    /// The token to ask with; another one than `refused`, if there is another one to be had.
    pub(super) async fn token(&self, refused: Option<&Zeroizing<String>>) -> Result<Zeroizing<String>, SourceFailure> {
        match &self.settings.auth {
            VaultAuth::Token(token) => Ok(token.clone()),
            VaultAuth::TokenFile(path) => read(path, "the token").await,
            VaultAuth::Role { mount, role_id, secret_id_file } => {
                // One at a time: a secret id may be good for a few logins only.
                let mut session = self.session.lock().await;
                let now = Instant::now();
                if let Some(had) = session.had.as_ref().filter(|had| now < had.ends && refused != Some(&session.token)) {
                    if had.renew.is_none_or(|renew| now < renew) {
                        return Ok(session.token.clone());
                    }
                    if let Some(auth) = self.renewed(&session.token).await {
                        return Ok(session.keep(auth));
                    }
                }
                session.had = None;
                let secret_id = read(secret_id_file, "the secret id").await?;
                Ok(session.keep(self.login(&mount.fill("", ""), role_id, &secret_id).await?))
            }
        }
    }

    async fn login(&self, mount: &str, role_id: &str, secret_id: &str) -> Result<Auth, SourceFailure> {
        let body = json!({ "role_id": role_id, "secret_id": secret_id });
        let body = Zeroizing::new(serde_json::to_vec(&body).unwrap_or_default());
        let reply = self.call(&Call { method: Method::POST, path: format!("/v1/auth/{mount}/login"), token: None, body }).await?;
        match reply.status {
            200 => serde_json::from_slice::<Login>(&reply.body)
                .ok()
                .and_then(|login| login.auth)
                .ok_or_else(|| failure("its answer to the login holds no token", "see whether this is the address of a vault")),
            // 400 is what it says of an id that is wrong or used up.
            400 | 403 => Err(failure(
                "it does not take the role id and the secret id",
                "mend `role_id` and `auth_mount` of the rule, and write a new secret id into `secret_id_file`",
            )),
            404 => Err(failure(format!("no AppRole is mounted at `auth/{mount}`"), "mend `auth_mount` of the rule")),
            status => Err(super::refused(status, &format!("auth/{mount}/login"), &reply.body)),
        }
    }

    async fn renewed(&self, token: &str) -> Option<Auth> {
        let call = Call {
            method: Method::POST,
            path: "/v1/auth/token/renew-self".to_owned(),
            token: Some(token),
            body: Zeroizing::new(b"{}".to_vec()),
        };
        let reply = self.call(&call).await.ok().filter(|reply| reply.status == 200)?;
        serde_json::from_slice::<Login>(&reply.body).ok()?.auth
    }
}

/// A word in a file, without what is white around it.
async fn read(path: &Path, what: &'static str) -> Result<Zeroizing<String>, SourceFailure> {
    let file = path.to_owned();
    let reading = move || {
        use std::io::Read;
        let mut text = Zeroizing::new(String::with_capacity(LONGEST as usize));
        std::fs::File::open(&file)?.take(LONGEST).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(Zeroizing::new(text.trim().to_owned()))
    };
    let failed = |error: String| failure(format!("{what} in {} cannot be read: {error}", path.display()), "let the server's user read it");
    let text = tokio::task::spawn_blocking(reading).await.map_err(|error| failed(error.to_string()))?;
    let text = text.map_err(|error| failed(error.to_string()))?;
    if text.is_empty() { Err(failure(format!("{} is empty", path.display()), &format!("write {what} into it"))) } else { Ok(text) }
}
