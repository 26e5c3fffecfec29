//! What is brokered for an environment, ready to be used.

use std::fmt;

use http::HeaderName;
use http::header::AUTHORIZATION;
use stead_redaction::Known;

use super::text::{BrokerText, BrokeredText, Scheme, Value};
use crate::authority::Authority;
use crate::host::Host;
use crate::policy::Rule;

/// The port of a host that is bound without one. Only there it is certain that nobody listens on the way.
const PORT: u16 = 443;
/// Values that were replaced are still taken out of replies, but not any number of them.
const MOST_PAST: usize = 64;

/// Says nothing of any value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret `{name}` cannot be brokered: {cause}")]
pub struct InvalidBroker {
    pub name: String,
    pub cause: String,
}

pub struct Broker {
    pub(super) authority: Authority,
    secrets: Vec<Secret>,
    /// Every value, and what stands for it inside.
    pub(super) known: Known,
    /// The same for names of fields, which are always in lower case.
    pub(super) known_names: Known,
    all: Vec<(String, Value)>,
}

impl fmt::Debug for Broker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Broker").field("secrets", &self.secrets).finish_non_exhaustive()
    }
}

/// A secret and where it may go.
#[derive(Debug)]
pub(super) struct Secret {
    pub name: String,
    pub placeholder: String,
    pub value: Value,
    pub place: Place,
    pub body: bool,
    rules: Vec<Rule>,
}

/// The one part of a request's head where the placeholder gives way.
#[derive(Debug)]
pub(super) enum Place {
    Header { name: HeaderName, scheme: Option<Scheme> },
    Query(String),
}

impl Broker {
    /// `before` is what this replaces: its values may still come back.
    pub fn parse(environment: &str, text: &BrokerText, before: Option<&Self>) -> Result<Self, InvalidBroker> {
        let authority = Authority::new(&text.authority, environment)
            .map_err(|error| InvalidBroker { name: "certificate authority".to_owned(), cause: error.to_string() })?;
        let secrets = text.secrets.iter().map(Secret::parse).collect::<Result<Vec<_>, _>>()?;
        let mut all: Vec<(String, Value)> = secrets.iter().map(|secret| (secret.placeholder.clone(), secret.value.clone())).collect();
        for past in before.iter().flat_map(|before| &before.all) {
            if all.len() < secrets.len() + MOST_PAST && !all.contains(past) {
                all.push(past.clone());
            }
        }
        let lowered: Vec<(String, Value)> =
            all.iter().map(|(name, value)| (name.clone(), Value::new(value.bytes().to_ascii_lowercase()))).collect();
        Ok(Self { authority, secrets, known: known(&all), known_names: known(&lowered), all })
    }

    /// Whether requests to this host go through here; and if so, whether also such as are not sealed.
    pub fn covers(&self, host: &Host, port: u16) -> Option<Covered> {
        let mut rules = self.secrets.iter().flat_map(|secret| &secret.rules).filter(|rule| takes(rule, host, port)).peekable();
        rules.peek()?;
        Some(Covered { plain: rules.any(|rule| rule.port.is_some()) })
    }

