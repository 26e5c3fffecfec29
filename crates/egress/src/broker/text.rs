//! What the relay is told of the secrets of an environment, as it is sent. It is kept in memory by whoever sends it and by the relay, and
//! nowhere else.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use zeroize::{Zeroize, Zeroizing};

/// Everything that is brokered for one environment. What comes later replaces it whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerText {
    /// What the environment's certificate authority is made of.
    pub authority: Seed,
    #[serde(default)]
    pub secrets: Vec<BrokeredText>,
}

/// A secret that the place has a placeholder of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokeredText {
    pub name: String,
    pub placeholder: String,
    pub value: Value,
    /// `host`, `host:port` or `*.suffix[:port]`; 443 without a port.
    pub hosts: Vec<String>,
    /// `authorization` when neither this nor `query` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub body: bool,
}

/// How a header carries a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    Bearer,
    Basic,
    Raw,
}

/// 32 bytes from which an authority follows. Whoever has them can pretend to be any host, to the programs of one environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

/// A secret's bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Vec<u8>);

impl Seed {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Value {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Seed")
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Value")
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Serialize for Seed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = read(deserializer)?;
        <[u8; 32]>::try_from(&bytes[..]).map(Self).map_err(|_| de::Error::custom("a seed has 32 bytes"))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer).map(|mut bytes| Self(std::mem::take(&mut *bytes)))
    }
}

fn write<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&Zeroizing::new(STANDARD.encode(bytes)))
}

/// Errors of the decoder tell of a byte that is wrong, and so they are not passed on.
fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<Vec<u8>>, D::Error> {
    let text = Zeroizing::new(String::deserialize(deserializer)?);
    STANDARD.decode(text.as_bytes()).map(Zeroizing::new).map_err(|_| de::Error::custom("this is no base64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> BrokerText {
        let secret = BrokeredText {
            name: "TOKEN".to_owned(),
            placeholder: "stp_0123".to_owned(),
            value: Value::new(b"correct-horse\xff".to_vec()),
            hosts: vec!["api.example".to_owned()],
            header: None,
            scheme: Some(Scheme::Bearer),
            query: None,
            body: false,
        };
        BrokerText { authority: Seed::new([7; 32]), secrets: vec![secret] }
    }

    #[test]
    fn it_arrives_as_it_was_sent() {
        let sent = serde_json::to_string(&text()).unwrap();
        assert!(sent.contains(r#""value":"Y29ycmVjdC1ob3JzZf8=""#) && sent.contains(r#""scheme":"bearer""#), "{sent}");
        assert_eq!(serde_json::from_str::<BrokerText>(&sent).unwrap(), text());
    }

    #[test]
    fn no_value_is_shown_and_none_is_in_an_error() {
        let shown = format!("{:?}", text());
        assert!(shown.contains("TOKEN") && !shown.contains("horse") && !shown.contains("99, 111") && !shown.contains("7, 7"), "{shown}");
        let error = serde_json::from_str::<Value>(r#""correct-horse!""#).unwrap_err().to_string();
        assert!(!error.contains("horse") && !error.contains("45"), "{error}");
        assert!(serde_json::from_str::<Seed>(r#""AAAA""#).is_err());
    }
}
