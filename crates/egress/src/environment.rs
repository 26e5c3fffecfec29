//! One environment as the relay knows it: its policy, its names, and everything that runs for it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stead_domain::Randomness;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::address::normalised;
use crate::broker::{Broker, BrokerText, InvalidBroker, Trust};
use crate::host::{Host, HostName};
use crate::journal::{Decision, Entry, Journal};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::relay::stream::Interrupted;
use crate::sniff::{Expected, Protocol};
use crate::synthetic::{SyntheticNames, is_synthetic};
use crate::upstream::Resolver;

/// What all environments share.
pub struct Shared {
    pub limits: Limits,
    pub resolver: Arc<dyn Resolver>,
    pub journal: Journal,
    pub randomness: Arc<dyn Randomness>,
    /// Whom hosts are believed by, where the relay speaks to them itself.
    pub trust: Trust,
    pub slots: Arc<Semaphore>,
    pub connections: AtomicU64,
    /// A lookup cannot be broken off; nobody waits for one that nobody wants any more.
    lookups: TaskTracker,
}

impl Shared {
    pub fn new(limits: Limits, resolver: Arc<dyn Resolver>, journal: Journal, randomness: Arc<dyn Randomness>, trust: Trust) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(limits.all_connections));
        Arc::new(Self { limits, resolver, journal, randomness, trust, slots, connections: AtomicU64::new(1), lookups: TaskTracker::new() })
    }
}

pub struct Environment {
    pub id: Arc<str>,
    pub shared: Arc<Shared>,
    policy: watch::Sender<Arc<Policy>>,
    broker: watch::Sender<Option<Arc<Broker>>>,
    names: Mutex<SyntheticNames>,
    slots: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
    pub stop: CancellationToken,
    pub tasks: TaskTracker,
}

/// The right to one connection.
pub struct Slot {
    _own: OwnedSemaphorePermit,
    _shared: OwnedSemaphorePermit,
}

impl Environment {
    pub fn new(id: &str, policy: Policy, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            policy: watch::Sender::new(Arc::new(policy)),
            broker: watch::Sender::new(None),
            names: Mutex::default(),
            slots: Arc::new(Semaphore::new(shared.limits.connections)),
            lookups: Arc::new(Semaphore::new(shared.limits.lookups)),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            shared,
        })
    }

    pub fn policy(&self) -> Arc<Policy> {
        self.policy.borrow().clone()
    }

    /// Connections that it no longer allows are closed.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.send_replace(Arc::new(policy));
    }

    pub fn broker(&self) -> Option<Arc<Broker>> {
        self.broker.borrow().clone()
    }

    pub fn is_brokered(&self, expected: &Expected) -> bool {
        self.broker.borrow().as_ref().is_some_and(|broker| broker.covers(&expected.host, expected.port).is_some())
    }

    /// Requests that come from now on are brokered so. What nothing is brokered for any more is closed.
    pub fn set_broker(&self, text: &BrokerText) -> Result<(), InvalidBroker> {
        let broker = Broker::parse(&self.id, text, self.broker().as_deref())?;
        self.broker.send_replace(Some(Arc::new(broker)));
        Ok(())
    }

    /// Waits until nothing is brokered for a host any more.
    pub async fn until_unbrokered(&self, expected: &Expected) {
        let mut changes = self.broker.subscribe();
        while self.is_brokered(expected) {
            // The sender lives as long as we do.
            let _ = changes.changed().await;
        }
    }

    /// Runs until it is done or the environment is removed.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(work).await;
        });
    }

    /// The beginning of a connection: it must come in time.
    pub async fn beginning<T>(&self, work: impl Future<Output = Result<T, Interrupted>>) -> Result<T, Interrupted> {
        tokio::select! {
            outcome = timeout(self.shared.limits.beginning, work) => outcome.unwrap_or(Err(Reason::SlowStart.into())),
            () = self.stop.cancelled() => Err(Interrupted::Broken),
        }
    }

    /// Ends everything and waits for it.
    pub async fn remove(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub fn slot(&self) -> Option<Slot> {
        let own = self.slots.clone().try_acquire_owned().ok()?;
        let shared = self.shared.slots.clone().try_acquire_owned().ok()?;
        Some(Slot { _own: own, _shared: shared })
    }

    pub fn connections(&self) -> usize {
        self.shared.limits.connections - self.slots.available_permits()
    }

    pub fn synthetic_addresses(&self, name: &HostName) -> (std::net::Ipv4Addr, std::net::Ipv6Addr) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).addresses(name)
    }

    /// What a program means by an address.
    pub fn meant_by(&self, address: IpAddr) -> Result<Host, Reason> {
        if !is_synthetic(address) {
            return Ok(Host::Address(normalised(address)));
        }
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.name(address).cloned().map(Host::Name).ok_or(Reason::UnknownSyntheticAddress)
    }

    /// Where `expected` may be reached, decided by name before anybody is asked for an address.
    pub async fn addresses(&self, expected: &Expected) -> Result<Vec<IpAddr>, Reason> {
        self.policy().decide(&expected.host, expected.port)?;
        self.reachable(&expected.host).await
    }

    /// Whether any address of a name may be reached; for `enabled`, where every name is known.
    pub async fn exists(&self, name: &HostName) -> Result<(), Reason> {
        self.reachable(&Host::Name(name.clone())).await.map(drop)
    }

    async fn reachable(&self, host: &Host) -> Result<Vec<IpAddr>, Reason> {
        let found = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => timeout(self.shared.limits.resolve, self.look_up(name.clone())).await.unwrap_or(Err(Reason::Unresolved))?,
        };
        crate::upstream::reachable(host, found, &self.policy())
    }

    /// The turn is held until the lookup is really over, however long somebody waits for it: each takes a thread.
    async fn look_up(&self, name: HostName) -> Result<Vec<IpAddr>, Reason> {
        let turn = self.lookups.clone().acquire_owned().await;
        let resolver = self.shared.resolver.clone();
        let looking = self.shared.lookups.spawn(async move {
            let found = resolver.resolve(&name).await;
            drop(turn);
            found
        });
        looking.await.ok().and_then(Result::ok).ok_or(Reason::Unresolved)
    }

    /// Waits until a connection that was allowed no longer is.
    pub async fn until_denied(&self, expected: &Expected, address: IpAddr) -> Reason {
        let mut changes = self.policy.subscribe();
        loop {
            let policy = changes.borrow_and_update().clone();
            if policy.decide(&expected.host, expected.port).and_then(|()| policy.decide_address(&expected.host, address)).is_err() {
                return Reason::PolicyChanged;
            }
            tokio::select! {
                () = self.stop.cancelled() => return Reason::EnvironmentRemoved,
                // The sender lives as long as we do.
                _ = changes.changed() => {}
            }
        }
    }

    pub fn next_connection(&self) -> u64 {
        self.shared.connections.fetch_add(1, Ordering::Relaxed)
    }

    pub async fn record(&self, entry: Entry) {
        self.shared.journal.record(&self.id, entry).await;
    }

    pub async fn refuse(&self, host: impl ToString, port: u16, protocol: Protocol, reason: Reason) {
        self.record(Entry::new(host, port, protocol, Decision::Refused).because(reason)).await;
    }

    /// As `refuse`, for what can come by the thousand.
    pub fn note_refusal(&self, host: impl ToString, port: u16, protocol: Protocol, reason: Reason) {
        self.shared.journal.note(&self.id, Entry::new(host, port, protocol, Decision::Refused).because(reason));
    }
}
