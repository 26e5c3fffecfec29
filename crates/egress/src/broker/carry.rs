//! A connection to a host that something is brokered for, from its first byte to its end.

use std::collections::HashSet;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use http::Version;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_util::sync::CancellationToken;

use super::io::{Counted, Rewound};
use super::limits;
use super::service::Service;
use super::tls::{self, HTTP_1, HTTP_2};
use super::upstream::{Driver, Sender, Tasks};
use crate::environment::Environment;
use crate::reason::Reason;
use crate::relay::stream::{Interrupted, Meter, Stream};
use crate::relay::{Client, answer_refusal, carry_with, listen};
use crate::sniff::{Expected, Protocol};

/// A connection to a host that was decided and opened.
pub struct Opened {
    pub stream: TcpStream,
    pub address: IpAddr,
}

/// How many requests a connection may bring.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    One,
    Any,
}

/// Both directions, until the end, or until nothing is brokered for the host any more.
pub async fn carry(environment: &Arc<Environment>, expected: Expected, client: Client, opened: Opened, requests: Requests) {
    carry_with(environment, &expected, opened.address, Protocol::Tcp, async |meter| {
        let connection = Connection { environment, expected: &expected, meter, requests };
        tokio::select! {
            outcome = connection.converse(client, opened.stream) => outcome,
            () = environment.until_unbrokered(&expected) => Err(Interrupted::Ended(Reason::BrokerChanged)),
        }
    })
    .await;
}

struct Connection<'a> {
    environment: &'a Arc<Environment>,
    expected: &'a Expected,
    meter: &'a Arc<Meter>,
    requests: Requests,
}

