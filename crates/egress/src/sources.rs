//! Where connections come from: descriptors that were made inside an environment's network namespace. Which environment a connection belongs
//! to follows from the descriptor alone, so nobody inside can pretend to be another.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::FileType;
use rustix::net::{AddressFamily, SocketType, sockopt};
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::sleep;

use crate::control::Socket;
use crate::environment::Environment;
use crate::reason::Reason;
use crate::relay::{Incoming, accept};
use crate::sniff::Protocol;
use crate::upstream::keep_alive;
use crate::{dns, packets, proxy, tun};

/// A descriptor that was looked at and can be used.
pub(crate) enum Source {
    Tcp(TcpListener, u16),
    Proxy(TcpListener),
    DnsStreams(TcpListener),
    DnsDatagrams(UdpSocket),
    Packets(pipe::Receiver),
    Tun(tun::Device),
}

/// What a listener offers by itself, wherever it was reached.
#[derive(Clone, Copy)]
enum Service {
    Proxy,
    Dns,
}

impl Source {
    /// Each descriptor must be what the request says.
    pub fn all(sockets: &[Socket], descriptors: Vec<OwnedFd>) -> Result<Vec<Self>, String> {
        if sockets.len() != descriptors.len() {
            return Err(format!("{} sockets are named and {} descriptors came", sockets.len(), descriptors.len()));
        }
        let one = |(socket, descriptor): (&Socket, OwnedFd)| {
            Self::one(*socket, descriptor).map_err(|error| format!("the descriptor for {socket:?} cannot be used: {error}"))
        };
        sockets.iter().zip(descriptors).map(one).collect()
    }

    fn one(socket: Socket, descriptor: OwnedFd) -> Result<Self, std::io::Error> {
        let wrong = || std::io::Error::from(std::io::ErrorKind::InvalidInput);
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        if let Socket::Tun { mtu } = socket {
            let device = FileType::from_raw_mode(rustix::fs::fstat(&descriptor)?.st_mode) == FileType::CharacterDevice;
            return if device { tun::Device::new(descriptor, mtu).map(Self::Tun) } else { Err(wrong()) };
        }
        let family = sockopt::socket_domain(&descriptor)?;
        let kind = sockopt::socket_type(&descriptor)?;
        let internet = matches!(family, AddressFamily::INET | AddressFamily::INET6);
        let listener = |descriptor: OwnedFd| {
            if !internet || kind != SocketType::STREAM || !sockopt::socket_acceptconn(&descriptor)? {
                return Err(wrong());
            }
            TcpListener::from_std(std::net::TcpListener::from(descriptor))
        };
        match socket {
            Socket::Tcp { port: 0 } => Err(wrong()),
            Socket::Tcp { port } => Ok(Self::Tcp(listener(descriptor)?, port)),
            Socket::Proxy => Ok(Self::Proxy(listener(descriptor)?)),
            Socket::DnsStreams => Ok(Self::DnsStreams(listener(descriptor)?)),
            Socket::DnsDatagrams if internet && kind == SocketType::DGRAM => {
                Ok(Self::DnsDatagrams(UdpSocket::from_std(std::net::UdpSocket::from(descriptor))?))
            }
            Socket::Packets if family == AddressFamily::PACKET => Ok(Self::Packets(pipe::Receiver::from_owned_fd_unchecked(descriptor)?)),
            Socket::DnsDatagrams | Socket::Packets | Socket::Tun { .. } => Err(wrong()),
        }
    }

    fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(_, port) => Some(*port),
            Self::Proxy(listener) | Self::DnsStreams(listener) => listener.local_addr().ok().map(|address| address.port()),
            Self::DnsDatagrams(_) | Self::Packets(_) | Self::Tun(_) => None,
        }
    }

    pub fn start(sources: Vec<Self>, environment: &Arc<Environment>) {
        let listening: HashSet<u16> = sources.iter().filter_map(Self::port).collect();
        for source in sources {
            let owner = environment.clone();
            match source {
                Self::Tcp(listener, port) => environment.spawn(take_connections(owner, listener, port)),
                Self::Proxy(listener) => environment.spawn(take_streams(owner, listener, Service::Proxy)),
                Self::DnsStreams(listener) => environment.spawn(take_streams(owner, listener, Service::Dns)),
                Self::DnsDatagrams(socket) => environment.spawn(dns::serve_datagrams(owner, socket)),
                Self::Packets(socket) => environment.spawn(packets::watch(owner, socket, listening.clone())),
                Self::Tun(device) => environment.spawn(tun::serve(owner, device)),
            }
        }
    }
}

/// The next connection. Failures to accept are those of one connection, or of too few descriptors, which must not spin.
async fn next(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                keep_alive(&stream);
                return stream;
            }
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn take_connections(environment: Arc<Environment>, listener: TcpListener, port: u16) {
    loop {
        let stream = next(&listener).await;
        // Every address is local inside, so the socket's own address is the one that was connected to.
        let Ok(local) = stream.local_addr() else { continue };
        let destination = SocketAddr::new(local.ip(), port);
        accept(Incoming { environment: environment.clone(), destination, stream: Box::new(stream) });
    }
}

async fn take_streams(environment: Arc<Environment>, listener: TcpListener, service: Service) {
    loop {
        let stream = next(&listener).await;
        let Some(slot) = environment.slot() else {
            environment.note_refusal("proxy", 0, Protocol::Tcp, Reason::TooManyConnections);
            continue;
        };
        let owner = environment.clone();
        environment.tasks.spawn(async move {
            let _slot = slot;
            match service {
                Service::Proxy => proxy::serve(&owner, Box::new(stream)).await,
                Service::Dns => {
                    owner.stop.run_until_cancelled(dns::serve_stream(&owner, stream)).await;
                }
            }
        });
    }
}
