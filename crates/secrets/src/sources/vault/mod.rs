//! HashiCorp Vault and OpenBao: secrets of the engine KV version 2, over HTTP.

mod address;
mod login;
mod reply;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, header};
use stead_app::{SecretSource, SourceFailure};
use stead_domain::secret::{LONGEST_VALUE, SecretValue};
use stead_outbound::{Client, OutboundError, Reply};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::Template;
pub use address::VaultAddress;
use login::Session;
pub use login::VaultAuth;

/// What a rule says of a vault.
pub struct VaultSettings {
    pub address: VaultAddress,
    /// Others of the same cluster, which a standby may send us to with the token.
    pub standbys: Vec<VaultAddress>,
    pub namespace: Option<String>,
    /// Where the engine is mounted.
    pub mount: Template,
    pub path: Template,
    pub field: Template,
    pub auth: VaultAuth,
}

pub struct Vault {
    settings: VaultSettings,
    client: Client,
    session: Mutex<Session>,
}

/// A call of ours.
struct Call<'call> {
    method: Method,
    path: String,
    token: Option<&'call str>,
    body: Zeroizing<Vec<u8>>,
}

impl Vault {
    pub fn new(settings: VaultSettings, client: Client) -> Self {
        Self { settings, client, session: Mutex::default() }
    }

    async fn read(&self, path: &str, token: &str) -> Result<Reply, SourceFailure> {
        self.call(&Call { method: Method::GET, path: format!("/v1/{path}"), token: Some(token), body: Zeroizing::default() }).await
    }

    /// One that stands by may send us to the active one: that is followed once, and only to where the rule says.
    async fn call(&self, call: &Call<'_>) -> Result<Reply, SourceFailure> {
        let address = &self.settings.address;
        let reply = self.send(address, call).await?;
        if !matches!(reply.status, 301 | 302 | 307 | 308) {
            return Ok(reply);
        }
        let to = reply.headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).and_then(VaultAddress::of_location);
        match self.settings.standbys.iter().chain([address]).find(|known| Some(*known) == to.as_ref()) {
            Some(active) => self.send(active, call).await,
            None => {
                let to = to.map_or_else(|| "nowhere".to_owned(), |to| to.to_string());
                Err(failure(
                    format!("it stands by and sends us to {to}, where the token is not taken unasked"),
                    "give the address of the active one, or name the others in `standby_addresses` of the rule",
                ))
            }
        }
    }

    async fn send(&self, address: &VaultAddress, call: &Call<'_>) -> Result<Reply, SourceFailure> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{address}{}", call.path))
            .header("x-vault-request", "true")
            .header(header::ACCEPT, "application/json");
        if let Some(token) = call.token {
            request = request.header("x-vault-token", token);
        }
        if let Some(namespace) = &self.settings.namespace {
            request = request.header("x-vault-namespace", namespace);
        }
        if !call.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let odd = |_| failure("the token holds what no token does".to_owned(), "look at where the token comes from");
        let request = request.body(Bytes::copy_from_slice(&call.body)).map_err(odd)?;
        self.client.send(request).await.map_err(|error| unanswered(&error))
    }

    fn path(&self, project: &str, name: &str) -> String {
        let VaultSettings { mount, path, .. } = &self.settings;
        format!("{}/data/{}", mount.fill(project, name), path.fill(project, name))
    }
}

#[async_trait]
impl SecretSource for Vault {
    fn describe(&self) -> String {
        format!("the vault {}", self.settings.address)
    }

    fn place_of(&self, project: &str, name: &str) -> String {
        format!("`{}`, field `{}`, of {}", self.path(project, name), self.settings.field.fill(project, name), self.describe())
    }

    async fn fetch(&self, project: &str, name: &str) -> Result<Option<SecretValue>, SourceFailure> {
        let path = self.path(project, name);
        let token = self.token(None).await?;
        let mut reply = self.read(&path, &token).await?;
        if reply.status == 403 {
            // A token may have ended before its time, and a file may hold another one by now.
            let another = self.token(Some(&token)).await?;
            if another != token {
                reply = self.read(&path, &another).await?;
            }
        }
        let field = self.settings.field.fill(project, name);
        match reply.status {
            200 => {
                let found = reply::field(&reply.body, &field).map_err(|problem| problem.failure(&path, &field))?;
                if found.as_ref().is_some_and(|value| value.len() > LONGEST_VALUE) {
                    return Err(failure(
                        format!("`{path}` is longer than {LONGEST_VALUE} bytes"),
                        "what is longer is a file, and no secret",
                    ));
                }
                Ok(found.map(|value| SecretValue::new(value.as_bytes().to_vec())))
            }
            404 if reply::says_nothing(&reply.body) => Ok(None),
            status => Err(refused(status, &path, &reply.body)),
        }
    }
}

fn failure(message: impl Into<String>, suggestion: &str) -> SourceFailure {
    SourceFailure { message: message.into(), suggestion: suggestion.to_owned() }
}

fn unanswered(error: &OutboundError) -> SourceFailure {
    let suggestion = match error {
        OutboundError::Untrusted { .. } => "name the authority that signed its certificate in `ca_file` of the rule",
        OutboundError::TooLarge { .. } => "keep a secret of its own under that path",
        _ => "see whether it runs, and whether this host reaches it; then try again",
    };
    failure(error.to_string(), suggestion)
}

/// What a vault that says no means. Its own words are not repeated: nobody knows what is in them.
fn refused(status: u16, path: &str, body: &[u8]) -> SourceFailure {
    match status {
        403 => failure(format!("it does not let us read `{path}`"), "give the token or role a policy that lets it read that path"),
        404 => failure(
            format!("nothing that keeps secrets is mounted where `{path}` begins"),
            "mend `mount` of the rule: it names an engine KV of version 2",
        ),
        400 => {
            failure(format!("it does not take `{path}`"), "mend `mount` and `namespace` of the rule; the engine must be KV of version 2")
        }
        503 if reply::is_sealed(body) => failure("it is sealed", "unseal it"),
        429 | 472 | 473 => failure("it stands by, and does not pass requests on", "give the address of the active one"),
        501 => failure("it is not initialized", "initialize it"),
        503 => failure("it is not available", "see what it says of itself: `vault status`"),
        500..=599 => failure(format!("it failed ({status})"), "see its log"),
        _ => failure(format!("it answered {status}"), "see whether this is the address of a vault"),
    }
}
