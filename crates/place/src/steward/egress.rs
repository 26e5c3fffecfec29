//! The steward's end of the relay: it hands the ways out over, keeps its own hold of them, and hands them over again to the next relay.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use stead_egress::broker::BrokerText;
use stead_egress::control::{BlockingClient, Socket};
use stead_egress::policy::PolicyText;
use stead_sandbox::Outlet;

use super::clock;
use crate::blueprint::{Blueprint, Network};

/// How long to wait before a relay that is gone is looked for again.
const AGAIN: u64 = 500;

/// None of it for an environment without a network.
pub struct Egress {
    relay: PathBuf,
    environment: String,
    policy: PolicyText,
    /// What is put into requests on their way out. In memory only, for the next relay too.
    broker: Option<BrokerText>,
    client: Option<BlockingClient>,
    /// When to look for it again.
    pub due: Option<u64>,
}

impl Egress {
    pub fn of(blueprint: &Blueprint) -> Option<Self> {
        let Network::Relayed { relay, policy } = &blueprint.network else { return None };
        let environment = blueprint.environment.to_string();
        Some(Self { relay: relay.clone(), environment, policy: policy.clone(), broker: None, client: None, due: None })
    }

    /// For polling: it says something only when it ends.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.client.as_ref().map(BlockingClient::as_fd)
    }

    /// Hands the ways out over. Until that is done nothing gets out.
    pub fn connect(&mut self, outlets: &[(Outlet, OwnedFd)]) -> io::Result<()> {
        self.client = None;
        self.due = Some(clock::milliseconds() + AGAIN);
        let mut client = BlockingClient::connect(&self.relay)?;
        let sockets: Vec<_> = outlets.iter().map(|(outlet, descriptor)| (socket(*outlet), descriptor.as_fd())).collect();
        client.add(&self.environment, &self.policy, &sockets)?;
        if let Some(broker) = &self.broker {
            client.broker(&self.environment, broker)?;
        }
        self.client = Some(client);
        self.due = None;
        Ok(())
    }

    /// Holds what leaves to another policy, now and whenever it is handed over again.
    pub fn hold_to(&mut self, policy: &PolicyText) {
        self.policy = policy.clone();
        let told = self.client.as_mut().map(|client| client.update(&self.environment, policy));
        // Whoever does not answer is asked anew, and until then nothing new gets out of a relay that has ended.
        if matches!(told, Some(Err(_))) {
            self.lost();
        }
    }

    /// Has exactly this put into requests from now on, before anybody inside can make one.
    pub fn put_in(&mut self, broker: Option<&BrokerText>, outlets: &[(Outlet, OwnedFd)]) -> io::Result<()> {
        if self.broker.as_ref() == broker {
            return Ok(());
        }
        // What is taken back is taken back from the relay too; one that is not there has nothing.
        let without = self.broker.take().map(|before| BrokerText { secrets: Vec::new(), ..before });
        self.broker = broker.cloned();
        let told = match (&mut self.client, self.broker.as_ref().or(without.as_ref())) {
            (Some(client), Some(text)) => client.broker(&self.environment, text),
            _ => Err(io::ErrorKind::NotConnected.into()),
        };
        match told {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.broker = None;
                Err(error)
            }
            // It may have ended a moment ago: whoever answers now is told everything.
            Err(_) if self.broker.is_some() => self.connect(outlets),
            Err(_) => {
                self.lost();
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// The relay has ended.
    pub fn lost(&mut self) {
        self.client = None;
        self.due = Some(clock::milliseconds() + AGAIN);
    }

    /// Lets the relay forget the environment.
    pub fn end(&mut self) {
        if let Some(client) = &mut self.client {
            let _ = client.remove(&self.environment);
        }
        self.client = None;
        self.due = None;
    }
}

fn socket(outlet: Outlet) -> Socket {
    match outlet {
        Outlet::Tcp(port) => Socket::Tcp { port },
        Outlet::Proxy => Socket::Proxy,
        Outlet::NameDatagrams => Socket::DnsDatagrams,
        Outlet::NameStreams => Socket::DnsStreams,
        Outlet::Packets => Socket::Packets,
        Outlet::Device { largest_packet } => Socket::Tun { mtu: largest_packet },
    }
}
