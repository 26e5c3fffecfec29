//! One HTTP/1.1 connection, and the task that drives it.

use std::future::Future;
use std::io;
use std::path::Path;
use std::time::Duration;

use http::response::Parts;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;

use crate::outgoing::Outgoing;
use crate::{ClientError, Endpoint, Response, Result, tls};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// No reply of this API comes near it; a server that sends more is not one of ours.
const LARGEST_BODY: usize = 256 << 20;

pub(crate) struct Connection {
    sender: SendRequest<Outgoing>,
    /// Owns the task: dropping the connection ends it.
    _driver: JoinSet<()>,
}

/// Why one attempt failed.
pub(crate) enum Interruption {
    /// Nothing was sent: any request may be repeated.
    Unsent(String),
    /// It may have been carried out.
    Lost(String),
}

impl Connection {
    /// Opens one; `trusted` is a file of certificates to trust instead of the machine's.
    pub(crate) async fn open(endpoint: &Endpoint, trusted: Option<&Path>) -> Result<Self> {
        let unreachable = |cause: io::Error| match (endpoint, cause.kind()) {
            (Endpoint::Unix { .. }, io::ErrorKind::PermissionDenied) => ClientError::Denied { address: endpoint.to_string() },
            _ => ClientError::Unreachable { address: endpoint.to_string(), cause },
        };
        let opening = async {
            match endpoint {
                Endpoint::Unix { path } => {
                    let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                    Self::start(TokioIo::new(stream)).await.map_err(unreachable)
                }
                Endpoint::Tcp { secure, host, port, .. } => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(unreachable)?;
                    // Requests are small and are waited for: holding them back for more would only cost time.
                    stream.set_nodelay(true).map_err(unreachable)?;
                    if !secure {
                        return Self::start(TokioIo::new(stream)).await.map_err(unreachable);
                    }
                    let name = ServerName::try_from(host.clone()).map_err(|error| ClientError::Tls { cause: error.to_string() })?;
                    match tls::connector(trusted)?.connect(name, stream).await {
                        Ok(stream) => Self::start(TokioIo::new(stream)).await.map_err(unreachable),
                        Err(cause) => Err(match tls::problem(&cause) {
                            Some(problem) => ClientError::Untrusted { address: endpoint.to_string(), problem },
                            None => tls::wrong_scheme(endpoint).await.unwrap_or_else(|| unreachable(cause)),
                        }),
                    }
                }
            }
        };
        within(CONNECT_LIMIT, opening).await.unwrap_or_else(|| Err(unreachable(io::ErrorKind::TimedOut.into())))
    }

    async fn start<S: Read + Write + Send + Unpin + 'static>(stream: S) -> io::Result<Self> {
        let (sender, connection) = handshake(stream).await.map_err(io::Error::other)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // What goes wrong here reaches the caller through the request that it broke.
            let _ = connection.with_upgrades().await;
        });
        Ok(Self { sender, _driver: driver })
    }

    /// Whether another request can be sent; false once the server has closed.
    pub(crate) async fn is_ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    pub(crate) async fn open_reply(&mut self, request: http::Request<Outgoing>) -> Result<(Parts, Incoming), Interruption> {
        let reply = self.sender.send_request(request).await.map_err(|error| {
            if error.is_canceled() { Interruption::Unsent(describe(&error)) } else { Interruption::Lost(describe(&error)) }
        })?;
        Ok(reply.into_parts())
    }

    pub(crate) async fn send(&mut self, request: http::Request<Outgoing>) -> Result<Response, Interruption> {
        let (head, body) = self.open_reply(request).await?;
        let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(|error| Interruption::Lost(error.to_string()))?;
        Ok(Response { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes() })
    }
}

/// hyper's own texts name the step; the reason is behind them.
fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, future).await.ok()
}
