//! Ports of an environment: what listens inside, and where it is reached from outside.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::definition::Spec;
use crate::duration::Duration;
use crate::error::{Code, Error, Result};
use crate::ids::ProcessId;
use crate::time::Timestamp;

/// How long a signed URL is good when nobody says.
pub const USUAL_LIFE: Duration = Duration::from_secs(3600);
/// And how long at most.
pub const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3600);
const SHORTEST_LIFE: Duration = Duration::from_secs(1);

/// What is to be done inside about ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum PortOrder {
    ListPorts,
    Connect { port: u16 },
}

/// What is said of them from inside, where anything may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum PortWord {
    Ports {
        ports: Vec<ListeningPort>,
    },
    /// With the connection itself.
    Connected,
    Failed {
        why: PortProblem,
        said: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortProblem {
    /// Nothing listens there.
    Closed,
    /// Something listens, but neither at 127.0.0.1 or ::1 nor at all addresses; `said` is where.
    Elsewhere,
    /// Something listens and takes no connection.
    Silent,
    Other,
}

/// A socket that listens inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListeningPort {
    pub port: u16,
    pub address: IpAddr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<PortProcess>,
}

/// Who listens, as far as it can be told. All of it is what code inside says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortProcess {
    /// Inside.
    pub pid: u32,
    pub name: String,
    /// The process of this API that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<ProcessId>,
}

/// The ports of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentPorts {
    /// In the order of their numbers.
    pub items: Vec<EnvironmentPort>,
    /// Nothing listens in an environment that is asleep.
    pub awake: bool,
}

/// A port that something listens on, or that the definition declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentPort {
    pub port: u16,
    pub listening: bool,
    /// Where it listens inside. What listens neither on the loopback nor on all addresses is not reached from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<PortProcess>,
    /// It stands in the definition.
    pub declared: bool,
    /// The one that `runtime.urls.primary` names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub primary: bool,
    /// Where it is reached, with the caller's authorization or a signed URL; absent when the server serves no ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What a signed URL is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSignedUrl {
    /// From now on; `1h` when it is left out, at most `24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<Duration>,
}

impl NewSignedUrl {
    pub fn life(&self) -> Result<Duration> {
        let life = self.expires_in.unwrap_or(USUAL_LIFE);
        if (SHORTEST_LIFE..=LONGEST_LIFE).contains(&life) {
            return Ok(life);
        }
        Err(Error::field("expires_in", format!("must be {SHORTEST_LIFE} to {LONGEST_LIFE}")))
    }
}

/// A URL that whoever has it may use until it expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignedUrl {
    pub url: String,
    pub expires_at: Timestamp,
}

/// The number of a port in a path.
pub fn parse_port(text: &str) -> Result<u16> {
    // Only the form that we write ourselves: one port has one address.
    match text.parse::<u16>() {
        Ok(port) if port > 0 && port.to_string() == text => Ok(port),
        _ => Err(Error::new(Code::NotFound, format!("`{}` is not a port", text.chars().take(32).collect::<String>()))
            .suggestion("name a port by its number, 1 to 65535")),
    }
}

/// The declared port that stands for the environment: the primary one, or the first.
pub fn primary(spec: &Spec) -> Option<u16> {
    let ports = spec.ports.as_deref().unwrap_or_default();
    ports.iter().find(|port| port.primary).or(ports.first()).map(|port| port.port)
}

/// What listens together with what is declared, each port once.
pub fn combine(spec: &Spec, awake: bool, listening: Vec<ListeningPort>, url: impl Fn(u16) -> Option<String>) -> EnvironmentPorts {
    let primary = primary(spec);
    let declared: Vec<u16> = spec.ports.iter().flatten().map(|port| port.port).collect();
    let entry = |port, found: Option<ListeningPort>| EnvironmentPort {
        port,
        listening: found.is_some(),
        declared: declared.contains(&port),
        primary: primary == Some(port),
        url: url(port),
        address: found.as_ref().map(|found| found.address),
        process: found.and_then(|found| found.process),
    };
    let mut items: Vec<EnvironmentPort> = Vec::new();
    let mut sorted = listening;
    sorted.sort_by_key(|found| (found.port, rank(found.address)));
    for found in sorted {
        if items.last().is_none_or(|last| last.port != found.port) {
            items.push(entry(found.port, Some(found)));
        }
    }
    for port in &declared {
        if !items.iter().any(|item| item.port == *port) {
            items.push(entry(*port, None));
        }
    }
    items.sort_by_key(|item| item.port);
    EnvironmentPorts { items, awake }
}

/// Of several addresses, the one that says most about who can reach it.
fn rank(address: IpAddr) -> u8 {
    match address.to_canonical() {
        address if address.is_unspecified() => 0,
        address if address.is_loopback() => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listening(port: u16, address: &str) -> ListeningPort {
        ListeningPort { port, address: address.parse().unwrap(), process: None }
    }

    #[test]
    fn what_listens_and_what_is_declared_is_told_once() {
        let spec: Spec = serde_json::from_value(json!({"ports": [{"port": 3000}, {"port": 8080, "primary": true}]})).unwrap();
        let found = vec![listening(9000, "127.0.0.1"), listening(8080, "127.0.0.1"), listening(8080, "::")];
        let ports = combine(&spec, true, found, |port| Some(format!("http://{port}")));
        let told: Vec<_> = ports.items.iter().map(|item| (item.port, item.listening, item.declared, item.primary)).collect();
        assert_eq!(told, [(3000, false, true, false), (8080, true, true, true), (9000, true, false, false)]);
        assert_eq!(ports.items[1].address, Some("::".parse().unwrap()));
    }

    #[test]
    fn one_port_has_one_spelling() {
        assert_eq!(parse_port("8080").unwrap(), 8080);
        for wrong in ["", "0", "08080", "+80", "65536", "-1", "http"] {
            assert_eq!(parse_port(wrong).unwrap_err().code(), Code::NotFound, "{wrong}");
        }
    }

    #[test]
    fn a_url_lives_a_day_at_most() {
        let life = |text: &str| NewSignedUrl { expires_in: Some(text.parse().unwrap()) }.life();
        assert_eq!(NewSignedUrl::default().life().unwrap(), USUAL_LIFE);
        assert!(life("24h").is_ok() && life("1s").is_ok());
        assert!(life("25h").is_err() && life("0").is_err());
    }
}
