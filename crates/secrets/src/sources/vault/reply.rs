//! What a vault answers, read without keeping more of it than is asked for.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use stead_app::SourceFailure;
use zeroize::Zeroizing;

use super::failure;

#[derive(Deserialize)]
struct Read {
    data: Option<Version>,
}

#[derive(Deserialize)]
struct Version {
    data: Option<BTreeMap<String, Field>>,
}

/// A field's value; what is no text is not looked at.
enum Field {
    Text(Zeroizing<String>),
    Other,
}

/// Why a reply holds no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    NotRead,
    NoField,
    NotText,
}

impl Problem {
    pub(super) fn failure(&self, path: &str, field: &str) -> SourceFailure {
        match self {
            Self::NotRead => failure(format!("what it answered for `{path}` is no secret of KV version 2"), "mend `mount` of the rule"),
            Self::NoField => failure(format!("`{path}` has no field `{field}`"), "add it there, or mend `field` of the rule"),
            Self::NotText => failure(format!("the field `{field}` of `{path}` is no text"), "write it as a string"),
        }
    }
}

/// The value of a field; none when the secret was deleted.
pub(super) fn field(body: &[u8], name: &str) -> Result<Option<Zeroizing<String>>, Problem> {
    let read: Read = serde_json::from_slice(body).map_err(|_| Problem::NotRead)?;
    let Some(mut fields) = read.data.ok_or(Problem::NotRead)?.data else { return Ok(None) };
    match fields.remove(name) {
        Some(Field::Text(text)) => Ok(Some(text)),
        Some(Field::Other) => Err(Problem::NotText),
        None => Err(Problem::NoField),
    }
}

#[derive(Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<String>,
}

/// Whether a vault that has not found something has nothing else to say: then there is no such secret, or it was deleted.
pub(super) fn says_nothing(body: &[u8]) -> bool {
    serde_json::from_slice::<Errors>(body).is_ok_and(|told| told.errors.is_empty())
}

pub(super) fn is_sealed(body: &[u8]) -> bool {
    serde_json::from_slice::<Errors>(body).is_ok_and(|told| told.errors.iter().any(|error| error.contains("sealed")))
}

/// What a login or a renewal gives.
#[derive(Deserialize)]
pub(super) struct Login {
    pub auth: Option<Auth>,
}

#[derive(Deserialize)]
pub(super) struct Auth {
    pub client_token: Zeroizing<String>,
    #[serde(default)]
    pub lease_duration: u64,
    #[serde(default)]
    pub renewable: bool,
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyField)
    }
}

struct AnyField;

impl<'de> Visitor<'de> for AnyField {
    type Value = Field;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a field")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Field, E> {
        Ok(Field::Text(Zeroizing::new(text.to_owned())))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Field, E> {
        Ok(Field::Other)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Field, E> {
        Ok(Field::Other)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Field, E> {
        Ok(Field::Other)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Field, E> {
        Ok(Field::Other)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Field, E> {
        Ok(Field::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Field, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Field, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_field_is_taken_out_of_a_reply() {
        let body = br#"{"data":{"data":{"value":"s3cret\n","n":1,"deep":{"a":[null,2.5,true]}},"metadata":{"version":2}}}"#;
        assert_eq!(field(body, "value").unwrap().unwrap().as_str(), "s3cret\n");
        assert_eq!((field(body, "n"), field(body, "deep")), (Err(Problem::NotText), Err(Problem::NotText)));
        assert_eq!(field(body, "other"), Err(Problem::NoField));
        assert_eq!(field(br#"{"data":{"data":null,"metadata":{"deletion_time":"2026"}}}"#, "value"), Ok(None));
        for odd in ["", "<html>", "[]", r#"{"data":null}"#, r#"{"data":{"data":7}}"#, r#"{"errors":["x"]}"#] {
            assert_eq!(field(odd.as_bytes(), "value"), Err(Problem::NotRead), "{odd}");
        }
    }

    #[test]
    fn what_was_not_found_and_what_is_not_mounted_differ() {
        assert!(says_nothing(br#"{"errors":[]}"#) && says_nothing(br#"{"data":{"data":null}}"#));
        assert!(!says_nothing(br#"{"errors":["no handler for route"]}"#) && !says_nothing(b"<html>"));
        assert!(is_sealed(br#"{"errors":["Vault is sealed"]}"#) && !is_sealed(b"") && !is_sealed(br#"{"errors":["full"]}"#));
    }
}
