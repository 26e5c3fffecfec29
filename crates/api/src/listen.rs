//! The sockets: unix, TCP, TLS. Connections are bounded in number and in patience, and shutdown lets requests finish.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame, SizeHint};
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::{self, upgrade};
use stead_sandbox::peer;
use stead_tunnel::End;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower::ServiceExt;

use crate::crowd::Crowd;
use crate::framing::{Framed, Framing};
use crate::patience::Patient;

/// How long the head of a request, or a TLS handshake, may take.
const HEAD: Duration = Duration::from_secs(15);
/// The largest head of a request.
const HEAD_BYTES: usize = 64 << 10;
/// How often a connection is looked at that may have nothing under way, and then how long its last answers may take to arrive. Pings keep
/// an HTTP/2 connection alive without a single request: one that is quiet for this long, and at most for twice as long, is closed.
const QUIET: Duration = Duration::from_secs(20);
/// How many requests may be under way in one HTTP/2 connection.
const STREAMS: u32 = 128;
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
        let crowd = Crowd::new(connections);
        let server = Server { router: router.clone(), stop: stop.clone(), slots, crowd, tasks: tasks.clone(), quiet: QUIET };
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
    crowd: Arc<Crowd>,
    tasks: TaskTracker,
    quiet: Duration,
}

/// What happens in one connection. Counters that are looked at now and then, because a timer that every request wound up again would cost
/// every request.
#[derive(Default)]
struct Activity {
    under_way: AtomicUsize,
    begun: AtomicUsize,
}

/// A request under way. It also ends when its future is dropped, as by a client that gave up.
struct UnderWay(Arc<Activity>);

impl UnderWay {
    fn begin(activity: &Arc<Activity>) -> Self {
        activity.under_way.fetch_add(1, Ordering::SeqCst);
        activity.begun.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(activity))
    }
}

/// A body that is still being made: its request is under way until it ends.
struct Lasting {
    body: Body,
    _under_way: UnderWay,
}

