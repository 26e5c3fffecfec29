//! etcd: its own lock service, with a lease that each holder has for as long as it is there. One node, which syncs what it agrees to.

use std::io::{Error, Result};
use std::net::TcpListener;
use std::path::Path;

use super::grpc::{Channel, Field, Message, find};
use super::program::Program;
use super::session::{Service, Session};

/// Seconds; longer than anything here takes, so that nobody has to renew it meanwhile.
const LEASE: u64 = 3600;

pub struct Etcd {
    _program: Program,
    address: String,
}

impl Etcd {
    pub async fn start(root: &Path) -> Result<Self> {
        let (clients, peers) = free_ports()?;
        let mut program = Program::start("etcd", root, |directory| {
            let (clients, peers) = (format!("http://{clients}"), format!("http://{peers}"));
            let data = directory.join("data").display().to_string();
            let cluster = format!("default={peers}");
            let arguments = [
                ["--data-dir", &data],
                ["--listen-client-urls", &clients],
                ["--advertise-client-urls", &clients],
                ["--listen-peer-urls", &peers],
                ["--initial-advertise-peer-urls", &peers],
                ["--initial-cluster", &cluster],
                ["--log-level", "error"],
            ];
            arguments.concat().into_iter().map(str::to_owned).collect()
        })?;
        program.until(|| lease(&clients)).await?;
        Ok(Self { _program: program, address: clients })
    }
}

/// Two that were free a moment ago.
fn free_ports() -> Result<(String, String)> {
    let (first, second) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok((first.local_addr()?.to_string(), second.local_addr()?.to_string()))
}

/// A connection, and a lease for whoever has it. Works once there is a leader.
async fn lease(address: &str) -> Result<(Channel, u64)> {
    let mut channel = Channel::open(address).await?;
    let granted = channel.call("/etcdserverpb.Lease/LeaseGrant", &Message::default().number(1, LEASE).0).await?;
    match find(&granted, 2) {
        Some(Field::Number(lease)) => Ok((channel, lease)),
        _ => Err(Error::other("no lease was granted")),
    }
}

impl Service for Etcd {
    type Session = Holder;

    async fn session(&self, lock: usize) -> Result<Holder> {
        let (channel, lease) = lease(&self.address).await?;
        let wanted = Message::default().bytes(1, format!("lock-{lock}").as_bytes()).number(2, lease).0;
        Ok(Holder { channel, wanted, held: Vec::new() })
    }
}

pub struct Holder {
    channel: Channel,
    wanted: Vec<u8>,
    /// The key that is there for as long as it is held.
    held: Vec<u8>,
}

impl Session for Holder {
    async fn acquire(&mut self) -> Result<()> {
        let granted = self.channel.call("/v3lockpb.Lock/Lock", &self.wanted).await?;
        match find(&granted, 2) {
            Some(Field::Bytes(key)) => self.held = key.to_vec(),
            _ => return Err(Error::other("no key of a lock")),
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        self.channel.call("/v3lockpb.Lock/Unlock", &Message::default().bytes(1, &self.held).0).await.map(drop)
    }
}
