//! Where GitHub is: scheme, host, port and what comes before every path.

use std::fmt;
use std::net::IpAddr;

use http::Uri;

/// An address that credentials are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) secure: bool,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    /// Without a slash at its end; empty at the root.
    pub(crate) base: String,
}

#[derive(Debug, thiserror::Error)]
#[error("`{text}` is no address of GitHub: {why}")]
pub struct InvalidAddress {
    text: String,
    why: &'static str,
}

impl Address {
    pub fn parse(text: &str) -> Result<Self, InvalidAddress> {
        let wrong = |why| InvalidAddress { text: text.chars().take(200).collect(), why };
        let uri: Uri = text.trim().parse().map_err(|_| wrong("it is no URL"))?;
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("it holds a user"));
        }
        if uri.query().is_some() {
            return Err(wrong("it holds a query"));
        }
        let host = authority.host().to_owned();
        let secure = match uri.scheme_str() {
            Some("https") => true,
            // In the clear only where nobody else listens: a signed request of the app's would be anybody's.
            Some("http") if is_here(&host) => false,
            Some("http") => return Err(wrong("credentials go there, so it must be https")),
            _ => return Err(wrong("it must begin with https://")),
        };
        let base = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { secure, host, port: authority.port_u16(), base })
    }

    /// Where the API of an Enterprise server is, whose web address this is.
    #[must_use]
    pub fn api_of_server(&self) -> Self {
        Self { base: format!("{}/api/v3", self.base), ..self.clone() }
    }

    /// Host, and port where it is one of its own.
    pub(crate) fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(formatter, "{scheme}://{}{}", self.authority(), self.base)
    }
}

fn is_here(host: &str) -> bool {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    plain.eq_ignore_ascii_case("localhost") || plain.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_go_nowhere_in_the_clear() {
        for good in ["https://api.github.com", "https://ghe.example/", "http://127.0.0.1:80", "http://localhost:1", "http://[::1]:5"] {
            Address::parse(good).unwrap();
        }
        for bad in [
            "",
            "api.github.com",
            "http://ghe.example",
            "ftp://x",
            "https://user:pass@x",
            "https://x?y",
            "/x",
            "http://127.0.0.1.evil.example",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_enterprise_server_has_its_api_below_its_web() {
        let web = Address::parse("https://ghe.example:8443/").unwrap();
        assert_eq!(
            (web.authority().as_str(), web.api_of_server().to_string().as_str()),
            ("ghe.example:8443", "https://ghe.example:8443/api/v3")
        );
    }
}
