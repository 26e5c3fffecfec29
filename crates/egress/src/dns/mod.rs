//! DNS for one environment: answered here, from the policy. A name that is not listed is sent to nobody.

pub mod message;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::environment::Environment;
use crate::policy::Access;
use crate::reason::Reason;
use crate::relay::stream::Stream;
use crate::sniff::Protocol;
use message::{Code, Query};

/// A resolver asks again long before this.
const IDLE: Duration = Duration::from_secs(10);
/// Questions under way from one socket; more are dropped, as UDP may.
const UNDER_WAY: usize = 64;

/// `None` for what is not answered at all.
pub async fn answer(environment: &Environment, packet: &[u8]) -> Option<Vec<u8>> {
    let question = match message::parse(packet) {
        Query::Ignored => return None,
        Query::Rejected(reply) => return Some(reply),
        Query::Asked(question) => question,
    };
    let policy = environment.policy();
    if !policy.knows(&question.name) {
        environment.note_refusal(&question.name, 53, Protocol::Dns, Reason::NotListed);
        return Some(question.code(Code::NoSuchName));
    }
    // With a list, every listed name is answered without asking; a name that is not there fails on connect. Without one, programs rely on
    // being told which names exist.
    if policy.access() == Access::Enabled
        && let Err(reason) = environment.exists(&question.name).await
    {
        if reason != Reason::Unresolved {
            environment.note_refusal(&question.name, 53, Protocol::Dns, reason);
        }
        return Some(question.code(Code::NoSuchName));
    }
    let (four, six) = environment.synthetic_addresses(&question.name);
    Some(question.addresses(four, six))
}

/// Serves a datagram socket that was bound inside, to the address that the environment's `resolv.conf` names.
pub async fn serve_datagrams(environment: Arc<Environment>, socket: UdpSocket) {
    let (socket, turns) = (Arc::new(socket), Arc::new(Semaphore::new(UNDER_WAY)));
    let mut packet = [0; 1500];
    loop {
        let Ok((length, peer)) = socket.recv_from(&mut packet).await else {
            // The last reply could not be delivered; or the socket is useless, and then this must not spin.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Ok(turn) = turns.clone().try_acquire_owned() else { continue };
        let (asked, socket, owner) = (packet[..length].to_vec(), socket.clone(), environment.clone());
        environment.spawn(async move {
            let _turn = turn;
            if let Some(reply) = answer(&owner, &asked).await {
                let _ = socket.send_to(&reply, peer).await;
            }
        });
    }
}

/// Serves one DNS connection: each message with its length before it.
pub async fn serve_stream(environment: &Environment, mut stream: impl Stream) {
    let mut message = Vec::new();
    loop {
        let read = async {
            let length = stream.read_u16().await?;
            message.resize(usize::from(length), 0);
            stream.read_exact(&mut message).await
        };
        let Ok(Ok(_)) = timeout(IDLE, read).await else { return };
        let Some(reply) = answer(environment, &message).await else { return };
        let Ok(length) = u16::try_from(reply.len()) else { return };
        let framed = [&length.to_be_bytes(), &reply[..]].concat();
        let Ok(Ok(())) = timeout(IDLE, stream.write_all(&framed)).await else { return };
    }
}
