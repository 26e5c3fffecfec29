//! Where a server is.

use std::fmt;
use std::path::PathBuf;

use http::Uri;

use crate::{ClientError, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Unix {
        path: PathBuf,
    },
    Tcp {
        secure: bool,
        host: String,
        port: u16,
        /// What stands before `/v1`, for a server behind a reverse proxy; empty, or with a slash in front and none at the end.
        base: String,
    },
}

impl Endpoint {
    /// Reads `http://…`, `https://…` or `unix:/path`.
    pub fn parse(url: &str) -> Result<Self> {
        let invalid = |problem: &str| ClientError::Address { url: url.to_owned(), problem: problem.to_owned() };
        if let Some(path) = url.strip_prefix("unix:") {
            // `unix:///path` and `unix:/path` are both in use.
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(invalid("a unix socket is named by its absolute path"));
            }
            return Ok(Self::Unix { path: PathBuf::from(path) });
        }
        let uri: Uri = url.parse().map_err(|_| invalid("it should look like https://stead.example.org"))?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(invalid("it begins with http://, https:// or unix:")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("a user or password has no place in it; use a key"));
        }
        if uri.query().is_some() {
            return Err(invalid("it has no place for a query"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(invalid("it names no host"));
        }
        // Not `Authority::port`: it answers nothing for a port that is too large.
        let port = match authority.as_str().strip_prefix(authority.host()).unwrap_or_default().strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| invalid("the port is not a number below 65536"))?,
            None if secure => 443,
            None => 80,
        };
        Ok(Self::Tcp { secure, host, port, base: uri.path().trim_end_matches('/').to_owned() })
    }

    /// The value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        match self {
            Self::Unix { .. } => "localhost".to_owned(),
            Self::Tcp { secure, host, port, .. } => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                let usual = if *secure { 443 } else { 80 };
                if *port == usual { host } else { format!("{host}:{port}") }
            }
        }
    }

    pub(crate) fn base(&self) -> &str {
        match self {
            Self::Unix { .. } => "",
            Self::Tcp { base, .. } => base,
        }
    }

    /// Whether what is sent stays on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix { .. } => true,
            Self::Tcp { host, .. } => host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()),
        }
    }

    pub fn is_secure(&self) -> bool {
        matches!(self, Self::Tcp { secure: true, .. })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { path } => write!(formatter, "unix:{}", path.display()),
            Self::Tcp { secure, base, .. } => {
                write!(formatter, "{}://{}{base}", if *secure { "https" } else { "http" }, self.authority())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_its_text() {
        for (text, shown) in [
            ("http://127.0.0.1:7070", "http://127.0.0.1:7070"),
            ("https://stead.example.org/", "https://stead.example.org"),
            ("https://example.org:8443/stead/", "https://example.org:8443/stead"),
            ("http://[::1]:7070", "http://[::1]:7070"),
            ("unix:///run/stead.sock", "unix:/run/stead.sock"),
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(Endpoint::parse(shown).unwrap(), endpoint);
        }
        assert!(Endpoint::parse("http://[::1]:7070").unwrap().is_local());
        assert!(!Endpoint::parse("http://example.org").unwrap().is_local());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "example.org", "ftp://x", "http://", "http://user:word@host", "http://host?x=1", "unix:relative", "http://h:99999"]
        {
            assert!(matches!(Endpoint::parse(text), Err(ClientError::Address { .. })), "{text}");
        }
    }
}
