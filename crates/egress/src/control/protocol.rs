//! What a server and the relay say to each other: one JSON object per frame, a request and its reply.

use serde::{Deserialize, Serialize};

use crate::broker::BrokerText;
use crate::policy::PolicyText;

/// Raised when a message changes its meaning; the relay outlives servers, so an older or newer one may call.
pub const PROTOCOL: u32 = 2;
/// The oldest that is still spoken. It has no [`Request::Broker`].
pub const LAST: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// The first on every connection.
    Hello {
        protocol: u32,
    },
    /// With one descriptor for each socket, in the same order. An environment of that name is replaced.
    Add {
        environment: String,
        policy: PolicyText,
        sockets: Vec<Socket>,
    },
    Update {
        environment: String,
        policy: PolicyText,
    },
    /// Replaces what is brokered for it. Connections that nothing is brokered for any more are closed.
    Broker {
        environment: String,
        broker: BrokerText,
    },
    /// Answered when its last connection is closed.
    Remove {
        environment: String,
    },
    List,
    Ping,
    /// Ends the relay, if it has no environment; a newer one may then take its place.
    Retire,
}

/// What a descriptor is for. All of them were made inside the environment's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Socket {
    /// A listening socket; connections to any address on this port come through it.
    Tcp { port: u16 },
    /// A listening socket for `HTTP_PROXY` and `ALL_PROXY`.
    Proxy,
    /// A datagram socket, bound to port 53 of the address that `resolv.conf` names.
    DnsDatagrams,
    /// A listening socket on port 53.
    DnsStreams,
    /// An `AF_PACKET` socket on loopback, for the journal only.
    Packets,
    /// A TUN device without packet information: all ports, for `enabled`.
    Tun { mtu: u16 },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    Hello { protocol: u32, version: String, pid: u32 },
    Done,
    List { environments: Vec<Listed> },
    Failed { code: Failure, message: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub environment: String,
    pub policy: PolicyText,
    pub sockets: Vec<Socket>,
    /// Open now.
    pub connections: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The other side speaks another protocol.
    Protocol,
    Malformed,
    InvalidEnvironment,
    InvalidPolicy,
    InvalidBroker,
    /// A descriptor is missing, superfluous, or not what the request says.
    InvalidSocket,
    NoSuchEnvironment,
    /// It has environments, and ends only without them.
    Busy,
}
