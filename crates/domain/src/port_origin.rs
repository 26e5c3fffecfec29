//! Where ports are served: `{port}-{environment}.{domain}`, an origin for each and never the API's own.

use std::fmt;
use std::str::FromStr;

use crate::error::{Code, Error, Result};
use crate::ids::EnvironmentId;
use crate::ports::parse_port;

/// How ports are reached from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOrigin {
    pub secure: bool,
    /// In small letters, without a dot at either end.
    pub domain: String,
    /// In URLs; absent where it is the usual one of the scheme.
    pub port: Option<u16>,
}

/// A port of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortName {
    pub environment: EnvironmentId,
    pub port: u16,
}

/// The domain as an operator gives it: a name alone, or a URL where something stands before this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortDomain {
    pub domain: String,
    /// What the URL says: its scheme, and its port.
    pub outside: Option<(bool, Option<u16>)>,
}

impl FromStr for PortDomain {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::new(
                Code::Usage,
                format!("`{text}` is not a domain such as ports.example.org, or a URL such as https://ports.example.org"),
            )
        };
        let (scheme, rest) = text.split_once("://").map_or((None, text), |(scheme, rest)| (Some(scheme), rest));
        let secure = match scheme {
            None => None,
            Some("http") => Some(false),
            Some("https") => Some(true),
            Some(_) => return Err(wrong()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (domain, port) = match rest.split_once(':') {
            Some((domain, port)) if secure.is_some() => (domain, Some(port.parse::<u16>().map_err(|_| wrong())?)),
            Some(_) => return Err(wrong()),
            None => (rest, None),
        };
        let domain = domain.to_ascii_lowercase();
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // An address has no names below it.
        let is_address = domain.parse::<std::net::IpAddr>().is_ok();
        if domain.len() > 200 || is_address || !domain.split('.').all(is_label) {
            return Err(wrong());
        }
        Ok(Self { domain, outside: secure.map(|secure| (secure, port.filter(|port| *port != if secure { 443 } else { 80 }))) })
    }
}

impl PortOrigin {
    /// What a browser calls the origin of a port.
    pub fn url(&self, name: PortName) -> String {
        format!("{}://{}{}", if self.secure { "https" } else { "http" }, self.host(name), self.suffix())
    }

    /// How all of them look, for people.
    pub fn pattern(&self) -> String {
        format!("{}://PORT-ENVIRONMENT.{}{}", if self.secure { "https" } else { "http" }, self.domain, self.suffix())
    }

    pub fn host(&self, name: PortName) -> String {
        format!("{name}.{}", self.domain)
    }

    fn suffix(&self) -> String {
        self.port.map(|port| format!(":{port}")).unwrap_or_default()
    }

    /// What a `Host` names; none when it is no host of ours. The port in it says only how the caller came here.
    pub fn name(&self, host: &str) -> Option<PortName> {
        let host =
            host.rsplit_once(':').map_or(host, |(host, port)| if port.bytes().all(|byte| byte.is_ascii_digit()) { host } else { "" });
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        host.strip_suffix(&self.domain)?.strip_suffix('.')?.parse().ok()
    }
}

impl fmt::Display for PortName {
    /// The label in DNS: an id's underscore is none that a host may have, and its digits suffice.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.port, self.environment.digits())
    }
}

impl FromStr for PortName {
    type Err = Error;

    fn from_str(label: &str) -> Result<Self> {
        let unknown = || Error::new(Code::NotFound, "there is no port of that name here");
        let (port, digits) = label.split_once('-').ok_or_else(unknown)?;
        let environment = format!("{}_{digits}", EnvironmentId::PREFIX).parse().map_err(|_| unknown())?;
        Ok(Self { environment, port: parse_port(port)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> PortName {
        PortName { environment: "env_0123456789abcdef0123456789abcdef".parse().unwrap(), port: 8080 }
    }

    #[test]
    fn a_host_names_the_port_that_it_was_made_from() {
        let origin = PortOrigin { secure: false, domain: "localhost".to_owned(), port: Some(7071) };
        let host = "8080-0123456789abcdef0123456789abcdef.localhost";
        assert_eq!(origin.url(name()), format!("http://{host}:7071"));
        for good in [host.to_owned(), format!("{host}:7071"), format!("{host}:1"), format!("{host}."), host.to_uppercase()] {
            assert_eq!(origin.name(&good), Some(name()), "{good}");
        }
        for wrong in [
            "localhost",
            "8080-0123456789abcdef0123456789abcdef",
            "8080-0123456789abcdef0123456789abcdef.example.org",
            "8080-0123456789abcdef0123456789abcdef.evil.localhost",
            "8080-0123456789abcdef0123456789abcdef.localhost:x",
            "08080-0123456789abcdef0123456789abcdef.localhost",
            "8080-0123.localhost",
            ".localhost",
            "",
        ] {
            assert_eq!(origin.name(wrong), None, "{wrong}");
        }
        assert!(name().to_string().len() <= 63);
    }

    #[test]
    fn a_domain_is_a_name_or_a_url() {
        let parsed = |text: &str| text.parse::<PortDomain>().map(|domain| (domain.domain, domain.outside));
        assert_eq!(parsed("localhost").unwrap(), ("localhost".to_owned(), None));
        assert_eq!(parsed("https://Ports.example.org/").unwrap(), ("ports.example.org".to_owned(), Some((true, None))));
        assert_eq!(parsed("http://ports.test:8000").unwrap(), ("ports.test".to_owned(), Some((false, Some(8000)))));
        for wrong in ["", ".", "a..b", "-a", "a_b", "127.0.0.1", "x:80", "ftp://x", "https://x/y", "https://x:99999", "*.example.org"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
