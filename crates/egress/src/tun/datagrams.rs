//! UDP: questions to DNS are answered here, everything else is a conversation over a socket of its own on the host.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::UdpSocket;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;

use super::packet;
use crate::address::normalised;
use crate::dns;
use crate::environment::Environment;
use crate::policy::Access;
use crate::reason::Reason;
use crate::relay::carry_with;
use crate::relay::stream::Interrupted;
use crate::sniff::{Expected, Protocol};

/// Packets of one conversation that wait; more are dropped, as UDP may.
const MOST_WAITING: usize = 64;

pub struct Datagrams {
    environment: Arc<Environment>,
    replies: mpsc::Sender<Vec<u8>>,
    questions: Arc<Semaphore>,
    conversations: HashMap<(SocketAddr, SocketAddr), mpsc::Sender<Vec<u8>>>,
    mtu: u16,
}

impl Datagrams {
    pub fn new(environment: Arc<Environment>, replies: mpsc::Sender<Vec<u8>>, mtu: u16) -> Self {
        Self { environment, replies, questions: Arc::new(Semaphore::new(MOST_WAITING)), conversations: HashMap::new(), mtu }
    }

    pub fn take(&mut self, source: SocketAddr, destination: SocketAddr, payload: &[u8]) {
        if destination.port() == 53 {
            return self.answer(source, destination, payload.to_vec());
        }
        let key = (source, destination);
        if let Some(conversation) = self.conversations.get(&key)
            && !conversation.is_closed()
        {
            let _ = conversation.try_send(payload.to_vec());
            return;
        }
        if self.conversations.len() >= self.environment.shared.limits.conversations {
            self.conversations.retain(|_, conversation| !conversation.is_closed());
        }
        let full = self.conversations.len() >= self.environment.shared.limits.conversations;
        let slot = if full { None } else { self.environment.slot() };
        let Some(slot) = slot else {
            return self.environment.note_refusal(destination.ip(), destination.port(), Protocol::Udp, Reason::TooManyConnections);
        };
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        let _ = sender.try_send(payload.to_vec());
        self.conversations.insert(key, sender);
        let (environment, replies, mtu) = (self.environment.clone(), self.replies.clone(), self.mtu);
        self.environment.tasks.spawn(async move {
            let _slot = slot;
            if let Err((expected, reason)) = converse(&environment, source, destination, receiver, replies, mtu).await {
                let host = expected.map_or_else(|| destination.ip().to_string(), |expected| expected.host.to_string());
                environment.refuse(host, destination.port(), Protocol::Udp, reason).await;
            }
        });
    }

    fn answer(&self, source: SocketAddr, destination: SocketAddr, question: Vec<u8>) {
        let Ok(turn) = self.questions.clone().try_acquire_owned() else { return };
        let (environment, replies, mtu) = (self.environment.clone(), self.replies.clone(), self.mtu);
        self.environment.spawn(async move {
            let _turn = turn;
            if let Some(reply) = dns::answer(&environment, &question).await
                && let Some(packet) = packet::datagram(destination, source, &reply, mtu)
            {
                let _ = replies.send(packet).await;
            }
        });
    }
}

async fn converse(
    environment: &Environment,
    source: SocketAddr,
    destination: SocketAddr,
    mut outgoing: mpsc::Receiver<Vec<u8>>,
    replies: mpsc::Sender<Vec<u8>>,
    mtu: u16,
) -> Result<(), (Option<Expected>, Reason)> {
    // With a list there is no UDP: nothing in a datagram says which name it is for.
    if environment.policy().access() != Access::Enabled {
        return Err((None, Reason::NoListener));
    }
    let host = environment.meant_by(destination.ip()).map_err(|reason| (None, reason))?;
    let expected = Expected { host, port: destination.port() };
    let refused = |reason| (Some(expected.clone()), reason);
    let found = environment.stop.run_until_cancelled(environment.addresses(&expected)).await;
    let addresses = found.unwrap_or(Err(Reason::EnvironmentRemoved)).map_err(refused)?;
    let Some(&address) = addresses.first() else { return Err(refused(Reason::Unresolved)) };
    let socket = open(normalised(address), destination.port()).await.map_err(|_| refused(Reason::ConnectFailed))?;
    carry_with(environment, &expected, address, Protocol::Udp, async |meter| {
        let mut buffer = vec![0; usize::from(mtu)];
        while environment.policy().access() == Access::Enabled {
            tokio::select! {
                Some(payload) = outgoing.recv() => {
                    if socket.send(&payload).await.is_ok() {
                        meter.up.fetch_add(payload.len() as u64, Ordering::Relaxed);
                    }
                }
                received = socket.recv(&mut buffer) => {
                    // An unreachable port is an error here; the program finds out by waiting, as it must with UDP anyway.
                    let Ok(length) = received else { return Err(Interrupted::Broken) };
                    meter.down.fetch_add(length as u64, Ordering::Relaxed);
                    if let Some(packet) = packet::datagram(destination, source, &buffer[..length], mtu) {
                        let _ = replies.try_send(packet);
                    }
                }
                () = sleep(environment.shared.limits.conversation_idle) => return Ok(()),
            }
        }
        Err(Interrupted::Refused(Reason::PolicyChanged))
    })
    .await;
    Ok(())
}

/// Connected, so that only the other side's datagrams are let in.
async fn open(address: IpAddr, port: u16) -> std::io::Result<UdpSocket> {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect((address, port)).await?;
    Ok(socket)
}
