//! What an environment may reach: decided by name and port, before anything is resolved, and by address once it is.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::address::{Range, Reach, reach};
use crate::host::{Host, HostName, InvalidHost, parse_port};
use crate::reason::Reason;

/// The ports of a rule that names none.
pub const DEFAULT_PORTS: [u16; 2] = [443, 80];

/// A policy as it is written down and sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyText {
    pub access: Access,
    /// With [`Access::Allowlist`]: `api.github.com`, `*.example.org:443`, `93.184.216.34`, `[2606:4700::1111]:53`.
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
    /// Non-public hosts or ranges that the operator lets environments reach: `10.0.0.0/8`, `git.internal`.
    #[serde(default)]
    pub reachable: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// What is listed.
    #[default]
    Allowlist,
    /// Everything that is public.
    Enabled,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{rule}` is not a host that can be listed: {cause}")]
pub struct InvalidRule {
    pub rule: String,
    pub cause: InvalidHost,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Exact(Host),
    /// Any depth below the name, and not the name itself.
    Below(HostName),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pattern: Pattern,
    pub(crate) port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    access: Access,
    rules: Vec<Rule>,
    reachable_names: Vec<HostName>,
    reachable_ranges: Vec<Range>,
}

impl Policy {
    pub fn parse(text: &PolicyText) -> Result<Self, InvalidRule> {
        let rules = text.allowed_hosts.iter().map(|rule| Rule::parse(rule)).collect::<Result<_, _>>()?;
        let (mut reachable_names, mut reachable_ranges) = (Vec::new(), Vec::new());
        for rule in &text.reachable {
            match Range::parse(rule) {
                Some(range) => reachable_ranges.push(range),
                None => reachable_names.push(HostName::parse(rule).map_err(|cause| InvalidRule { rule: rule.clone(), cause })?),
            }
        }
        Ok(Self { access: text.access, rules, reachable_names, reachable_ranges })
    }

    pub fn access(&self) -> Access {
        self.access
    }

    /// Ports that need a listener, besides those of DNS and the proxy.
    pub fn ports(&self) -> BTreeSet<u16> {
        self.rules.iter().filter_map(|rule| rule.port).chain(DEFAULT_PORTS).collect()
    }

    /// By name and port, before anything is resolved.
    pub fn decide(&self, host: &Host, port: u16) -> Result<(), Reason> {
        if self.access == Access::Enabled {
            return Ok(());
        }
        let mut matching = self.rules.iter().filter(|rule| rule.pattern.matches(host)).peekable();
        if matching.peek().is_none() {
            return Err(match host {
                Host::Name(_) => Reason::NotListed,
                Host::Address(_) => Reason::AddressNotListed,
            });
        }
        if matching.any(|rule| rule.takes_port(port)) { Ok(()) } else { Err(Reason::PortNotListed) }
    }

    /// Whether a name may be looked up at all: some port of it is listed.
    pub fn knows(&self, name: &HostName) -> bool {
        self.access == Access::Enabled || self.rules.iter().any(|rule| rule.pattern.matches_name(name))
    }

    /// The address that `host` turned out to have.
    pub fn decide_address(&self, host: &Host, address: IpAddr) -> Result<(), Reason> {
        match reach(address) {
            Reach::Public => Ok(()),
            Reach::Metadata => Err(Reason::MetadataAddress),
            Reach::NonPublic => {
                let by_name = matches!(host, Host::Name(name) if self.reachable_names.contains(name));
                if by_name || self.reachable_ranges.iter().any(|range| range.contains(address)) {
                    return Ok(());
                }
                Err(Reason::NonPublicAddress)
            }
        }
    }
}

impl Rule {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidRule> {
        let invalid = |cause| InvalidRule { rule: text.chars().take(300).collect(), cause };
        if let Some(rest) = text.strip_prefix("*.") {
            let (name, port) = match rest.split_once(':') {
                Some((name, port)) => (name, Some(parse_port(port).map_err(invalid)?)),
                None => (rest, None),
            };
            let name = HostName::parse(name).map_err(invalid)?;
            return Ok(Self { pattern: Pattern::Below(name), port });
        }
        let (host, port) = Host::parse_authority(text).map_err(invalid)?;
        Ok(Self { pattern: Pattern::Exact(host), port })
    }

    pub(crate) fn matches(&self, host: &Host) -> bool {
        self.pattern.matches(host)
    }

    fn takes_port(&self, port: u16) -> bool {
        self.port.map_or_else(|| DEFAULT_PORTS.contains(&port), |listed| listed == port)
    }
}

impl Pattern {
    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exact(listed), host) => listed == host,
            (Self::Below(_), Host::Name(name)) => self.matches_name(name),
            (Self::Below(_), Host::Address(_)) => false,
        }
    }

    fn matches_name(&self, name: &HostName) -> bool {
        match self {
            Self::Exact(Host::Name(listed)) => listed == name,
            Self::Exact(Host::Address(_)) => false,
            Self::Below(suffix) => name.as_str().strip_suffix(suffix.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(hosts: &[&str]) -> Policy {
        Policy::parse(&PolicyText { allowed_hosts: hosts.iter().map(|&host| host.to_owned()).collect(), ..PolicyText::default() }).unwrap()
    }

    fn host(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    #[test]
    fn exact_names_and_default_ports() {
        let policy = policy(&["api.GitHub.com."]);
        assert_eq!(policy.decide(&host("API.github.com."), 443), Ok(()));
        assert_eq!(policy.decide(&host("api.github.com"), 80), Ok(()));
        assert_eq!(policy.decide(&host("api.github.com"), 22), Err(Reason::PortNotListed));
        for other in ["github.com", "evil-api.github.com", "x.api.github.com", "api.github.com.evil.tld", "api.github.co", "apixgithub.com"]
        {
            assert_eq!(policy.decide(&host(other), 443), Err(Reason::NotListed), "{other}");
            assert!(!matches!(host(other), Host::Name(name) if policy.knows(&name)));
        }
    }

    #[test]
    fn wildcards_are_below_at_any_depth_and_never_the_apex() {
        let policy = policy(&["*.example.org:443"]);
        assert_eq!(policy.decide(&host("a.example.org"), 443), Ok(()));
        assert_eq!(policy.decide(&host("a.b.c.example.org"), 443), Ok(()));
        assert_eq!(policy.decide(&host("a.example.org"), 80), Err(Reason::PortNotListed));
        for other in ["example.org", "badexample.org", "example.org.evil.tld", "a.example.com"] {
            assert_eq!(policy.decide(&host(other), 443), Err(Reason::NotListed), "{other}");
        }
    }

    #[test]
    fn ports_add_up() {
        let policy = policy(&["a.example:22", "a.example:5432", "*.b.example", "b.example:8443"]);
        assert_eq!(policy.ports(), BTreeSet::from([22, 80, 443, 5432, 8443]));
        assert_eq!(policy.decide(&host("a.example"), 22), Ok(()));
        assert_eq!(policy.decide(&host("a.example"), 443), Err(Reason::PortNotListed));
        assert_eq!(policy.decide(&host("x.b.example"), 8443), Err(Reason::PortNotListed));
    }

    #[test]
    fn addresses_are_listed_as_such() {
        let policy = policy(&["93.184.216.34", "[2606:4700::1111]:53"]);
        assert_eq!(policy.decide(&host("93.184.216.34"), 443), Ok(()));
        assert_eq!(policy.decide(&host("::ffff:93.184.216.34"), 443), Ok(()));
        assert_eq!(policy.decide(&host("93.184.216.35"), 443), Err(Reason::AddressNotListed));
        assert_eq!(policy.decide(&host("2606:4700::1111"), 53), Ok(()));
        assert_eq!(policy.decide(&host("2606:4700::1111"), 443), Err(Reason::PortNotListed));
    }

    #[test]
    fn what_cannot_be_listed_says_why() {
        for (rule, word) in [
            ("*", "`*`"),
            ("a.*.example", "`*`"),
            ("bücher.example", "xn--"),
            ("user@a.example", "user"),
            ("http://a", "port"),
            ("a.example/path", "`/`"),
            ("127.1", "number"),
            ("a.example:0", "port"),
            ("*.:443", "empty"),
            ("", "empty"),
        ] {
            let error =
                Policy::parse(&PolicyText { allowed_hosts: vec![rule.to_owned()], ..PolicyText::default() }).unwrap_err().to_string();
            assert!(error.contains(word), "{rule}: {error}");
        }
    }

    #[test]
    fn the_operator_opens_private_ranges_and_never_metadata() {
        let text = PolicyText {
            access: Access::Enabled,
            reachable: ["10.0.0.0/8", "git.internal", "0.0.0.0/0", "::/0"].map(str::to_owned).to_vec(),
            ..PolicyText::default()
        };
        let open = Policy::parse(&text).unwrap();
        assert_eq!(open.decide_address(&host("a.example"), "10.1.1.1".parse().unwrap()), Ok(()));
        assert_eq!(open.decide_address(&host("a.example"), "169.254.169.254".parse().unwrap()), Err(Reason::MetadataAddress));
        assert_eq!(open.decide_address(&host("a.example"), "64:ff9b::a9fe:a9fe".parse().unwrap()), Err(Reason::MetadataAddress));
        let narrow = Policy::parse(&PolicyText { reachable: vec!["git.internal".to_owned()], ..text }).unwrap();
        assert_eq!(narrow.decide_address(&host("git.internal"), "192.168.0.1".parse().unwrap()), Ok(()));
        assert_eq!(narrow.decide_address(&host("a.example"), "192.168.0.1".parse().unwrap()), Err(Reason::NonPublicAddress));
        assert_eq!(narrow.decide_address(&host("a.example"), "9.9.9.9".parse().unwrap()), Ok(()));
    }

    proptest! {
        #[test]
        fn a_wildcard_matches_exactly_what_ends_in_it(prefix in "[a-z0-9.-]{0,20}", suffix in "[a-z]{1,8}\\.[a-z]{1,4}") {
            let policy = policy(&[&format!("*.{suffix}")]);
            if let Ok(Host::Name(name)) = Host::parse(&format!("{prefix}{suffix}")) {
                prop_assert_eq!(policy.knows(&name), prefix.len() > 1 && prefix.ends_with('.'));
            }
        }

        #[test]
        fn rules_never_panic(rule in ".{0,60}") {
            let _ = Policy::parse(&PolicyText { allowed_hosts: vec![rule], ..PolicyText::default() });
        }
    }
}
