//! Sending requests: one connection kept open, repetition where it is safe, and replies as types.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use serde::de::DeserializeOwned;
use stead_domain::Context;
use stead_domain::error::ErrorBody;
use stead_domain::lease::LeaseToken;
use stead_domain::secret::SecretValue;
use tokio::sync::Mutex;

use crate::connection::{Connection, Interruption, within};
use crate::outgoing::{Outgoing, Upload};
use crate::request::escape;
use crate::{ClientError, Endpoint, Key, Request, Response, Result, tls};

const LONGEST_WAIT: u64 = 5;
const MOST_WAITS: u32 = 3;
/// How long a server that is gone may take to come back, as for an upgrade.
const COMING_BACK: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(250);
/// No error comes near it.
const LARGEST_ERROR: usize = 1 << 20;

/// A reply that is still coming.
pub(crate) struct Opened {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Incoming,
    /// Where the connection itself can be had, if it becomes something else.
    pub upgrade: Option<OnUpgrade>,
    /// Keeps it coming.
    _connection: Connection,
}

pub struct Client {
    endpoint: Endpoint,
    key: Option<Key>,
    project: String,
    /// What every call presents as the holder's.
    pub(crate) lease: Option<LeaseToken>,
    /// A token of the caller's own at GitHub, for calls that need one.
    pub(crate) github: Option<SecretValue>,
    context: Context,
    /// A file of certificates to trust instead of the machine's.
    trusted: Option<PathBuf>,
    /// The one connection, between requests.
    connection: Mutex<Option<Connection>>,
}

impl Client {
    pub fn new(endpoint: Endpoint, key: Option<Key>, project: impl Into<String>, context: Context) -> Self {
        Self { endpoint, key, project: project.into(), lease: None, github: None, context, trusted: None, connection: Mutex::new(None) }
    }

    /// Trusts the certificates of this file and no others.
    #[must_use]
    pub fn trusting(mut self, certificates: Option<PathBuf>) -> Self {
        self.trusted = certificates;
        self
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub fn project(&self) -> &str {
        &self.project
    }

    /// The path of the client's project with `rest` below it.
    pub fn project_path(&self, rest: &str) -> String {
        format!("/v1/projects/{}{rest}", escape(&self.project))
    }

    /// A word for one attempt, which nobody used before.
    pub fn new_key(&self) -> String {
        let random: [u8; 16] = self.context.random();
        random.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Opens the connection without asking anything.
    pub async fn connect(&self) -> Result<()> {
        let mut slot = self.connection.lock().await;
        if slot.is_none() {
            *slot = Some(Connection::open(&self.endpoint, self.trusted.as_deref()).await?);
        }
        Ok(())
    }

    /// Sends a request and answers with whatever came back, errors of the server included.
    ///
    /// A lost connection is tried once more where a repetition has the same outcome: POST carries an `Idempotency-Key`, and a PATCH is
    /// only repeated when it was never sent.
    pub async fn send(&self, mut request: Request) -> Result<Response> {
        if request.method == Method::POST && !request.has_header("idempotency-key") {
            request = request.header("idempotency-key", &self.new_key())?;
        }
        let (mut repeated, mut waits) = (false, 0);
        loop {
            let attempt = self.attempt(&request);
            let outcome = match request.limit {
                Some(limit) => within(limit, attempt).await,
                None => Some(attempt.await),
            };
            let interruption = match outcome {
                None => {
                    let seconds = request.limit.unwrap_or_default().as_secs();
                    return Err(ClientError::Timeout { address: self.endpoint.to_string(), seconds });
                }
                Some(Err(failure)) => return Err(failure),
                Some(Ok(Ok(response))) => match wait_before_repeating(&response) {
                    Some(wait) if request.patient && waits < MOST_WAITS => {
                        waits += 1;
                        tokio::time::sleep(wait).await;
                        continue;
                    }
                    _ => return Ok(response),
                },
                Some(Ok(Err(interruption))) => interruption,
            };
            let (cause, may_repeat) = match interruption {
                Interruption::Unsent(cause) => (cause, true),
                Interruption::Lost(cause) => (cause, request.method != Method::PATCH),
            };
            if repeated || !may_repeat {
                let lost = self.lost(cause);
                // A server that expects TLS hangs up on whoever begins without.
                return Err(if self.endpoint.is_secure() { lost } else { tls::wrong_scheme(&self.endpoint).await.unwrap_or(lost) });
            }
            repeated = true;
        }
    }

    /// Like [`Self::send`], but an error of the server is an error here.
    pub async fn request(&self, request: Request) -> Result<Response> {
        let response = self.send(request).await?;
        if response.is_success() {
            return Ok(response);
        }
        // Some say so, in words of their own, where TLS is expected.
        if response.status == 400
            && !self.endpoint.is_secure()
            && serde_json::from_slice::<ErrorBody>(&response.body).is_err()
            && let Some(wrong) = tls::wrong_scheme(&self.endpoint).await
        {
            return Err(wrong);
        }
        Err(self.refusal(&response))
    }

    pub async fn json<T: DeserializeOwned>(&self, request: Request) -> Result<T> {
        let response = self.request(request).await?;
        self.parse(&response)
    }

    pub(crate) fn parse<T: DeserializeOwned>(&self, response: &Response) -> Result<T> {
        serde_json::from_slice(&response.body).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => ClientError::Shape { address: self.endpoint.to_string(), cause: error.to_string() },
            _ => self.not_json(response),
        })
    }

