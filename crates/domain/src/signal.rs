//! Signals, by name or by number, as Linux has them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};

use crate::error::Error;

const NAMES: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];
/// The last of the real-time signals.
const LAST: i32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(i32);

impl Signal {
    pub const HUP: Self = Self(1);
    pub const INT: Self = Self(2);
    pub const QUIT: Self = Self(3);
    pub const KILL: Self = Self(9);
    pub const PIPE: Self = Self(13);
    pub const TERM: Self = Self(15);
    pub const CONT: Self = Self(18);

    pub fn from_number(number: i64) -> Option<Self> {
        i32::try_from(number).ok().filter(|number| (1..=LAST).contains(number)).map(Self)
    }

    pub fn number(self) -> i32 {
        self.0
    }
}

fn unknown(shown: impl fmt::Display) -> Error {
    Error::field("signal", format!("`{shown}` is neither the name of a signal, such as TERM, nor a number from 1 to {LAST}"))
}

impl FromStr for Signal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Ok(number) = text.parse::<i64>() {
            return Self::from_number(number).ok_or_else(|| unknown(number));
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, number)| Self(*number)).ok_or_else(|| unknown(text.chars().take(32).collect::<String>()))
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => formatter.write_str(name),
            None => write!(formatter, "{}", self.0),
        }
    }
}

impl Serialize for Signal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl serde::de::Visitor<'_> for Either {
            type Value = Signal;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "the name of a signal, or a number from 1 to {LAST}")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Signal, E> {
                text.parse().map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Signal, E> {
                let known = i64::try_from(number).ok().and_then(Signal::from_number);
                known.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl utoipa::PartialSchema for Signal {
    fn schema() -> RefOr<Schema> {
        let name = ObjectBuilder::new().schema_type(Type::String).description(Some("A name, such as TERM"));
        let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(LAST));
        RefOr::T(OneOfBuilder::new().item(name).item(number).build().into())
    }
}

impl utoipa::ToSchema for Signal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_name_the_same() {
        for text in ["TERM", "SIGTERM", "sigterm", "15"] {
            assert_eq!(text.parse::<Signal>().unwrap(), Signal::TERM, "{text}");
        }
        assert_eq!(serde_json::from_str::<Signal>("9").unwrap(), Signal::KILL);
        assert_eq!(serde_json::from_str::<Signal>("\"KILL\"").unwrap(), Signal::KILL);
        assert_eq!(serde_json::to_string(&Signal::KILL).unwrap(), "\"KILL\"");
        assert_eq!(Signal::from_number(40).unwrap().to_string(), "40");
        for text in ["0", "-1", "65", "\"\"", "\"0\"", "\"TERMINATE\"", "1.5", "null", "[]"] {
            assert!(serde_json::from_str::<Signal>(text).is_err(), "{text}");
        }
        for (name, number) in NAMES {
            assert_eq!(name.parse::<Signal>().unwrap().number(), *number);
        }
    }
}