impl Connection<'_> {
    async fn converse(&self, client: Client, upstream: TcpStream) -> Result<(), Interrupted> {
        let (mut inbound, mut writer) = client;
        let heard = listen(self.environment, &mut inbound, self.expected).await;
        let covered = self.environment.broker().and_then(|broker| broker.covers(&self.expected.host, self.expected.port));
        let covered = covered.ok_or(Interrupted::Ended(Reason::BrokerChanged))?;
        let refused = match heard {
            Ok(protocol) => {
                let _ = self.meter.protocol.set(protocol);
                match protocol {
                    Protocol::Tls => None,
                    Protocol::Http if covered.plain => None,
                    Protocol::Http => Some(Reason::PlainHttp),
                    _ => Some(Reason::NotHttp),
                }
            }
            Err(Interrupted::Refused(reason)) => Some(reason),
            Err(other) => return Err(other),
        };
        if let Some(reason) = refused {
            answer_refusal(&mut writer, &inbound.buffer, reason).await;
            return Err(reason.into());
        }
        let client: Rewound<Box<dyn Stream>> = Rewound { before: inbound.buffer, stream: inbound.reader.unsplit(writer) };
        let upstream = Counted { stream: upstream, meter: self.meter.clone() };
        let stop = CancellationToken::new();
        let _stopping = stop.clone().drop_guard();
        let tasks = Tasks { tracker: self.environment.tasks.clone(), stop };
        if self.meter.protocol.get() == Some(&Protocol::Http) {
            let (sender, driver) = self.handshake(Ok(upstream), Version::HTTP_11, &tasks).await;
            return self.serve(client, Version::HTTP_11, true, sender, driver, tasks).await;
        }
        self.sealed(client, upstream, tasks).await
    }

    /// TLS towards both sides. What the host speaks is what the place gets to speak, so that nothing has to be translated.
    async fn sealed(&self, client: Rewound<Box<dyn Stream>>, upstream: Counted<TcpStream>, tasks: Tasks) -> Result<(), Interrupted> {
        let limit = self.environment.shared.limits.beginning;
        let accepting = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), client);
        let start = timeout(limit, accepting).await.map_err(|_| Reason::SlowStart)??;
        let offered: Option<Vec<Vec<u8>>> = start.client_hello().alpn().map(|offered| offered.map(<[u8]>::to_vec).collect());
        let speaks = |protocol: &[u8]| offered.as_ref().is_some_and(|offered| offered.iter().any(|name| name == protocol));
        let (first, second) = (speaks(HTTP_1) || offered.is_none(), speaks(HTTP_2));
        let wanted = [(HTTP_2, second), (HTTP_1, first)].into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name.to_vec());
        let trust = &self.environment.shared.trust;
        let connecting = trust.connect(&self.expected.host, wanted.collect(), upstream);
        let connected = timeout(self.environment.shared.limits.connect, connecting).await.unwrap_or(Err(Reason::ConnectTimeout));
        let spoken = connected.as_ref().ok().and_then(|stream| stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec));
        let version = match spoken.as_deref() {
            Some(HTTP_2) if second => Version::HTTP_2,
            _ if first => Version::HTTP_11,
            // It insists on HTTP/2 inside; outside it is what the host has said.
            _ => Version::HTTP_2,
        };
        let outside = if spoken.as_deref() == Some(HTTP_2) { Version::HTTP_2 } else { Version::HTTP_11 };
        let name = if version == Version::HTTP_2 { HTTP_2 } else { HTTP_1 };
        let Some(broker) = self.environment.broker() else { return Err(Interrupted::Ended(Reason::BrokerChanged)) };
        let (now, randomness) = (self.environment.shared.journal.now(), &*self.environment.shared.randomness);
        let certified = broker.authority.certified(&self.expected.host, now, randomness).map_err(|_| Reason::TlsFailed)?;
        let config = tls::server(certified, vec![name.to_vec()])?;
        let inside = timeout(limit, start.into_stream(config)).await.map_err(|_| Reason::SlowStart)?;
        // Most often the program does not know the environment's authority.
        let inside = inside.map_err(|_| Reason::NotTrustedInside)?;
        let (sender, driver) = self.handshake(connected, outside, &tasks).await;
        self.serve(inside, version, false, sender, driver, tasks).await
    }

    /// A failure is told to whoever asks, in a language that they read.
    async fn handshake(&self, stream: Result<impl Stream + 'static, Reason>, version: Version, tasks: &Tasks) -> (Sender, Driver) {
        let connected = match stream {
            Ok(stream) => Sender::connect(stream, version, tasks.clone()).await,
            Err(reason) => Err(reason),
        };
        connected.unwrap_or_else(|reason| (Sender::Refused(reason), Box::pin(std::future::pending())))
    }

    async fn serve(
        &self,
        client: impl Stream + 'static,
        version: Version,
        plain: bool,
        sender: Sender,
        mut driver: Driver,
        tasks: Tasks,
    ) -> Result<(), Interrupted> {
        let service = Arc::new(Service {
            environment: self.environment.clone(),
            expected: self.expected.clone(),
            plain,
            sender,
            meter: self.meter.clone(),
            tunnel: Mutex::default(),
            told: Mutex::new(HashSet::new()),
        });
        let responding = {
            let service = service.clone();
            service_fn(move |request| service.clone().respond(request))
        };
        let io = TokioIo::new(client);
        let idle = self.environment.shared.limits.beginning * limits::IDLE;
        if version == Version::HTTP_2 {
            let mut builder = http2::Builder::new(tasks);
            builder.timer(TokioTimer::new()).auto_date_header(false).max_concurrent_streams(limits::STREAMS);
            builder.max_header_list_size(limits::HEAD as u32).max_send_buf_size(limits::BUFFER);
            builder.initial_stream_window_size(limits::STREAM_WINDOW).initial_connection_window_size(limits::CONNECTION_WINDOW);
            let mut serving = pin!(builder.serve_connection(io, responding));
            tokio::select! {
                outcome = &mut serving => return outcome.map_err(|_| Interrupted::Broken),
                () = &mut driver => serving.as_mut().graceful_shutdown(),
            }
            // What the host has said by now is still passed on.
            return serving.await.map_err(|_| Interrupted::Broken);
        }
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(idle).auto_date_header(false).keep_alive(self.requests == Requests::Any);
        builder.preserve_header_case(true).title_case_headers(true).max_headers(limits::FIELDS).max_buf_size(limits::BUFFER);
        let mut serving = pin!(builder.serve_connection(io, responding).with_upgrades());
        let mut open = true;
        let outcome = loop {
            tokio::select! {
                outcome = &mut serving => break outcome,
                () = &mut driver, if open => {
                    open = false;
                    if service.tunnel.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
                        serving.as_mut().graceful_shutdown();
                    }
                }
            }
        };
        let tunnel = service.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (outcome, tunnel) {
            (Err(_), _) => Err(Interrupted::Broken),
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(tunnel)) => tokio::select! {
                outcome = tunnel.run() => outcome,
                () = async { if open { driver.await } std::future::pending().await } => Ok(()),
            },
        }
    }
}
