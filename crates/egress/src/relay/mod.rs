//! Connections: from where they come in to where they may go.

pub mod http;
pub mod stream;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::address::normalised;
use crate::broker::{self, Requests};
use crate::environment::Environment;
use crate::journal::{Decision, Entry};
use crate::policy::Access;
use crate::reason::Reason;
use crate::sniff::{self, Expected, Protocol};
use stream::{Inbound, Interrupted, Meter, Outbound, Stream, pump};

/// A connection that a program has opened, wherever it was accepted: the one thing that every source of connections makes.
pub struct Incoming {
    pub environment: Arc<Environment>,
    /// Where the program thinks that it has connected to.
    pub destination: SocketAddr,
    pub stream: Box<dyn Stream>,
}

/// A connection's two halves inside, with what was read ahead.
pub type Client = (Inbound<ReadHalf<Box<dyn Stream>>>, WriteHalf<Box<dyn Stream>>);

/// Ports where the program always speaks first, so that nothing is opened before it was heard.
const CLIENT_FIRST: [u16; 2] = [80, 443];

/// Takes a connection, if there is room for it.
pub fn accept(incoming: Incoming) {
    let Incoming { environment, destination, stream } = incoming;
    let destination = SocketAddr::new(normalised(destination.ip()), destination.port());
    let Some(slot) = environment.slot() else {
        environment.note_refusal(destination.ip(), destination.port(), Protocol::Tcp, Reason::TooManyConnections);
        return;
    };
    let owner = environment.clone();
    // The task ends by itself when the environment goes, and can still tell how it ended.
    owner.tasks.spawn(async move {
        let _slot = slot;
        serve(&environment, destination, stream).await;
    });
}

async fn serve(environment: &Arc<Environment>, destination: SocketAddr, stream: Box<dyn Stream>) {
    let port = destination.port();
    let decided = environment.meant_by(destination.ip()).and_then(|host| {
        let policy = environment.policy();
        match policy.decide(&host, port) {
            // A literal address is told what is wrong with it even where it stands on no list.
            Err(Reason::AddressNotListed) => policy.decide_address(&host, destination.ip()).and(Err(Reason::AddressNotListed)),
            decided => decided.map(|()| Expected { host, port }),
        }
    });
    let expected = match decided {
        Ok(expected) => expected,
        Err(reason) => {
            let host = environment.meant_by(destination.ip()).map_or_else(|_| destination.ip().to_string(), |host| host.to_string());
            return environment.refuse(host, port, Protocol::Tcp, reason).await;
        }
    };
    let (reader, mut writer) = split(stream);
    let mut inbound = Inbound::new(reader);
    let first = match first_words(environment, &mut inbound, &expected).await {
        Ok(first) => first,
        Err(Interrupted::Broken | Interrupted::Ended(_)) => return,
        Err(Interrupted::Refused(reason)) => {
            answer_refusal(&mut writer, &inbound.buffer, reason).await;
            let entry = Entry::new(&expected.host, port, protocol_of(&inbound.buffer), Decision::Refused).because(reason);
            return environment.record(Entry { named: sniff::named(&inbound.buffer), ..entry }).await;
        }
    };
    match open(environment, &expected).await {
        Ok((upstream, address)) => carry(environment, expected, (inbound, writer), upstream, address, first).await,
        Err(reason) => {
            answer_refusal(&mut writer, &inbound.buffer, reason).await;
            environment.refuse(&expected.host, port, first.unwrap_or(Protocol::Tcp), reason).await;
        }
    }
}

/// What the program says before anything is opened; `None` if it waits for the server.
async fn first_words<R>(environment: &Environment, inbound: &mut Inbound<R>, expected: &Expected) -> Result<Option<Protocol>, Interrupted>
where
    R: AsyncRead + Unpin,
{
    if environment.policy().access() == Access::Enabled {
        return Ok(None);
    }
    if CLIENT_FIRST.contains(&expected.port) {
        return listen(environment, inbound, expected).await.map(Some);
    }
    let patience = environment.shared.limits.patience;
    match timeout(patience, inbound.fill()).await {
        Ok(Ok(true)) => listen(environment, inbound, expected).await.map(Some),
        Ok(Ok(false)) => Ok(None),
        Ok(Err(_)) => Err(Interrupted::Broken),
        Err(_) => Ok(None),
    }
}

/// Reads until it is clear what is spoken, and whether the right host is named.
pub async fn listen<R>(environment: &Environment, inbound: &mut Inbound<R>, expected: &Expected) -> Result<Protocol, Interrupted>
where
    R: AsyncRead + Unpin,
{
    let reading = async {
        loop {
            match sniff::inspect(&inbound.buffer, expected, &environment.policy()) {
                Ok(Some(protocol)) => return Ok(protocol),
                // Some programs name no server whose name has no dot. Where the relay itself speaks for it, it is who was decided.
                Err(Reason::ServerNameMissing) if environment.is_brokered(expected) => return Ok(Protocol::Tls),
                Ok(None) => {}
                Err(reason) => return Err(reason.into()),
            }
            if !inbound.fill().await? {
                // It ended in the middle of a beginning; there is nothing more that could name a host.
                return Err(Interrupted::Broken);
            }
        }
    };
    environment.beginning(reading).await
}

/// Decides, resolves once, and connects.
pub async fn open(environment: &Environment, expected: &Expected) -> Result<(TcpStream, IpAddr), Reason> {
    let opening = async {
        let addresses = environment.addresses(expected).await?;
        crate::upstream::connect(&addresses, expected.port, &environment.shared.limits).await
    };
    environment.stop.run_until_cancelled(opening).await.unwrap_or(Err(Reason::EnvironmentRemoved))
}

