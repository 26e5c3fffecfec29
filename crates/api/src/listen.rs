//! The sockets: unix, TCP, TLS. Connections are bounded in number and in patience, and shutdown lets requests finish.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use stead_sandbox::peer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::patience::Patient;

/// How long the head of a request, or a TLS handshake, may take.
const HEAD: Duration = Duration::from_secs(15);
/// The largest head of a request.
const HEAD_BYTES: usize = 64 << 10;
/// How long requests may take to finish at shutdown.
const GRACE: Duration = Duration::from_secs(10);

pub enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener, Option<TlsAcceptor>),
}

/// Who is at the other end.
#[derive(Debug)]
pub enum Peer {
    /// The server's own user, or root, outside any sandbox.
    Owner {
        uid: u32,
        pid: i32,
    },
    /// Somebody on the unix socket who cannot be told from code in a sandbox.
    Refused {
        reason: String,
    },
    Remote(SocketAddr),
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner { uid, pid } => write!(formatter, "unix:uid={uid},pid={pid}"),
            Self::Refused { .. } => formatter.write_str("unix"),
            Self::Remote(address) => write!(formatter, "tcp:{}", address.ip()),
        }
    }
}

impl Peer {
    fn of(socket: &UnixStream) -> Self {
        match peer::identify(socket.as_fd()) {
            Ok(peer::Peer { uid, pid }) if uid == peer::own_uid() || uid == 0 => Self::Owner { uid, pid },
            Ok(peer::Peer { uid, .. }) => Self::Refused { reason: format!("user {uid} does not run this server") },
            Err(error) => Self::Refused { reason: error.to_string() },
        }
    }
}

/// Serves until `stop`, then lets what is under way finish for a while. More than so many connections to one socket wait to be accepted:
/// a crowd at one does not shut out who comes by the other.
pub async fn serve(listeners: Vec<Listener>, router: Router, connections: usize, stop: CancellationToken) {
    let tasks = TaskTracker::new();
    for listener in listeners {
        let slots = Arc::new(Semaphore::new(connections));
        let server = Server { router: router.clone(), stop: stop.clone(), slots, tasks: tasks.clone() };
        tasks.spawn(async move {
            match listener {
                Listener::Unix(listener) => server.accept_unix(listener).await,
                Listener::Tcp(listener, tls) => server.accept_tcp(listener, tls).await,
            }
        });
    }
    stop.cancelled().await;
    tasks.close();
    if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
        tracing::warn!("some requests did not finish in time and are cut off");
    }
}

#[derive(Clone)]
struct Server {
    router: Router,
    stop: CancellationToken,
    slots: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Server {
    async fn accept_unix(self, listener: UnixListener) {
        while let Some((slot, (socket, _))) = self.next(|| listener.accept()).await {
            let peer = Peer::of(&socket);
            self.connection(slot, peer, async move { Some(socket) });
        }
    }

    async fn accept_tcp(self, listener: TcpListener, tls: Option<TlsAcceptor>) {
        while let Some((slot, (socket, address))) = self.next(|| listener.accept()).await {
            let _ = socket.set_nodelay(true);
            let peer = Peer::Remote(address);
            match tls.clone() {
                None => self.connection(slot, peer, async move { Some(socket) }),
                Some(tls) => self.connection(slot, peer, async move {
                    match tokio::time::timeout(HEAD, tls.accept(socket)).await {
                        Ok(Ok(stream)) => Some(stream),
                        _ => None,
                    }
                }),
            }
        }
    }

    /// The next connection that there is a slot for, or none when the server stops. A failure to accept (too many open files) passes;
    /// hammering it does not help.
    async fn next<T, F: Future<Output = std::io::Result<T>>>(&self, accept: impl Fn() -> F) -> Option<(OwnedSemaphorePermit, T)> {
        let slot = tokio::select! {
            () = self.stop.cancelled() => return None,
            slot = Arc::clone(&self.slots).acquire_owned() => slot.ok()?,
        };
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                accepted = accept() => match accepted {
                    Ok(accepted) => return Some((slot, accepted)),
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
    }

    fn connection<I>(&self, slot: OwnedSemaphorePermit, peer: Peer, stream: impl Future<Output = Option<I>> + Send + 'static)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let server = self.clone();
        self.tasks.spawn(async move {
            let _slot = slot;
            if let Some(stream) = stream.await {
                metrics::gauge!("stead_http_connections").increment(1.0);
                server.serve_connection(Arc::new(peer), stream).await;
                metrics::gauge!("stead_http_connections").decrement(1.0);
            }
        });
    }

    async fn serve_connection<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, peer: Arc<Peer>, stream: I) {
        let router = self.router.clone();
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(Arc::clone(&peer));
            router.clone().oneshot(request)
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(HEAD_BYTES as u32)
            .keep_alive_interval(Some(HEAD))
            .keep_alive_timeout(HEAD);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(Patient::new(stream, HEAD)), service);
        tokio::pin!(connection);
        tokio::select! {
            outcome = connection.as_mut() => {
                if let Err(error) = outcome {
                    tracing::debug!(%error, "a connection ended");
                }
            }
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
}