impl hyper::body::Body for Lasting {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What a connection takes up: its slot, and that shutdown waits for it. A connection that became a WebSocket keeps it.
pub struct Seat {
    _slot: Box<dyn Any + Send + Sync>,
    _waited_for: TaskTrackerToken,
    tasks: TaskTracker,
}

impl Seat {
    /// Goes on with a connection that is no longer one of HTTP. Shutdown waits for it.
    pub fn keep(self: Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.clone().spawn(async move {
            work.await;
            drop(self);
        });
    }
}

/// The bare connection under one that HTTP has been left on, and what was read of it already: the kernel passes on what is plain.
pub fn bare(upgraded: Upgraded) -> (End, Bytes) {
    let upgraded = match upgrade::downcast::<TokioIo<Patient<Framed<TcpStream>>>>(upgraded) {
        Ok(parts) => return (End::Tcp(parts.io.into_inner().into_inner().into_inner()), parts.read_buf),
        Err(upgraded) => upgraded,
    };
    match upgrade::downcast::<TokioIo<Patient<Framed<UnixStream>>>>(upgraded) {
        Ok(parts) => (End::Unix(parts.io.into_inner().into_inner().into_inner()), parts.read_buf),
        Err(upgraded) => (End::Other(Box::new(TokioIo::new(upgraded))), Bytes::new()),
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Activity {
    /// Ends after a whole stretch of time in which no request was under way.
    async fn quiet(&self, stretch: Duration) {
        // What was under way at the last look made the stretch after it a busy one, however soon it ended.
        let mut before = None;
        loop {
            let busy = self.under_way.load(Ordering::SeqCst) > 0;
            let now = (!busy).then(|| self.begun.load(Ordering::SeqCst));
            if now.is_some() && now == before {
                return;
            }
            before = now;
            tokio::time::sleep(stretch).await;
        }
    }
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
            let Some(place) = self.crowd.enter(address.ip()) else {
                tracing::debug!(address = %address.ip(), "an address has as many connections as one may");
                continue;
            };
            let _ = socket.set_nodelay(true);
            let peer = Peer::Remote(address);
            match tls.clone() {
                None => self.connection((slot, place), peer, async move { Some(socket) }),
                Some(tls) => self.connection((slot, place), peer, async move {
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

    /// `slot` is what the connection takes up, given back at its end.
    fn connection<I>(&self, slot: impl Send + Sync + 'static, peer: Peer, stream: impl Future<Output = Option<I>> + Send + 'static)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let server = self.clone();
        self.tasks.spawn(async move {
            let seat = Arc::new(Seat { _slot: Box::new(slot), _waited_for: server.tasks.token(), tasks: server.tasks.clone() });
            if let Some(stream) = stream.await {
                metrics::gauge!("stead_http_connections").increment(1.0);
                server.serve_connection(Arc::new(peer), seat, stream).await;
                metrics::gauge!("stead_http_connections").decrement(1.0);
            }
        });
    }

    async fn serve_connection<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, peer: Arc<Peer>, seat: Arc<Seat>, stream: I) {
        let router = self.router.clone();
        let activity = Arc::new(Activity::default());
        let watched = Arc::clone(&activity);
        let framing = Framing::default();
        let stream = Framed::new(stream, framing.clone());
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(Arc::clone(&peer));
            request.extensions_mut().insert(Arc::clone(&seat));
            framing.mark(&mut request);
            let under_way = UnderWay::begin(&watched);
            let reply = router.clone().oneshot(request);
            let framing = framing.clone();
            async move {
                reply.await.map(|mut response| {
                    framing.close(&mut response);
                    // What is there already takes only as long as it takes to be sent; what is still being made may be quiet for long.
                    if response.body().size_hint().exact().is_some() {
                        return response;
                    }
                    response.map(|body| Body::new(Lasting { body, _under_way: under_way }))
                })
            }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(HEAD_BYTES as u32)
            .max_concurrent_streams(STREAMS)
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
            () = activity.quiet(self.quiet) => {
                connection.as_mut().graceful_shutdown();
                // A client that answers nothing, or takes nothing, would keep it open all the same.
                let _ = tokio::time::timeout(self.quiet, connection).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    fn server(quiet: Duration, router: Router) -> Server {
        let slots = Arc::new(Semaphore::new(1));
        Server { router, stop: CancellationToken::new(), slots, crowd: Crowd::new(1), tasks: TaskTracker::new(), quiet }
    }

    fn connect(server: &Server) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let slot = Arc::clone(&server.slots).try_acquire_owned().unwrap();
        server.connection(slot, Peer::Refused { reason: String::new() }, async move { Some(theirs) });
        ours
    }

    async fn heard(mut socket: DuplexStream) -> Vec<u8> {
        let mut heard = Vec::new();
        tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut heard)).await.unwrap().unwrap();
        heard
    }

    #[tokio::test]
    async fn a_connection_that_asks_for_nothing_is_closed() {
        let server = server(Duration::from_millis(100), Router::new());
        let mut socket = connect(&server);
        socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let heard = heard(socket).await;
        assert!(heard.windows(6).any(|part| part == b"\0\0\x08\x07\0\0"), "it is told to go away: {heard:?}");
        server.tasks.close();
        server.tasks.wait().await;
        assert_eq!(server.slots.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_body_that_is_still_being_made_is_no_quiet() {
        let slow = || async {
            let pieces = futures::stream::unfold(0, |number| async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                (number < 3).then(|| (Ok::<_, std::io::Error>(format!("piece {number}")), number + 1))
            });
            Body::from_stream(pieces)
        };
        let server = server(Duration::from_millis(50), Router::new().route("/", axum::routing::get(slow)));
        let mut socket = connect(&server);
        socket.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let heard = String::from_utf8(heard(socket).await).unwrap();
        assert!(heard.contains("piece 2") && heard.ends_with("0\r\n\r\n"), "{heard}");
    }

    #[tokio::test]
    async fn a_request_under_way_is_no_quiet() {
        let slow = || async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            "done"
        };
        let server = server(Duration::from_millis(50), Router::new().route("/", axum::routing::get(slow)));
        let mut socket = connect(&server);
        socket.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let heard = String::from_utf8(heard(socket).await).unwrap();
        assert!(heard.starts_with("HTTP/1.1 200") && heard.ends_with("done"), "{heard}");
    }
}