/// Both directions of an allowed connection until its end. `first` says what was heard already; otherwise it is heard on the way.
pub async fn carry(
    environment: &Arc<Environment>,
    expected: Expected,
    client: Client,
    upstream: TcpStream,
    address: IpAddr,
    first: Option<Protocol>,
) {
    if environment.is_brokered(&expected) {
        let opened = broker::Opened { stream: upstream, address };
        return broker::carry(environment, expected, client, opened, Requests::Any).await;
    }
    let open = access_is_open(environment);
    carry_with(environment, &expected, address, first.unwrap_or(Protocol::Tcp), async |meter| {
        let (mut inbound, writer) = client;
        let (reader, upstream_writer) = upstream.into_split();
        let mut outbound = Outbound { writer: upstream_writer, counter: &meter.up };
        let mut back = (Inbound::new(reader), Outbound { writer, counter: &meter.down });
        let (switched, wait) = oneshot::channel();
        let upward = async {
            let protocol = match first {
                Some(protocol) => protocol,
                None if open => Protocol::Tcp,
                None => {
                    if inbound.buffer.is_empty() && !inbound.fill().await? {
                        outbound.writer.shutdown().await?;
                        return Ok(());
                    }
                    listen(environment, &mut inbound, &expected).await?
                }
            };
            let _ = meter.protocol.set(protocol);
            if protocol == Protocol::Http {
                return http::requests(&mut inbound, &mut outbound, |head| expected.check_request(head, &environment.policy()), wait).await;
            }
            pump(&mut inbound, &mut outbound).await
        };
        let downward = http::replies(&mut back.0, &mut back.1, switched);
        tokio::try_join!(upward, downward).map(drop)
    })
    .await;
}

fn access_is_open(environment: &Environment) -> bool {
    environment.policy().access() == Access::Enabled
}

/// Tells the journal of the beginning and the end, and ends what the policy no longer allows.
pub async fn carry_with(
    environment: &Environment,
    expected: &Expected,
    address: IpAddr,
    protocol: Protocol,
    work: impl AsyncFnOnce(&Arc<Meter>) -> Result<(), Interrupted>,
) {
    let meter = Arc::new(Meter { connection: environment.next_connection(), ..Meter::default() });
    let entry = Entry {
        connection: Some(meter.connection),
        address: Some(address),
        ..Entry::new(&expected.host, expected.port, protocol, Decision::Allowed)
    };
    environment.record(entry.clone()).await;
    let reason = tokio::select! {
        outcome = work(&meter) => match outcome {
            Ok(()) => Reason::Done,
            Err(Interrupted::Broken) => Reason::Broken,
            Err(Interrupted::Ended(reason)) => reason,
            Err(Interrupted::Refused(reason)) => {
                environment.refuse(&expected.host, expected.port, protocol, reason).await;
                reason
            }
        },
        reason = environment.until_denied(expected, address) => reason,
    };
    let (bytes_up, bytes_down) = (meter.up.load(Ordering::Relaxed), meter.down.load(Ordering::Relaxed));
    let protocol = meter.protocol.get().copied().unwrap_or(protocol);
    environment.record(Entry { decision: Decision::Closed, protocol, bytes_up, bytes_down, ..entry.because(reason) }).await;
}

fn protocol_of(bytes: &[u8]) -> Protocol {
    match (sniff::tls::begins(bytes), sniff::http::begins(bytes)) {
        (Some(true), _) => Protocol::Tls,
        (_, Some(true)) => Protocol::Http,
        _ => Protocol::Tcp,
    }
}

/// In the language that the program speaks, so that it can say more than "connection reset".
pub async fn answer_refusal(writer: &mut WriteHalf<Box<dyn Stream>>, said: &[u8], reason: Reason) {
    let answer = match protocol_of(said) {
        // A fatal alert: access denied.
        Protocol::Tls => vec![21, 3, 3, 0, 2, 2, 49],
        Protocol::Http => refusal_page(reason),
        _ => return,
    };
    let _ = timeout(Duration::from_secs(1), async {
        let _ = writer.write_all(&answer).await;
        let _ = writer.shutdown().await;
    })
    .await;
}

/// Status, code and text of a refusal.
pub fn refusal(reason: Reason) -> (u16, String, String) {
    let status = match reason {
        Reason::MalformedRequest | Reason::HostMissing | Reason::UnknownProxyRequest => 400,
        Reason::HeadTooLong => 431,
        Reason::SlowStart => 408,
        Reason::TooManyConnections => 503,
        Reason::Unresolved
        | Reason::ConnectFailed
        | Reason::CertificateUntrusted
        | Reason::TlsFailed
        | Reason::UpstreamBroken
        | Reason::EncodedReply
        | Reason::UnusableValue => 502,
        Reason::ConnectTimeout => 504,
        _ => 403,
    };
    let code = serde_json::to_value(reason).ok().and_then(|code| code.as_str().map(str::to_owned)).unwrap_or_default();
    (status, code, format!("stead: egress refused: {reason}\n"))
}

pub fn refusal_page(reason: Reason) -> Vec<u8> {
    let (status, code, body) = refusal(reason);
    let words = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default();
    let length = body.len();
    format!(
        "HTTP/1.1 {status} {words}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nStead-Egress: {code}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
