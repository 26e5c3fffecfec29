//! One request and its reply.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};

use super::body::{AnyBody, Failure, Replaced, Replacer};
use super::inject::inject;
use super::limits;
use super::message::{asked_upgrade, check_authority, prepare_reply, prepare_request};
use super::redacted::Redacted;
use super::secrets::Broker;
use super::tunnel::Tunnel;
use super::upstream::Sender;
use crate::environment::Environment;
use crate::journal::{Decision, Entry};
use crate::reason::Reason;
use crate::relay::refusal;
use crate::relay::stream::Meter;
use crate::sniff::{Expected, Protocol};

/// Uses of secrets that one connection tells the journal of.
const MOST_TOLD: usize = 64;

/// What all requests of a connection share.
pub struct Service {
    pub environment: Arc<Environment>,
    pub expected: Expected,
    pub plain: bool,
    pub sender: Sender,
    pub meter: Arc<Meter>,
    /// Filled when another protocol takes over.
    pub tunnel: Mutex<Option<Tunnel>>,
    pub told: Mutex<HashSet<Vec<String>>>,
}

impl Service {
    /// What fails here ends the connection, or its stream, as the host would have.
    pub async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<AnyBody>, Failure> {
        let version = request.version();
        match self.exchange(request).await {
            Ok(reply) => Ok(reply),
            Err(failure) => {
                let Some(reason) = failure.downcast_ref::<Reason>().copied() else { return Err(failure) };
                let (host, port) = (&self.expected.host, self.expected.port);
                self.environment.note_refusal(host, port, self.protocol(), reason);
                Ok(page(reason, version))
            }
        }
    }

    fn protocol(&self) -> Protocol {
        if self.plain { Protocol::Http } else { Protocol::Tls }
    }

    async fn exchange(&self, mut request: Request<Incoming>) -> Result<Response<AnyBody>, Failure> {
        let Expected { host, port } = &self.expected;
        let broker = self.environment.broker().filter(|broker| broker.covers(host, *port).is_some());
        let broker = broker.ok_or(Reason::BrokerChanged)?;
        let switching = hyper::upgrade::on(&mut request);
        let (mut parts, body) = request.into_parts();
        check_authority(&parts, &self.expected, self.plain)?;
        if let Sender::Refused(reason) = &self.sender {
            return Err((*reason).into());
        }
        let upgrade = asked_upgrade(&parts).filter(|_| self.sender.version() == Version::HTTP_11);
        prepare_request(&mut parts, &self.expected, self.plain, self.sender.version())?;
        if let Some(upgrade) = &upgrade {
            parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            parts.headers.insert(UPGRADE, upgrade.clone());
        }
        let used = inject(broker.secrets(host, *port, self.plain), &mut parts)?;
        self.tell(&used).await;
        let body = match Replacer::new(broker.secrets(host, *port, self.plain)) {
            Some(replacer) if !body.is_end_stream() => Replaced::new(body, replacer).boxed_unsync(),
            _ => body.map_err(Into::into).boxed_unsync(),
        };
        let bodiless = parts.method == Method::HEAD;
        let mut reply = self.sender.send(Request::from_parts(parts, body)).await?;
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            if upgrade.is_none() {
                return Err(Reason::UpstreamBroken.into());
            }
            let tunnel = Tunnel { inside: switching, outside: hyper::upgrade::on(&mut reply), broker: broker.clone() };
            *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
        }
        self.reply(reply, bodiless, broker).await
    }

    async fn reply(&self, reply: Response<Incoming>, bodiless: bool, broker: Arc<Broker>) -> Result<Response<AnyBody>, Failure> {
        let (mut parts, body) = reply.into_parts();
        let switched = parts.status == StatusCode::SWITCHING_PROTOCOLS;
        let upgrade = parts.headers.get(UPGRADE).filter(|_| switched).cloned();
        let length = parts.headers.get(CONTENT_LENGTH).cloned();
        prepare_reply(&mut parts.headers, &broker, bodiless || body.is_end_stream())?;
        // The words after a status are nobody's to redact, and the known ones say the same.
        parts.extensions.clear();
        parts.version = Version::HTTP_11;
        if switched {
            parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            parts.headers.extend(upgrade.map(|upgrade| (UPGRADE, upgrade)));
        }
        if bodiless || switched || parts.status == StatusCode::NOT_MODIFIED || body.is_end_stream() {
            return Ok(Response::from_parts(parts, body.map_err(Into::into).boxed_unsync()));
        }
        // How long it will be is known only at its end.
        parts.headers.remove(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let body = Redacted::new(body, broker);
        let body = match length {
            Some(..=limits::SMALL) => body.at_once(limits::AT_ONCE).await?,
            _ => body.boxed_unsync(),
        };
        Ok(Response::from_parts(parts, body))
    }

    /// Once for each connection and each set of secrets: names, and never more.
    async fn tell(&self, used: &[&str]) {
        let names: Vec<String> = used.iter().map(|&name| name.to_owned()).collect();
        let first = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            !names.is_empty() && told.len() < MOST_TOLD && told.insert(names.clone())
        };
        if first {
            let entry = Entry::new(&self.expected.host, self.expected.port, self.protocol(), Decision::Brokered);
            self.environment.record(Entry { connection: Some(self.meter.connection), secrets: names, ..entry }).await;
        }
    }
}

/// In the relay's own words, as everywhere else.
fn page(reason: Reason, version: Version) -> Response<AnyBody> {
    let (status, code, text) = refusal(reason);
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    let mut reply = Response::new(body);
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    if let Ok(code) = HeaderValue::try_from(code) {
        reply.headers_mut().insert("stead-egress", code);
    }
    if version != Version::HTTP_2 {
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}
