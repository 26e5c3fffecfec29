//! One request from a caller to what listens inside, and its response back.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use stead_app::ports::PortGuest;
use stead_domain::ids::RequestId;
use stead_domain::port_origin::PortName;
use stead_domain::{Code, Error, Result};
use stead_tunnel::End;
use tokio::net::TcpStream;

use super::admission::{Arrived, By, is_navigation};
use super::passing::{Back, Passing};
use super::pool::Sender;
use super::{Ports, cookies, page, request, response};
use crate::framing;
use crate::listen::{Peer, Seat, bare};

/// How long an answer may be in coming. What takes longer says something meanwhile, or is asked for again.
const PATIENCE: Duration = Duration::from_secs(300);
/// The largest head of an answer; a body is read in pieces of at most as much.
const LARGEST_HEAD: usize = 256 << 10;
/// How often it is looked at whether somebody with an open connection still may have it.
const LOOK: Duration = Duration::from_secs(15);

pub async fn serve(ports: &Ports, name: PortName, mut asked: Request, request_id: RequestId) -> Result<Response> {
    if asked.method() == Method::CONNECT {
        return Err(Error::new(Code::MethodNotAllowed, "this is no proxy to elsewhere").suggestion("`stead port forward` opens a tunnel"));
    }
    framing::check(&asked)?;
    let arrived = Arrived::with(ports, name, &asked, request_id)?;
    let by = arrived.by;
    let guest = arrived.admit(ports, name).await?;
    let target = request::target(asked.uri());
    if let (By::Url, true, Some((token, left))) = (by, is_navigation(&asked), &guest.token) {
        return page::redirect(&local(&target), &cookies::ours(token, *left, ports.origin.secure));
    }
    let seat = asked.extensions().get::<Arc<Seat>>().cloned();
    let peer = match asked.extensions().get::<Arc<Peer>>().map(|peer| &**peer) {
        Some(Peer::Remote(address)) => Some(*address),
        _ => None,
    };
    let host = asked.uri().authority().map(ToString::to_string);
    let host = host.or_else(|| asked.headers().get(http::header::HOST)?.to_str().ok().map(str::to_owned)).unwrap_or_default();
    // Only HTTP/1.1 has connections that become something else.
    let upgrade = request::upgrade(asked.headers()).filter(|_| asked.version() == Version::HTTP_11);
    let upgrade = upgrade.map(|_| hyper::upgrade::on(&mut asked));
    if upgrade.is_none() {
        asked.headers_mut().remove(http::header::UPGRADE);
    }
    request::clean(asked.headers_mut(), &host, ports.origin.secure, peer)?;
    *asked.uri_mut() = target.parse().map_err(|_| Error::new(Code::BadRequest, "the path cannot be understood"))?;
    *asked.version_mut() = Version::HTTP_11;
    *asked.extensions_mut() = http::Extensions::new();
    let (sender, answer) = exchange(ports, name, &guest, asked).await?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        return switch(ports, guest, answer, upgrade, seat);
    }
    let (mut parts, body) = answer.into_parts();
    response::clean(&mut parts.headers, false);
    parts.extensions = http::Extensions::new();
    // How it spoke to us is not how we speak.
    parts.version = Version::HTTP_11;
    let body = Passing::new(body, Back { sender, name, pool: Arc::clone(&ports.pool) });
    Ok(Response::from_parts(parts, Body::new(body)))
}

/// An address on the same host, and on no other: `//elsewhere` would be one.
fn local(target: &str) -> String {
    format!("/{}", target.trim_start_matches(['/', '\\']))
}

