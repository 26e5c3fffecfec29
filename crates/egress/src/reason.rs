//! Why something was refused or ended: one vocabulary for the journal, for replies and for tests.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    // By the list.
    #[error("the name is not in allowed_hosts")]
    NotListed,
    #[error("the name is in allowed_hosts, but not with this port")]
    PortNotListed,
    #[error("the address is not in allowed_hosts; addresses are listed as such")]
    AddressNotListed,
    #[error("the address stands for no name that was looked up")]
    UnknownSyntheticAddress,
    #[error("nothing listens for this port; name it in allowed_hosts")]
    NoListener,
    // By the address.
    #[error("the address is not public; the operator may allow it with `stead serve --egress-allow`")]
    NonPublicAddress,
    #[error("the address hands out the machine's own credentials")]
    MetadataAddress,
    // By what is said on the connection.
    #[error("the TLS hello names no server")]
    ServerNameMissing,
    #[error("the TLS hello names another server")]
    ServerNameMismatch,
    #[error("the TLS hello is encrypted, so the name in it cannot be checked")]
    EncryptedHello,
    #[error("the TLS hello cannot be read")]
    MalformedHello,
    #[error("the request names no host, or more than one")]
    HostMissing,
    #[error("the request names another host")]
    HostMismatch,
    #[error("the request cannot be read without doubt")]
    MalformedRequest,
    #[error("the request's head is longer than 64 KiB")]
    HeadTooLong,
    #[error("HTTP/2 without TLS on port 80 cannot be checked")]
    CleartextHttp2,
    #[error("the beginning did not come in time")]
    SlowStart,
    #[error("the proxy request is not one that is known here")]
    UnknownProxyRequest,
    // By what is brokered.
    #[error("a secret is brokered for this host, and without TLS only where the binding names the port")]
    PlainHttp,
    #[error("a secret is brokered for this host, and only HTTP is spoken to it")]
    NotHttp,
    #[error("the program does not trust the environment's certificate authority; see docs/broker.md")]
    NotTrustedInside,
    #[error("the value of a secret cannot stand where its binding puts it")]
    UnusableValue,
    #[error("the reply is compressed although that was not asked for, and cannot be looked into")]
    EncodedReply,
    #[error("the host's certificate is not one that this machine trusts")]
    CertificateUntrusted,
    #[error("TLS with the host failed")]
    TlsFailed,
    #[error("the host broke off, or did not speak HTTP")]
    UpstreamBroken,
    // By what is there.
    #[error("too many connections at once")]
    TooManyConnections,
    #[error("the name has no address")]
    Unresolved,
    #[error("the host did not answer in time")]
    ConnectTimeout,
    #[error("the host refused the connection or cannot be reached")]
    ConnectFailed,
    // How an allowed connection ended.
    #[error("both sides were done")]
    Done,
    #[error("one side broke off")]
    Broken,
    #[error("the policy no longer allows it")]
    PolicyChanged,
    #[error("nothing is brokered for the host any more")]
    BrokerChanged,
    #[error("the environment is gone")]
    EnvironmentRemoved,
}
