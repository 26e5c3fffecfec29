//! Who may come to a port, and by which of three things that is seen: a key, a token in the URL, a token in a cookie.

use std::sync::Arc;

use axum::extract::Request;
use http::header::{ACCEPT, AUTHORIZATION, ORIGIN};
use http::{HeaderMap, Method};
use stead_app::identity::access::Arrival;
use stead_app::ports::{PortCredential, PortGuest};
use stead_domain::ids::RequestId;
use stead_domain::port_origin::PortName;
use stead_domain::{Code, Error, Result};

use super::{Ports, cookies, request};
use crate::listen::Peer;

/// How somebody who was let in came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Key,
    Url,
    Cookie,
}

/// What somebody brought.
pub struct Arrived {
    shown: PortCredential,
    pub by: By,
    arrival: Arrival,
}

impl Arrived {
    pub fn with(ports: &Ports, name: PortName, asked: &Request, request_id: RequestId) -> Result<Self> {
        let (shown, by) = shown(ports, asked)?;
        if by == By::Cookie {
            check_own_page(ports, name, asked)?;
        }
        let source = asked.extensions().get::<Arc<Peer>>().map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
        Ok(Self { shown, by, arrival: Arrival { source, request_id, lease: None } })
    }

    pub async fn admit(self, ports: &Ports, name: PortName) -> Result<PortGuest> {
        let (key, guest) = ports.app.admit_to_port(name, self.shown, self.arrival).await?;
        if let Some(key) = key {
            ports.limits.count(key).map_err(|(error, _)| error)?;
        }
        guest
    }
}

/// A key that is sent decides alone, and then a token in the URL. Other words in `Authorization` are not for us, and go no further.
fn shown(ports: &Ports, asked: &Request) -> Result<(PortCredential, By)> {
    let mut sent = asked.headers().get_all(AUTHORIZATION).iter().map(|value| value.to_str().unwrap_or_default());
    let (authorization, second) = (sent.next(), sent.next());
    if second.is_some() {
        return Err(Error::new(Code::BadRequest, "the header `Authorization` is sent more than once").suggestion("send it once"));
    }
    let key = authorization.and_then(|text| text.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    if let Some((_, key)) = key.filter(|(_, key)| key.trim().starts_with("stk_")) {
        return Ok((PortCredential::Key(key.trim().to_owned()), By::Key));
    }
    let tokens = request::tokens(asked.uri());
    if !tokens.is_empty() {
        return Ok((PortCredential::Tokens(tokens), By::Url));
    }
    let tokens = cookies::tokens(asked.headers(), ports.origin.secure);
    if !tokens.is_empty() {
        return Ok((PortCredential::Tokens(tokens), By::Cookie));
    }
    Err(Error::new(Code::Unauthorized, "this port is not open to everybody")
        .suggestion("open a signed URL (`stead port url ENVIRONMENT PORT`), or send `Authorization: Bearer stk_…`"))
}

/// A browser sends a cookie whoever asks it to. What another page asks for, of a neighbour's port for instance, is not what the person
/// asked for: only links lead here from elsewhere.
fn check_own_page(ports: &Ports, name: PortName, asked: &Request) -> Result<()> {
    let headers = asked.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_link = is_reading(asked.method()) && text("sec-fetch-mode").is_none_or(|mode| mode == "navigate");
    let own = match (headers.get(ORIGIN), text("sec-fetch-site")) {
        (Some(origin), _) => is_origin_of(ports, name, asked, origin.to_str().unwrap_or_default()),
        (None, Some(site)) => matches!(site, "same-origin" | "none") || is_link,
        (None, None) => true,
    };
    if own {
        return Ok(());
    }
    Err(Error::new(Code::Forbidden, "another page asked for this, and the cookie of this port is not for it")
        .suggestion("open the port itself, or send `Authorization: Bearer stk_…`"))
}

/// Whether an origin is the one that this request came to, however it is reached.
fn is_origin_of(ports: &Ports, name: PortName, asked: &Request, origin: &str) -> bool {
    let Some((_, host)) = origin.split_once("://") else { return false };
    let came_to = asked.uri().authority().map(http::uri::Authority::as_str);
    let came_to = came_to.or_else(|| asked.headers().get(http::header::HOST).and_then(|host| host.to_str().ok()));
    ports.origin.name(host) == Some(name) && came_to.is_some_and(|came_to| came_to.eq_ignore_ascii_case(host))
}

fn is_reading(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// Whether somebody is on the way here in a browser, and follows where they are sent.
pub fn is_navigation(asked: &Request) -> bool {
    is_reading(asked.method()) && !asked.headers().contains_key(http::header::UPGRADE) && wants_page(asked.headers())
}

pub fn wants_page(headers: &HeaderMap) -> bool {
    match headers.get("sec-fetch-mode") {
        Some(mode) => mode == "navigate",
        None => headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|accept| accept.contains("text/html")),
    }
}
