//! Where a vault is: scheme, host and port, and nothing after it.

use std::fmt;
use std::str::FromStr;

use http::Uri;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultAddress {
    secure: bool,
    /// With the port.
    authority: String,
    is_this_host: bool,
}

impl VaultAddress {
    /// Whether a token would cross a network for everybody to read.
    pub fn is_exposed(&self) -> bool {
        !self.secure && !self.is_this_host
    }

    /// Where a redirect leads.
    pub(super) fn of_location(location: &str) -> Option<Self> {
        let uri: Uri = location.parse().ok()?;
        Self::of(&uri)
    }

    fn of(uri: &Uri) -> Option<Self> {
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return None,
        };
        let host = uri.host().filter(|host| !host.is_empty())?;
        if uri.authority()?.as_str().contains('@') {
            return None;
        }
        let plain = host.trim_start_matches('[').trim_end_matches(']');
        let is_this_host = plain == "localhost" || plain.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Some(Self { secure, authority: format!("{}:{port}", host.to_ascii_lowercase()), is_this_host })
    }
}

impl FromStr for VaultAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "is no address such as https://vault.example:8200".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err("has something after host and port".to_owned());
        }
        Self::of(&uri).ok_or_else(wrong)
    }
}

impl fmt::Display for VaultAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        let shown = |text: &str| text.parse::<VaultAddress>().map(|address| address.to_string());
        assert_eq!(shown("https://Vault.example").unwrap(), "https://vault.example:443");
        assert_eq!(shown("http://127.0.0.1:8200/").unwrap(), "http://127.0.0.1:8200");
        for bad in ["vault.example", "ftp://a", "https://u:p@a", "https://a/v1", "https://a?x", "https://", ""] {
            assert!(shown(bad).is_err(), "{bad}");
        }
        let exposed = |text: &str| text.parse::<VaultAddress>().unwrap().is_exposed();
        assert!(exposed("http://vault.example:8200") && exposed("http://10.0.0.1:8200"));
        assert!(!exposed("https://vault.example") && !exposed("http://[::1]:8200") && !exposed("http://localhost:8200"));
        assert_eq!(VaultAddress::of_location("https://a:8200/v1/x?y=1").unwrap().to_string(), "https://a:8200");
        assert_eq!(VaultAddress::of_location("/v1/x"), None);
    }
}
