//! Ids: a prefix that says what it names, and a version 7 UUID in hexadecimal.
//!
//! They sort by creation time, so a list in id order is a list in time order and pages need no second column.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::context::Context;
use crate::time::Timestamp;

#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not an id of the form {prefix}_ and 32 hexadecimal digits")]
pub struct InvalidId {
    text: String,
    prefix: &'static str,
}

/// A version 7 UUID from the injected clock and randomness. The twelve bits after the version hold the fraction of the
/// millisecond, so that ids made one after the other sort that way.
fn make(context: &Context) -> Uuid {
    let microseconds = u64::try_from(context.now().microseconds()).unwrap_or(0);
    let random: [u8; 8] = context.random();
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&(microseconds / 1000).to_be_bytes()[2..]);
    let fraction = (microseconds % 1000) * 4096 / 1000;
    bytes[6] = 0x70 | ((fraction >> 8) as u8 & 0x0f);
    bytes[7] = fraction as u8;
    bytes[8..].copy_from_slice(&random);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    Uuid::from_bytes(bytes)
}

fn parse(text: &str, prefix: &'static str) -> Result<Uuid, InvalidId> {
    let invalid = || InvalidId { text: text.chars().take(64).collect(), prefix };
    let digits = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).ok_or_else(invalid)?;
    // Only the form that we write ourselves: one id has one spelling.
    if digits.len() != 32 || !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(invalid());
    }
    Uuid::try_parse(digits).map_err(|_| invalid())
}

macro_rules! id {
    ($(#[$documentation:meta])* $name:ident, $prefix:literal) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            pub fn new(context: &Context) -> Self {
                Self(make(context))
            }

            /// When it was made, to the millisecond.
            pub fn made_at(&self) -> Timestamp {
                let mut bytes = [0; 8];
                bytes[2..].copy_from_slice(&self.0.as_bytes()[..6]);
                Timestamp::from_microseconds(i64::from_be_bytes(bytes).saturating_mul(1000))
            }

            /// Without the prefix.
            pub fn digits(&self) -> String {
                self.0.simple().to_string()
            }

            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// An id that was taken apart into its bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// The last twelve digits: enough to tell things apart in a name that people read.
            pub fn short(&self) -> String {
                let digits = self.0.simple().to_string();
                digits[20..].to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($prefix, "_{}"), self.0.simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, formatter)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse(text, $prefix).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .pattern(Some(concat!("^", $prefix, "_[0-9a-f]{32}$")))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}

id!(/// A project.
    ProjectId, "prj");
id!(/// A principal: whoever calls.
    PrincipalId, "prn");
id!(/// An API key's record; never the key itself.
    ApiKeyId, "key");
id!(/// An environment.
    EnvironmentId, "env");
id!(/// A sandbox behind environments.
    SandboxId, "sbx");
id!(/// A machine that runs a server and keeps local sandboxes.
    HostId, "hst");
id!(/// A process in an environment.
    ProcessId, "prc");
id!(/// A point in the files of a sandbox.
    CheckpointId, "ckp");
id!(/// A directory of files, one of those that a sandbox sees on top of each other.
    LayerId, "lyr");
id!(/// A lease on a sandbox.
    LeaseId, "lse");
id!(/// A place in the queue for one.
    TicketId, "tkt");
id!(/// A secret's record; never its value.
    SecretId, "sec");
id!(/// An audit record.
    AuditId, "aud");
id!(/// One request, as logs and errors name it.
    RequestId, "req");

impl LayerId {
    /// The first one that a sandbox writes to: it is made with the sandbox and needs no name of its own.
    pub fn first_of(sandbox: SandboxId) -> Self {
        Self(sandbox.0)
    }

    /// The sandbox that writes to it first.
    pub fn home(self) -> SandboxId {
        SandboxId(self.0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use proptest::prelude::*;

    use super::*;
    use crate::context::{Clock, Randomness};
    use crate::time::Timestamp;

    struct Ticking(AtomicI64);
    impl Clock for Ticking {
        fn now(&self) -> Timestamp {
            Timestamp::from_microseconds(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }
    struct Constant;
    impl Randomness for Constant {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0xa5);
        }
    }

    pub(crate) fn context() -> Context {
        Context::new(Arc::new(Ticking(AtomicI64::new(1_777_888_000_000_000))), Arc::new(Constant))
    }

    #[test]
    fn ids_sort_by_the_microsecond_they_were_made() {
        let context = context();
        let ids: Vec<String> = (0..5000).map(|_| EnvironmentId::new(&context).to_string()).collect();
        assert!(ids.is_sorted());
        assert!(ids[0].starts_with("env_") && ids[0].len() == 36);
    }

    #[test]
    fn one_id_has_one_spelling() {
        let id = EnvironmentId::new(&context());
        assert_eq!(id.made_at().to_string(), "2026-05-04T09:46:40.000000Z");
        assert_eq!(id.to_string().parse::<EnvironmentId>().unwrap(), id);
        assert!(id.to_string().to_uppercase().parse::<EnvironmentId>().is_err());
        assert!(id.to_string().parse::<SandboxId>().is_err());
        assert!("env_../../../../etc/passwd0000000000".parse::<EnvironmentId>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<EnvironmentId>();
            let _ = format!("env_{text}").parse::<EnvironmentId>();
        }
    }
}
