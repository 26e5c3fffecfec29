//! One HTTP/1.1 connection, and the task that drives it.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::{ClientError, Endpoint, Response, Result};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// No reply of this API comes near it; a server that sends more is not one of ours.
const LARGEST_BODY: usize = 256 << 20;

pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
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
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self> {
        let unreachable = |cause: io::Error| ClientError::Unreachable { address: endpoint.to_string(), cause };
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
                    let stream = trust()?.connect(name, stream).await.map_err(|cause| refused(endpoint, cause))?;
                    Self::start(TokioIo::new(stream)).await.map_err(unreachable)
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
            let _ = connection.await;
        });
        Ok(Self { sender, _driver: driver })
    }

    /// Whether another request can be sent; false once the server has closed.
    pub(crate) async fn is_ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    pub(crate) async fn open_reply(&mut self, request: http::Request<Full<Bytes>>) -> Result<(Parts, Incoming), Interruption> {
        let reply = self.sender.send_request(request).await.map_err(|error| {
            if error.is_canceled() { Interruption::Unsent(describe(&error)) } else { Interruption::Lost(describe(&error)) }
        })?;
        Ok(reply.into_parts())
    }

    pub(crate) async fn send(&mut self, request: http::Request<Full<Bytes>>) -> Result<Response, Interruption> {
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

/// A certificate that is not trusted is another matter than a server that is not there.
fn refused(endpoint: &Endpoint, cause: io::Error) -> ClientError {
    let address = endpoint.to_string();
    match cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(problem)) => ClientError::Untrusted { address, cause: problem.to_string() },
        _ => ClientError::Unreachable { address, cause },
    }
}

/// The machine's certificates, read when they are needed and not before.
fn trust() -> Result<TlsConnector> {
    let failed = |cause: String| ClientError::Tls { cause };
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let cause = found.errors.first().map_or_else(|| "none was found".to_owned(), ToString::to_string);
        return Err(failed(format!("this machine has no certificates to trust: {cause}")));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, future).await.ok()
}