    async fn attempt(&self, request: &Request) -> Result<Result<Response, Interruption>> {
        let mut slot = self.connection.lock().await;
        // Taken out while it is in use: a request that is given up leaves no half-read connection behind.
        let kept = match slot.take() {
            Some(mut kept) => kept.is_ready().await.then_some(kept),
            None => None,
        };
        let mut connection = match kept {
            Some(kept) => kept,
            None => Connection::open(&self.endpoint, self.trusted.as_deref()).await?,
        };
        let outcome = connection.send(self.write(request)?).await;
        if outcome.is_ok() {
            *slot = Some(connection);
        }
        Ok(outcome)
    }

    /// Sends a request over a connection of its own, and gives its reply while that is still coming.
    pub(crate) async fn open(&self, request: &Request) -> Result<Result<Opened, Interruption>> {
        let mut connection = Connection::open(&self.endpoint, self.trusted.as_deref()).await?;
        let reply = connection.open_reply(self.write(request)?).await;
        Ok(reply.map(|(mut head, body)| Opened {
            upgrade: head.extensions.remove(),
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            _connection: connection,
        }))
    }

    /// Opens a reply that can be asked for any number of times: a server that is gone or busy is waited for. Errors of the server are errors.
    pub(crate) async fn open_patiently(&self, request: &Request) -> Result<Opened> {
        let begun = tokio::time::Instant::now();
        loop {
            let failure = match self.open(request).await {
                Ok(Ok(opened)) if (200..300).contains(&opened.status) => return Ok(opened),
                Ok(Ok(opened)) => match opened.status {
                    429 | 503 => self.refused(opened).await,
                    _ => return Err(self.refused(opened).await),
                },
                Ok(Err(Interruption::Unsent(cause) | Interruption::Lost(cause))) => self.lost(cause),
                Err(unreachable @ ClientError::Unreachable { .. }) => unreachable,
                Err(error) => return Err(error),
            };
            if begun.elapsed() > COMING_BACK {
                return Err(failure);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends a request with a body that is read meanwhile, once: who can read it again may send it again.
    pub(crate) async fn upload(&self, request: &Request, upload: Upload) -> Result<Response> {
        let source = upload.failure();
        let mut connection = Connection::open(&self.endpoint, self.trusted.as_deref()).await?;
        let response = match connection.send(self.message(request, Outgoing::Read(upload))?).await {
            Ok(response) => response,
            Err(Interruption::Unsent(cause) | Interruption::Lost(cause)) => {
                let source = source.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
                return Err(source.map_or_else(|| self.lost(cause), |cause| ClientError::Source { cause }));
            }
        };
        if response.is_success() { Ok(response) } else { Err(self.refusal(&response)) }
    }

    /// Sends a request that makes the connection something else, and gives it. Whoever refuses says why.
    pub(crate) async fn become_something_else(&self, request: &Request) -> Result<Upgraded> {
        let mut opened = match self.open(request).await? {
            Ok(opened) => opened,
            Err(Interruption::Unsent(cause) | Interruption::Lost(cause)) => return Err(self.lost(cause)),
        };
        if opened.status != 101 {
            return Err(self.refused(opened).await);
        }
        let upgrade = opened.upgrade.take().ok_or_else(|| self.lost("the connection cannot be used".to_owned()))?;
        upgrade.await.map_err(|error| self.lost(error.to_string()))
    }

    pub(crate) fn lost(&self, cause: String) -> ClientError {
        ClientError::Lost { address: self.endpoint.to_string(), cause }
    }

    async fn refused(&self, opened: Opened) -> ClientError {
        let body = Limited::new(opened.body, LARGEST_ERROR).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        self.refusal(&Response { status: opened.status, headers: opened.headers, body })
    }

    fn write(&self, request: &Request) -> Result<http::Request<Outgoing>> {
        self.message(request, Outgoing::Whole(Full::new(request.body.clone().unwrap_or_default())))
    }

    fn message(&self, request: &Request, body: Outgoing) -> Result<http::Request<Outgoing>> {
        let failed = |cause: String| ClientError::Request { cause };
        let mut message = http::Request::builder()
            .method(request.method.clone())
            .uri(format!("{}{}", self.endpoint.base(), request.target))
            .body(body)
            .map_err(|error| failed(format!("`{}`: {error}", request.target)))?;
        let headers = message.headers_mut();
        headers.extend(request.headers.clone());
        let host = HeaderValue::from_str(&self.endpoint.authority()).map_err(|error| failed(error.to_string()))?;
        headers.insert("host", host);
        headers.entry("user-agent").or_insert(HeaderValue::from_static(concat!("stead/", env!("CARGO_PKG_VERSION"))));
        headers.entry("accept").or_insert(HeaderValue::from_static("application/json"));
        if let (Some(key), false) = (&self.key, headers.contains_key("authorization")) {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.reveal()))
                .map_err(|_| failed("the key holds characters that no key has".to_owned()))?;
            value.set_sensitive(true);
            headers.insert("authorization", value);
        }
        if let (Some(lease), false) = (&self.lease, headers.contains_key("stead-lease")) {
            let mut value =
                HeaderValue::from_str(&lease.0).map_err(|_| failed("the lease's token holds characters that no token has".to_owned()))?;
            value.set_sensitive(true);
            headers.insert("stead-lease", value);
        }
        if let Some(token) = &self.github {
            let mut value = HeaderValue::from_bytes(token.bytes())
                .map_err(|_| failed("the token for GitHub holds characters that none has".to_owned()))?;
            value.set_sensitive(true);
            headers.insert("x-github-token", value);
        }
        Ok(message)
    }

    /// The error that a reply stands for.
    pub(crate) fn refusal(&self, response: &Response) -> ClientError {
        match serde_json::from_slice::<ErrorBody>(&response.body) {
            Ok(body) => ClientError::Reply { status: response.status, body: Box::new(body) },
            Err(_) => self.not_json(response),
        }
    }

    fn not_json(&self, response: &Response) -> ClientError {
        let text = String::from_utf8_lossy(&response.body);
        let mut beginning: String = text.trim().chars().take(120).collect();
        if beginning.is_empty() {
            beginning.push_str("an empty body");
        }
        let kind = response.header("content-type").unwrap_or("no content type").to_owned();
        ClientError::NotJson { address: self.endpoint.to_string(), status: response.status, kind, beginning }
    }
}

/// How long a busy server asks us to wait, where that is short enough to do it here.
fn wait_before_repeating(response: &Response) -> Option<Duration> {
    if !matches!(response.status, 429 | 503) {
        return None;
    }
    let seconds: u64 = response.header("retry-after")?.trim().parse().ok()?;
    (seconds <= LONGEST_WAIT).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