    /// Those that may go to this host.
    pub(super) fn secrets(&self, host: &Host, port: u16, plain: bool) -> impl Iterator<Item = &Secret> {
        let host = host.clone();
        self.secrets
            .iter()
            .filter(move |secret| secret.rules.iter().any(|rule| takes(rule, &host, port) && (!plain || rule.port.is_some())))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// Only where the operator has written the port.
    pub plain: bool,
}

fn takes(rule: &Rule, host: &Host, port: u16) -> bool {
    rule.matches(host) && rule.port.unwrap_or(PORT) == port
}

fn known(all: &[(String, Value)]) -> Known {
    Known::new(all.iter().map(|(placeholder, value)| stead_redaction::Value { replacement: placeholder, bytes: value.bytes() }))
}

impl Secret {
    fn parse(text: &BrokeredText) -> Result<Self, InvalidBroker> {
        let invalid = |cause: &str| InvalidBroker { name: text.name.clone(), cause: cause.to_owned() };
        // It must be the same however it is encoded, and long enough to stand for nothing else.
        let plain = text.placeholder.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
        if !plain || !(8..=128).contains(&text.placeholder.len()) {
            return Err(invalid("its placeholder must have 8 to 128 letters, digits, `_`, `-` or `.`"));
        }
        if text.hosts.is_empty() {
            return Err(invalid("it is bound to no host"));
        }
        let rules = text.hosts.iter().map(|rule| Rule::parse(rule)).collect::<Result<_, _>>();
        let rules = rules.map_err(|error| InvalidBroker { name: text.name.clone(), cause: error.to_string() })?;
        let place = match (&text.query, &text.header) {
            (Some(_), Some(_)) => return Err(invalid("it is bound to a header and to the query")),
            (Some(query), None) => Place::Query(query.clone()),
            (None, None) => Place::Header { name: AUTHORIZATION, scheme: text.scheme },
            (None, Some(header)) => {
                let name = header.parse().map_err(|_| invalid("its header is none"))?;
                Place::Header { name, scheme: text.scheme }
            }
        };
        let (name, placeholder, value) = (text.name.clone(), text.placeholder.clone(), text.value.clone());
        Ok(Self { name, placeholder, value, place, body: text.body, rules })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::text::Seed;
    use super::*;

    pub fn text(name: &str, value: &str, hosts: &[&str]) -> BrokeredText {
        BrokeredText {
            name: name.to_owned(),
            placeholder: format!("stp_{}", name.to_lowercase().repeat(4)),
            value: Value::new(value.as_bytes().to_vec()),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            header: None,
            scheme: None,
            query: None,
            body: false,
        }
    }

    pub fn broker(secrets: Vec<BrokeredText>) -> Result<Broker, InvalidBroker> {
        Broker::parse("env_1", &BrokerText { authority: Seed::new([1; 32]), secrets }, None)
    }

    fn host(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    #[test]
    fn only_bound_hosts_and_ports_are_covered() {
        let broker = broker(vec![
            text("ONE", "correct-horse", &["api.example", "*.wide.example:8443"]),
            text("TWO", "battery-staple", &["api.example:80", "10.0.0.5:9000"]),
        ])
        .unwrap();
        assert_eq!(broker.covers(&host("api.example"), 443), Some(Covered { plain: false }));
        assert_eq!(broker.covers(&host("api.example"), 80), Some(Covered { plain: true }));
        assert_eq!(broker.covers(&host("a.b.wide.example"), 8443), Some(Covered { plain: true }));
        assert_eq!(broker.covers(&host("10.0.0.5"), 9000), Some(Covered { plain: true }));
        for (other, port) in
            [("api.example", 8443), ("x.api.example", 443), ("wide.example", 8443), ("a.wide.example", 443), ("10.0.0.5", 443)]
        {
            assert_eq!(broker.covers(&host(other), port), None, "{other}:{port}");
        }
        let named = |port, plain| broker.secrets(&host("api.example"), port, plain).map(|secret| secret.name.clone()).collect::<Vec<_>>();
        assert_eq!(named(443, false), ["ONE"]);
        assert_eq!(named(80, true), ["TWO"]);
        assert!(named(443, true).is_empty(), "without its port written, only sealed");
    }

    #[test]
    fn what_cannot_be_brokered_says_why_and_shows_nothing() {
        let one = || text("ONE", "correct-horse", &["api.example"]);
        for (bad, word) in [
            (BrokeredText { hosts: vec![], ..one() }, "no host"),
            (BrokeredText { hosts: vec!["a b".to_owned()], ..one() }, "not a host"),
            (BrokeredText { placeholder: "short".to_owned(), ..one() }, "placeholder"),
            (BrokeredText { placeholder: "with a space".to_owned(), ..one() }, "placeholder"),
            (BrokeredText { header: Some("a\r\nb".to_owned()), ..one() }, "header"),
            (BrokeredText { header: Some("a".to_owned()), query: Some("b".to_owned()), ..one() }, "query"),
        ] {
            let error = broker(vec![bad]).unwrap_err().to_string();
            assert!(error.contains("ONE") && error.contains(word) && !error.contains("horse"), "{error}");
        }
        assert!(!format!("{:?}", broker(vec![one()]).unwrap()).contains("horse"));
    }

    #[test]
    fn values_of_before_are_still_known() {
        let first = broker(vec![text("ONE", "correct-horse", &["api.example"])]).unwrap();
        let next = BrokerText { authority: Seed::new([1; 32]), secrets: vec![text("ONE", "battery-staple", &["api.example"])] };
        let next = Broker::parse("env_1", &next, Some(&first)).unwrap();
        for value in ["correct-horse", "battery-staple"] {
            assert_eq!(&*next.known.redact(value.as_bytes()), b"stp_oneoneoneone");
        }
    }
}