/// Over a connection that waits, or over a new one. What was never sent over one that closed meanwhile is sent over another.
async fn exchange(ports: &Ports, name: PortName, guest: &PortGuest, asked: Request) -> Result<(Sender, http::Response<Incoming>)> {
    let mut asked = asked;
    if let Some(mut sender) = ports.pool.take(name).await {
        // What can be asked twice is: a connection may close at the very moment that it is used.
        let again = is_repeatable(&asked).then(|| copy(&asked));
        match tokio::time::timeout(PATIENCE, sender.try_send_request(asked)).await {
            Err(_) => return Err(silent(name)),
            Ok(Ok(answer)) => return Ok((sender, answer)),
            Ok(Err(mut failure)) => match failure.take_message().or(again) {
                Some(unsent) => asked = unsent,
                None => return Err(failed(name, failure.error())),
            },
        }
    }
    let connection = ports.app.connect_to_port(guest.project, name.environment, name.port).await?;
    let mut builder = http1::Builder::new();
    builder.max_buf_size(LARGEST_HEAD);
    let (mut sender, driver) = builder.handshake(TokioIo::new(connection)).await.map_err(|error| failed(name, &error))?;
    ports.tasks.spawn(async move {
        // What goes wrong reaches whoever asked through the request that it broke.
        let _ = driver.with_upgrades().await;
    });
    match tokio::time::timeout(PATIENCE, sender.send_request(asked)).await {
        Err(_) => Err(silent(name)),
        Ok(Ok(answer)) => Ok((sender, answer)),
        Ok(Err(error)) => Err(failed(name, &error)),
    }
}

fn is_repeatable(asked: &Request) -> bool {
    let is_safe = matches!(*asked.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    is_safe && asked.body().is_end_stream() && !asked.headers().contains_key(http::header::UPGRADE)
}

fn copy(asked: &Request) -> Request {
    let mut copied = Request::new(Body::empty());
    *copied.method_mut() = asked.method().clone();
    *copied.uri_mut() = asked.uri().clone();
    *copied.headers_mut() = asked.headers().clone();
    copied
}

fn failed(name: PortName, error: &hyper::Error) -> Error {
    let what = if error.is_parse() { "answered with something that is no HTTP" } else { "closed the connection without an answer" };
    Error::new(Code::PortFailed, format!("what listens on port {} inside {what}", name.port))
        .cause(error)
        .detail("port", name.port)
        .suggestion("look at what it prints (`stead ps`, `stead logs`); what speaks another protocol is reached with `stead port forward`")
}

fn silent(name: PortName) -> Error {
    Error::new(Code::PortTimeout, format!("what listens on port {} inside did not answer within {} seconds", name.port, PATIENCE.as_secs()))
        .detail("port", name.port)
        .suggestion("look at what it does: `stead ps`, `stead logs`")
}

/// Both connections become one, of whatever they agreed on.
fn switch(
    ports: &Ports,
    guest: PortGuest,
    mut answer: http::Response<Incoming>,
    upgrade: Option<OnUpgrade>,
    seat: Option<Arc<Seat>>,
) -> Result<Response> {
    let (Some(outside), Some(seat)) = (upgrade, seat) else {
        return Err(Error::new(Code::PortFailed, "what listens inside wants to speak another protocol, and nobody asked for it")
            .suggestion("look at what it prints (`stead ps`, `stead logs`)"));
    };
    let inside = hyper::upgrade::on(&mut answer);
    seat.keep(hold(ports.clone(), guest, outside, inside));
    let (mut parts, _) = answer.into_parts();
    response::clean(&mut parts.headers, true);
    parts.extensions = http::Extensions::new();
    Ok(Response::from_parts(parts, Body::empty()))
}

async fn hold(ports: Ports, guest: PortGuest, outside: OnUpgrade, inside: OnUpgrade) {
    let (Ok(outside), Ok(inside)) = tokio::join!(outside, inside) else { return };
    let inside = match inside.downcast::<TokioIo<TcpStream>>() {
        Ok(parts) => (End::Tcp(parts.io.into_inner()), parts.read_buf),
        Err(inside) => (End::Other(Box::new(TokioIo::new(inside))), bytes::Bytes::new()),
    };
    let joined = stead_tunnel::join(bare(outside), inside);
    tokio::pin!(joined);
    let mut looks = tokio::time::interval(LOOK);
    looks.tick().await;
    loop {
        tokio::select! {
            _ = &mut joined => return,
            () = ports.stopping.cancelled() => return,
            _ = looks.tick() => if ports.app.may_still_reach(&guest).await.is_err() {
                return;
            },
        }
    }
}
