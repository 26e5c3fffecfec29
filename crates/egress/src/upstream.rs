//! The way out: a name is resolved once, and the connection goes to an address that was looked at.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::address::normalised;
use crate::host::{Host, HostName};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::reason::Reason;

/// Finds the addresses of a name. Asked only for what the policy allows.
#[async_trait]
pub trait Resolver: Send + Sync {
    async fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>>;
}

/// The host's own resolver, with all that its operator has set up.
pub struct HostResolver;

#[async_trait]
impl Resolver for HostResolver {
    async fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name.as_str(), 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Those of the addresses of `host` that may be reached; at least one.
pub fn reachable(host: &Host, found: Vec<IpAddr>, policy: &Policy) -> Result<Vec<IpAddr>, Reason> {
    let (mut reachable, mut denied) = (Vec::new(), Reason::Unresolved);
    for address in found {
        match policy.decide_address(host, address) {
            Ok(()) if !reachable.contains(&address) => reachable.push(address),
            Ok(()) => {}
            Err(reason) => denied = reason,
        }
    }
    if reachable.is_empty() { Err(denied) } else { Ok(reachable) }
}

/// Tries one address after the other. There is no second lookup between the check and the connection.
pub async fn connect(addresses: &[IpAddr], port: u16, limits: &Limits) -> Result<(TcpStream, IpAddr), Reason> {
    let end = Instant::now() + limits.connect;
    let mut failure = Reason::ConnectFailed;
    for (index, address) in addresses.iter().enumerate() {
        // A dead address takes its share of the time and leaves the others theirs.
        let left = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        let share = Instant::now() + end.saturating_duration_since(Instant::now()) / left;
        match timeout_at(share, TcpStream::connect(SocketAddr::new(normalised(*address), port))).await {
            Ok(Ok(stream)) => {
                keep_alive(&stream);
                return Ok((stream, *address));
            }
            Ok(Err(_)) => failure = Reason::ConnectFailed,
            Err(_) => failure = Reason::ConnectTimeout,
        }
    }
    Err(failure)
}

/// Streams may be idle as long as they like; a peer that is gone is noticed.
pub fn keep_alive(stream: &TcpStream) {
    use rustix::net::sockopt;
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(60));
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(20));
    let _ = sockopt::set_tcp_keepcnt(stream, 4);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Access, PolicyText};

    #[test]
    fn a_name_that_points_inside_is_refused() {
        let policy = Policy::parse(&PolicyText { access: Access::Enabled, ..PolicyText::default() }).unwrap();
        let host = Host::parse("rebind.example").unwrap();
        let decide = |found: &[&str]| reachable(&host, found.iter().map(|text| text.parse().unwrap()).collect(), &policy);
        assert_eq!(decide(&["127.0.0.1"]), Err(Reason::NonPublicAddress));
        assert_eq!(decide(&["10.0.0.1", "::1"]), Err(Reason::NonPublicAddress));
        assert_eq!(decide(&["::ffff:169.254.169.254"]), Err(Reason::MetadataAddress));
        assert_eq!(decide(&[]), Err(Reason::Unresolved));
        assert_eq!(decide(&["10.0.0.1", "9.9.9.9", "9.9.9.9"]), Ok(vec!["9.9.9.9".parse().unwrap()]));
    }
}
