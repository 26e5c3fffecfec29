//! A call to the API, with what may be tried again: what GitHub says to try later, once or twice, and one that it took for another time's.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method};
use serde_json::Value;
use stead_app::GitFailure;
use stead_domain::Timestamp;
use stead_domain::secret::SecretValue;

use crate::Github;
use stead_outbound::Reply;

use crate::http::{Authorization, Question, ask};
use crate::replies::said;

/// How often something is asked that may be answered otherwise a moment later.
const ATTEMPTS: u32 = 3;
/// The first pause, which doubles.
const PAUSE: Duration = Duration::from_millis(250);
/// Nobody who waits for a start waits for longer than this because GitHub says so.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Who asks.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    App,
    Token(&'a SecretValue),
    /// The app's client, with its secret.
    Client,
}

impl Github {
    pub(crate) async fn call(&self, by: By<'_>, method: Method, path: String, body: Option<&Value>) -> Result<Reply, GitFailure> {
        let mut now = self.context.now();
        let mut corrected = false;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let reply = self.once(by, method.clone(), path.clone(), body, now).await;
            let (failure, pause) = match reply {
                Ok(reply) if is_success(&reply) => return Ok(reply),
                Ok(reply) => {
                    // A signature is of a moment: if the clocks differ, once more by GitHub's own.
                    if reply.status == 401 && matches!(by, By::App) && !corrected {
                        corrected = true;
                        if let Some(theirs) = date_of(&reply.headers) {
                            now = theirs;
                        }
                        continue;
                    }
                    let failure = failure_of(&reply);
                    match pause_before(&reply, attempt) {
                        Some(pause) => (failure, pause),
                        None => return Err(failure),
                    }
                }
                Err(why) => (GitFailure::Failed(why), PAUSE * (1 << (attempt - 1))),
            };
            if attempt >= ATTEMPTS {
                return Err(failure);
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&self, by: By<'_>, method: Method, path: String, body: Option<&Value>, now: Timestamp) -> Result<Reply, String> {
        let signed;
        let authorization = match by {
            By::App => {
                signed = self.options.key.token(&self.options.app_id, now)?;
                Authorization::Bearer(&signed)
            }
            By::Token(token) => Authorization::Bearer(token.text().ok_or("a token is no text")?),
            By::Client => {
                let (id, secret) = self.options.login.as_ref().ok_or("the app has no client secret")?;
                signed = STANDARD.encode(format!("{id}:{}", secret.text().unwrap_or_default()));
                Authorization::Basic(&signed)
            }
        };
        let body = body.map(|body| body.to_string().into_bytes());
        ask(&self.options.client, Question { method, at: &self.options.api, path, authorization, body }).await
    }
}

pub(crate) fn is_success(reply: &Reply) -> bool {
    (200..300).contains(&reply.status)
}

pub(crate) fn failure_of(reply: &Reply) -> GitFailure {
    let said = said(reply);
    match reply.status {
        _ if is_limit(reply) => GitFailure::Failed(format!("GitHub asks to come back later: {said}")),
        401 => GitFailure::Rejected(said),
        403 => GitFailure::Forbidden(said),
        404 => GitFailure::NotFound(said),
        422 => GitFailure::Unprocessable(said),
        status @ 300..=399 => GitFailure::Failed(format!("GitHub sends elsewhere ({status}), and nobody is followed with a credential")),
        status => GitFailure::Failed(format!("GitHub answered {status}: {said}")),
    }
}

fn is_limit(reply: &Reply) -> bool {
    let spent = reply.headers.get("x-ratelimit-remaining").is_some_and(|left| left == "0");
    match reply.status {
        429 => true,
        403 => spent || reply.headers.contains_key("retry-after"),
        _ => false,
    }
}

/// How long to wait before the next attempt; none where another one is no use.
fn pause_before(reply: &Reply, attempt: u32) -> Option<Duration> {
    let usual = PAUSE * (1 << (attempt - 1));
    if is_limit(reply) {
        let told = reply.headers.get("retry-after").and_then(|text| text.to_str().ok()?.parse().ok()).map(Duration::from_secs);
        // A limit that says nothing of when it ends is one of an hour.
        return told.filter(|told| *told <= LONGEST_PAUSE).map(|told| told.max(usual));
    }
    (500..600).contains(&reply.status).then_some(usual)
}

/// What the other side's clock says.
fn date_of(headers: &HeaderMap) -> Option<Timestamp> {
    Timestamp::from_http_date(headers.get(http::header::DATE)?.to_str().ok()?)
}
