//! What a program says first, compared with where it connects to.

pub mod http;
pub mod tls;

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::policy::Policy;
use crate::reason::Reason;

/// What a connection carries, as far as it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    Tls,
    Http,
    /// Any other protocol over TCP.
    Tcp,
    Udp,
    Dns,
}

/// What was decided for a connection, and what it must therefore say about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub host: Host,
    pub port: u16,
}

/// Longer beginnings are no TLS hello and no request.
pub const LONGEST_BEGINNING: usize = http::LONGEST_HEAD + 1024;

/// `None` while more must be read.
pub fn inspect(bytes: &[u8], expected: &Expected, policy: &Policy) -> Result<Option<Protocol>, Reason> {
    match tls::begins(bytes) {
        None => return Ok(None),
        Some(true) => {
            return match tls::parse(bytes) {
                tls::Hello::Partial if bytes.len() > LONGEST_BEGINNING => Err(Reason::MalformedHello),
                tls::Hello::Partial => Ok(None),
                tls::Hello::Malformed => Err(Reason::MalformedHello),
                tls::Hello::Whole { encrypted: true, .. } => Err(Reason::EncryptedHello),
                tls::Hello::Whole { server_name, .. } => {
                    expected.check_server_name(server_name.as_deref(), policy).map(|()| Some(Protocol::Tls))
                }
            };
        }
        Some(false) => {}
    }
    match http::begins(bytes) {
        None if bytes.len() > LONGEST_BEGINNING => Err(Reason::HeadTooLong),
        None => Ok(None),
        Some(false) => Ok(Some(Protocol::Tcp)),
        // Its names are compressed and come with every stream. Where plain HTTP is at home it is refused; on a port that was listed for it, it passes.
        Some(true) if http::is_http2(bytes) && expected.port == 80 => Err(Reason::CleartextHttp2),
        Some(true) if http::is_http2(bytes) => Ok(Some(Protocol::Tcp)),
        Some(true) => match http::parse(bytes)? {
            None => Ok(None),
            Some(head) => expected.check_request(&head, policy).map(|()| Some(Protocol::Http)),
        },
    }
}

/// The host that a beginning names, for the journal: never more than a name can be, and nothing but what can be shown.
pub fn named(bytes: &[u8]) -> Option<String> {
    let named = match tls::parse(bytes) {
        tls::Hello::Whole { server_name, .. } => server_name,
        _ => http::parse(bytes).ok().flatten().and_then(|head| head.authority),
    };
    named.map(|name| name.chars().take(260).map(|character| if character.is_ascii_graphic() { character } else { '?' }).collect())
}

impl Expected {
    fn check_server_name(&self, server_name: Option<&str>, policy: &Policy) -> Result<(), Reason> {
        match (server_name, &self.host) {
            // Clients name no server when they were given an address.
            (None, Host::Address(_)) => Ok(()),
            (None, Host::Name(_)) => Err(Reason::ServerNameMissing),
            (Some(named), _) => {
                let named = Host::parse(named).map_err(|_| Reason::ServerNameMismatch)?;
                if self.is_same(&named, policy) { Ok(()) } else { Err(Reason::ServerNameMismatch) }
            }
        }
    }

    /// Every request of a connection, not only the first.
    pub fn check_request(&self, head: &http::Head, policy: &Policy) -> Result<(), Reason> {
        // A proxy behind the relay would go on to somewhere that was never decided.
        if head.method == "CONNECT" {
            return Err(Reason::HostMismatch);
        }
        let (host, port) = head.destination()?;
        if self.is_same(&host, policy) && port.is_none_or(|port| port == self.port) { Ok(()) } else { Err(Reason::HostMismatch) }
    }

    /// A listed address may serve names, but only such as are listed themselves.
    fn is_same(&self, named: &Host, policy: &Policy) -> bool {
        *named == self.host || matches!(self.host, Host::Address(_)) && policy.decide(named, self.port).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicyText;

    fn outcome(bytes: &[u8], host: &str, port: u16) -> Result<Option<Protocol>, Reason> {
        let text = PolicyText { allowed_hosts: vec!["listed.example".to_owned()], ..PolicyText::default() };
        inspect(bytes, &Expected { host: Host::parse(host).unwrap(), port }, &Policy::parse(&text).unwrap())
    }

    #[test]
    fn tls_must_name_the_host() {
        let hello = tls::tests::client_hello("A.example");
        assert_eq!(outcome(&hello, "a.example", 443), Ok(Some(Protocol::Tls)));
        assert_eq!(outcome(&hello, "b.example", 443), Err(Reason::ServerNameMismatch));
        assert_eq!(outcome(&hello, "b.example", 9999), Err(Reason::ServerNameMismatch), "on every port");
        assert_eq!(outcome(&hello, "93.184.216.34", 443), Err(Reason::ServerNameMismatch));
        assert_eq!(outcome(&tls::tests::client_hello("listed.example"), "93.184.216.34", 443), Ok(Some(Protocol::Tls)));
        assert_eq!(outcome(&hello[..2], "a.example", 443), Ok(None));
        assert_eq!(named(&hello).as_deref(), Some("A.example"));
        assert_eq!(named(b"GET / HTTP/1.1\r\nHost: \xff\xc3\r\n\r\n"), None);
        assert_eq!(named(b"SSH-2.0-OpenSSH\r\n"), None);
    }

    #[test]
    fn requests_must_name_the_host() {
        let request = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
        assert_eq!(outcome(&request("a.example"), "a.example", 80), Ok(Some(Protocol::Http)));
        assert_eq!(outcome(&request("a.example:8080"), "a.example", 8080), Ok(Some(Protocol::Http)));
        assert_eq!(outcome(&request("a.example:81"), "a.example", 80), Err(Reason::HostMismatch));
        assert_eq!(outcome(&request("evil.example"), "a.example", 80), Err(Reason::HostMismatch));
        assert_eq!(outcome(&request("evil.example"), "a.example", 443), Err(Reason::HostMismatch), "on every port");
        assert_eq!(outcome(&request("93.184.216.34"), "93.184.216.34", 80), Ok(Some(Protocol::Http)));
        assert_eq!(outcome(b"CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\n", "a.example", 80), Err(Reason::HostMismatch));
    }

    #[test]
    fn others_pass() {
        for bytes in [&b"SSH-2.0-OpenSSH_9.2\r\n"[..], b"\0\0\0\x08\x04\xd2\x16\x2f", b"\x80\x2e\x01"] {
            assert_eq!(outcome(bytes, "a.example", 22), Ok(Some(Protocol::Tcp)));
        }
        assert_eq!(outcome(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "a.example", 80), Err(Reason::CleartextHttp2));
        assert_eq!(outcome(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "a.example", 50051), Ok(Some(Protocol::Tcp)));
    }
}
