//! What is said to GitHub, and how.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request};
use stead_outbound::{Client, Limits, Reply};

use crate::address::Address;

/// A page of a hundred repositories is less than this.
pub const LIMITS: Limits = Limits { time: Duration::from_secs(20), bytes: 4 << 20 };

/// Who asks.
#[derive(Clone, Copy)]
pub(crate) enum Authorization<'a> {
    Bearer(&'a str),
    /// Name and password, in base64.
    Basic(&'a str),
    None,
}

pub(crate) struct Question<'a> {
    pub method: Method,
    pub at: &'a Address,
    /// Below the address, with its query.
    pub path: String,
    pub authorization: Authorization<'a>,
    pub body: Option<Vec<u8>>,
}

/// Sends it and waits for all of the reply. What went wrong holds nothing of what was sent.
pub(crate) async fn ask(client: &Client, question: Question<'_>) -> Result<Reply, String> {
    client.send(request(question)?).await.map_err(|error| error.to_string())
}

fn request(question: Question<'_>) -> Result<Request<Bytes>, String> {
    let Question { method, at, path, authorization, body } = question;
    let value = |text: String| HeaderValue::from_str(&text).map_err(|_| "what is sent to GitHub is no text".to_owned());
    let mut request = Request::new(Bytes::from(body.clone().unwrap_or_default()));
    *request.method_mut() = method;
    *request.uri_mut() = format!("{at}{path}").parse().map_err(|_| "an address at GitHub is none".to_owned())?;
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("stead/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static("application/vnd.github+json"));
    headers.insert("x-github-api-version", HeaderValue::from_static("2022-11-28"));
    if body.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let credential = match authorization {
        Authorization::Bearer(token) => Some(value(format!("Bearer {token}"))?),
        Authorization::Basic(pair) => Some(value(format!("Basic {pair}"))?),
        Authorization::None => None,
    };
    if let Some(mut credential) = credential {
        credential.set_sensitive(true);
        headers.insert(AUTHORIZATION, credential);
    }
    Ok(request)
}
