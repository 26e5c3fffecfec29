//! What a program asks for: a name or an address, in one spelling.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::address::normalised;

/// A DNS name in lower case, without the final dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct HostName(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHost {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than 253 characters, or a part of it than 63")]
    TooLong,
    #[error("it is not ASCII; write an internationalised name in its `xn--` form")]
    NotAscii,
    #[error("`{0}` cannot be part of a name")]
    Character(char),
    #[error("a part of it is empty, or begins or ends with `-`")]
    Label,
    #[error("it looks like a number; write an address as four decimal numbers or as IPv6")]
    Number,
    #[error("an address with a scope (`%`) belongs to one interface and is never reached")]
    Scope,
    #[error("a user name (`@`) has no place in it")]
    User,
    #[error("`{0}` is not a port between 1 and 65535")]
    Port(String),
    #[error("a port is missing")]
    NoPort,
}

impl HostName {
    /// The strict form only: no address in any spelling, no wildcard.
    pub fn parse(text: &str) -> Result<Self, InvalidHost> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(InvalidHost::Empty);
        }
        if !text.is_ascii() {
            return Err(InvalidHost::NotAscii);
        }
        if text.len() > 253 {
            return Err(InvalidHost::TooLong);
        }
        for label in text.split('.') {
            if label.len() > 63 {
                return Err(InvalidHost::TooLong);
            }
            if let Some(odd) = label.chars().find(|character| !character.is_ascii_alphanumeric() && !matches!(character, '-' | '_')) {
                return Err(if odd == '@' { InvalidHost::User } else { InvalidHost::Character(odd) });
            }
            if label.is_empty() || label.starts_with('-') || label.ends_with('-') {
                return Err(InvalidHost::Label);
            }
        }
        // `2130706433`, `0x7f.1` and `127.1` are addresses for some resolvers. No top-level domain looks like that.
        let last = text.rsplit('.').next().unwrap_or(text);
        let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
        if last.bytes().all(|byte| byte.is_ascii_digit())
            || hexadecimal.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
        {
            return Err(InvalidHost::Number);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// A name or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    Name(HostName),
    /// Never an IPv4 address dressed as IPv6.
    Address(IpAddr),
}

impl Host {
    /// `name`, `1.2.3.4`, `[2001:db8::1]` or `2001:db8::1`.
    pub fn parse(text: &str) -> Result<Self, InvalidHost> {
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if bracketed.unwrap_or(text).contains('%') {
            return Err(InvalidHost::Scope);
        }
        if let Some(inside) = bracketed {
            let address = inside.parse::<Ipv6Addr>().map_err(|_| InvalidHost::Character('['))?;
            return Ok(Self::Address(normalised(address.into())));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self::Address(normalised(address.into())));
        }
        HostName::parse(text).map(Self::Name)
    }

    /// `host` or `host:port`, as in a `Host` field or a request target. IPv6 needs its brackets here.
    pub fn parse_authority(text: &str) -> Result<(Self, Option<u16>), InvalidHost> {
        if text.contains('@') {
            return Err(InvalidHost::User);
        }
        let (host, port) = if text.starts_with('[') {
            let end = text.find(']').ok_or(InvalidHost::Character('['))?;
            let (host, rest) = text.split_at(end + 1);
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err(InvalidHost::Port(rest.to_owned())),
            }
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        Ok((Self::parse(host)?, port.map(parse_port).transpose()?))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(formatter),
            Self::Address(address) => address.fmt(formatter),
        }
    }
}

/// Digits only, as `u16::from_str` also takes `+80` and `0080`.
pub fn parse_port(text: &str) -> Result<u16, InvalidHost> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain).ok_or_else(|| InvalidHost::Port(text.chars().take(16).collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_one_spelling() {
        assert_eq!(HostName::parse("API.GitHub.com.").unwrap().as_str(), "api.github.com");
        assert_eq!(HostName::parse("xn--bcher-kva.example").unwrap().as_str(), "xn--bcher-kva.example");
        assert_eq!(HostName::parse("localhost").unwrap().as_str(), "localhost");
        assert_eq!(HostName::parse("bücher.example"), Err(InvalidHost::NotAscii));
        assert_eq!(HostName::parse("user@a.example"), Err(InvalidHost::User));
        assert_eq!(HostName::parse("a..example"), Err(InvalidHost::Label));
        assert_eq!(HostName::parse("a.example.."), Err(InvalidHost::Label));
        assert_eq!(HostName::parse("."), Err(InvalidHost::Empty));
        assert_eq!(HostName::parse("a.example\0.b"), Err(InvalidHost::Character('\0')));
        assert_eq!(HostName::parse("a.example\r\nHost"), Err(InvalidHost::Character('\r')));
        assert_eq!(HostName::parse("*.example"), Err(InvalidHost::Character('*')));
        assert_eq!(HostName::parse(&"a".repeat(64)), Err(InvalidHost::TooLong));
    }

    #[test]
    fn odd_spellings_of_addresses_are_no_names() {
        for text in ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.0.0.1", "127.0.0.0x1", "1.2.3.4.5", "0X7F.1", "0x"] {
            assert_eq!(Host::parse(text), Err(InvalidHost::Number), "{text}");
        }
        assert_eq!(Host::parse("fe80::1%eth0"), Err(InvalidHost::Scope));
        assert_eq!(Host::parse("[fe80::1%25eth0]"), Err(InvalidHost::Scope));
        assert_eq!(Host::parse("[::ffff:169.254.169.254]").unwrap(), Host::Address("169.254.169.254".parse().unwrap()));
        assert_eq!(Host::parse("127.0.0.1").unwrap(), Host::Address("127.0.0.1".parse().unwrap()));
        assert_eq!(Host::parse("127.0.0.1."), Err(InvalidHost::Number));
    }

    #[test]
    fn authorities() {
        assert_eq!(Host::parse_authority("A.example:8443").unwrap(), (Host::parse("a.example").unwrap(), Some(8443)));
        assert_eq!(Host::parse_authority("[2606:4700::1111]:53").unwrap(), (Host::parse("2606:4700::1111").unwrap(), Some(53)));
        assert_eq!(Host::parse_authority("a.example").unwrap().1, None);
        for text in
            ["a.example:", "a.example:0", "a.example:65536", "a.example:+80", "a.example:080", "a.example:80:80", "[::1]80", "[::1", ""]
        {
            assert!(Host::parse_authority(text).is_err(), "{text}");
        }
        assert_eq!(Host::parse_authority("good.example:80@evil.example"), Err(InvalidHost::User));
    }

    proptest! {
        #[test]
        fn nothing_panics_and_names_are_stable(text in ".{0,80}") {
            if let Ok(name) = HostName::parse(&text) {
                prop_assert!(name.as_str().parse::<IpAddr>().is_err());
                prop_assert_eq!(HostName::parse(name.as_str()).unwrap(), name);
            }
            let _ = Host::parse_authority(&text);
        }
    }
}
