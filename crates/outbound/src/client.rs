//! One request, one connection, one reply.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::{OutboundError, tls};

/// What one reply may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the first packet to the last byte.
    pub time: Duration,
    /// Of the body.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(10), bytes: 1 << 20 }
    }
}

/// A reply, whatever its status is.
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    /// It may hold what nobody should find in memory later.
    pub body: Zeroizing<Vec<u8>>,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Client {
    tls: Arc<ClientConfig>,
    limits: Limits,
}

impl Client {
    /// Trusts the machine's certificates, and those of a file in PEM.
    pub fn new(extra_certificates: Option<&Path>, limits: Limits) -> Result<Self, OutboundError> {
        Ok(Self { tls: tls::config(extra_certificates)?, limits })
    }

    /// To the address in the request, `http` or `https`.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Reply, OutboundError> {
        let target = Target::of(request.uri())?;
        match tokio::time::timeout(self.limits.time, self.exchange(&target, request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(OutboundError::Late { address: target.address }),
        }
    }

    async fn exchange(&self, target: &Target, mut request: Request<Bytes>) -> Result<Reply, OutboundError> {
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from(path);
        request.headers_mut().insert(HOST, target.host_header.clone());
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let unreachable = |cause: io::Error| OutboundError::Unreachable { address: target.address.clone(), cause };
        let stream = TcpStream::connect((target.host.as_str(), target.port)).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        if !target.secure {
            return self.over(target, TokioIo::new(stream), request).await;
        }
        let name = ServerName::try_from(target.host.clone()).map_err(|_| OutboundError::Address(target.address.clone()))?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await.map_err(|cause| match tls::problem(&cause) {
            Some(problem) => OutboundError::Untrusted { address: target.address.clone(), cause: problem },
            None => unreachable(cause),
        })?;
        self.over(target, TokioIo::new(stream), request).await
    }

    async fn over<S>(&self, target: &Target, stream: S, request: Request<Bytes>) -> Result<Reply, OutboundError>
    where
        S: Read + Write + Send + Unpin + 'static,
    {
        let broken = |error: hyper::Error| OutboundError::Interrupted { address: target.address.clone(), cause: describe(&error) };
        let (mut sender, connection) = handshake(stream).await.map_err(broken)?;
        // Owns the task: it ends with the request.
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // What goes wrong here reaches the caller through the request that it broke.
            let _ = connection.await;
        });
        let reply = sender.send_request(request.map(Full::new)).await.map_err(broken)?;
        let (head, body) = reply.into_parts();
        let body = self.collect(target, body).await?;
        Ok(Reply { status: head.status.as_u16(), headers: head.headers, body })
    }

    async fn collect(&self, target: &Target, mut body: Incoming) -> Result<Zeroizing<Vec<u8>>, OutboundError> {
        // Of its final size at once: a vector that grows leaves what it held behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.limits.bytes));
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| OutboundError::Interrupted { address: target.address.clone(), cause: describe(&error) })?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > self.limits.bytes {
                return Err(OutboundError::TooLarge { address: target.address.clone(), limit: self.limits.bytes });
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    }
}

/// Where a request goes.
struct Target {
    secure: bool,
    host: String,
    port: u16,
    host_header: HeaderValue,
    /// For people: no path, and no name or password.
    address: String,
}

impl Target {
    fn of(uri: &Uri) -> Result<Self, OutboundError> {
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(OutboundError::Address(uri.to_string())),
        };
        let wrong = || OutboundError::Address(format!("{}://{}", if secure { "https" } else { "http" }, uri.host().unwrap_or_default()));
        let written = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong());
        }
        let usual = if secure { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(usual);
        let named = if port == usual { written.to_owned() } else { format!("{written}:{port}") };
        Ok(Self {
            secure,
            host: written.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            host_header: HeaderValue::from_str(&named).map_err(|_| wrong())?,
            address: format!("{}://{named}", if secure { "https" } else { "http" }),
        })
    }
}

/// hyper's own texts name the step; the reason is behind them.
fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
