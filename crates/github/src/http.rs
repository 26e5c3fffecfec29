//! One request, one connection, one reply of a bounded length in a bounded time. Redirects are not followed: whoever answered with one would
//! be handed the credential.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::address::Address;
use crate::trust::Trust;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const REPLY_LIMIT: Duration = Duration::from_secs(20);
/// A page of a hundred repositories is less than one.
const LARGEST_REPLY: usize = 8 << 20;

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

pub(crate) struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Sends it and waits for all of the reply. What went wrong holds nothing of what was sent.
pub(crate) async fn ask(trust: &Trust, question: Question<'_>) -> Result<Reply, String> {
    let at = question.at;
    let request = request(question)?;
    tokio::time::timeout(REPLY_LIMIT, answered(trust, at, request))
        .await
        .unwrap_or_else(|_| Err(format!("{} did not answer within {} seconds", at.authority(), REPLY_LIMIT.as_secs())))
}

async fn answered(trust: &Trust, at: &Address, request: Request<Full<Bytes>>) -> Result<Reply, String> {
    let unreachable = |error: &dyn std::fmt::Display| format!("{} cannot be reached: {error}", at.authority());
    let connecting = TcpStream::connect((at.host_name(), at.port()));
    let stream = tokio::time::timeout(CONNECT_LIMIT, connecting)
        .await
        .map_err(|_| unreachable(&"it does not answer"))?
        .map_err(|error| unreachable(&error))?;
    stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
    if !at.secure {
        return exchanged(at, TokioIo::new(stream), request).await;
    }
    let name = ServerName::try_from(at.host_name().to_owned()).map_err(|error| unreachable(&error))?;
    let stream = trust.connector()?.connect(name, stream).await.map_err(|error| unreachable(&error))?;
    exchanged(at, TokioIo::new(stream), request).await
}

async fn exchanged<S: Read + Write + Send + Unpin + 'static>(
    at: &Address,
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<Reply, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{} hung up: {error}", at.authority());
    let (mut sender, connection) = handshake(stream).await.map_err(|error| failed(&error))?;
    // Owned here: it ends with this call.
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // What goes wrong here reaches the caller through the request that it broke.
        let _ = connection.await;
    });
    let (head, body) = sender.send_request(request).await.map_err(|error| failed(&error))?.into_parts();
    let body = Limited::new(body, LARGEST_REPLY).collect().await.map_err(|error| failed(&error))?;
    Ok(Reply { status: head.status, headers: head.headers, body: body.to_bytes() })
}

fn request(question: Question<'_>) -> Result<Request<Full<Bytes>>, String> {
    let Question { method, at, path, authorization, body } = question;
    let value = |text: String| HeaderValue::from_str(&text).map_err(|_| "what is sent to GitHub is no text".to_owned());
    let mut request = Request::new(Full::new(Bytes::from(body.clone().unwrap_or_default())));
    *request.method_mut() = method;
    *request.uri_mut() = format!("{}{path}", at.base).parse().map_err(|_| "an address at GitHub is none".to_owned())?;
    let headers = request.headers_mut();
    headers.insert(HOST, value(at.authority())?);
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
