//! Values that go into statements and come out of rows. Absence has a type too, because PostgreSQL asks for it.

use stead_domain::Timestamp;

use crate::error::{Result, StoreError};

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(Option<String>),
    Integer(Option<i64>),
    Blob(Option<Vec<u8>>),
}

macro_rules! from_text {
    ($($type:ty),*) => { $(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::Text(Some(value.to_string()))
            }
        }
        impl From<Option<$type>> for Value {
            fn from(value: Option<$type>) -> Self {
                Self::Text(value.map(|value| value.to_string()))
            }
        }
    )* };
}

from_text!(
    &str,
    String,
    &String,
    stead_domain::ids::ProjectId,
    stead_domain::ids::PrincipalId,
    stead_domain::ids::ApiKeyId,
    stead_domain::ids::EnvironmentId,
    stead_domain::ids::SandboxId,
    stead_domain::ids::HostId,
    stead_domain::ids::AuditId,
    stead_domain::ids::CheckpointId,
    stead_domain::ids::LayerId,
    stead_domain::checkpoint::CheckpointState,
    stead_domain::checkpoint::CheckpointReason,
    stead_domain::ids::ProcessId,
    stead_domain::ids::LeaseId,
    stead_domain::ids::TicketId,
    stead_domain::ids::SecretId,
    stead_domain::lease::LeaseBind,
    stead_domain::lease::LeaseMode,
    stead_domain::lease::LeaseEnd,
    stead_domain::lease::LeaseStage,
    stead_domain::lease::TicketStatus,
    stead_domain::process::ProcessPurpose,
    stead_domain::process::ProcessStatus,
    stead_domain::process::StdinMode,
    stead_domain::principal::Role,
    stead_domain::principal::PrincipalKind,
    stead_domain::provider::ProviderName,
    stead_domain::sandbox::SandboxStatus,
    stead_domain::environment::EnvironmentStatus,
    stead_domain::environment::EnvironmentMode,
    stead_domain::environment::Lifetime,
    stead_domain::environment::Purpose,
    stead_domain::environment::BoundToType,
    stead_domain::environment::RetentionPolicy,
    stead_domain::environment::CleanupStatus,
    stead_domain::environment::Scope,
    stead_domain::environment::TemplateId
);

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(Some(value))
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        // Counters of ours: none reaches 2^63.
        Self::Integer(Some(i64::try_from(value).unwrap_or(i64::MAX)))
    }
}

impl From<Option<u64>> for Value {
    fn from(value: Option<u64>) -> Self {
        Self::Integer(value.map(|value| i64::try_from(value).unwrap_or(i64::MAX)))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Integer(Some(i64::from(value)))
    }
}

impl From<Timestamp> for Value {
    fn from(value: Timestamp) -> Self {
        Self::Integer(Some(value.microseconds()))
    }
}

impl From<Option<Timestamp>> for Value {
    fn from(value: Option<Timestamp>) -> Self {
        Self::Integer(value.map(Timestamp::microseconds))
    }
}

impl From<Option<Vec<u8>>> for Value {
    fn from(value: Option<Vec<u8>>) -> Self {
        Self::Blob(value)
    }
}

/// One row of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row(pub Vec<Value>);

impl Row {
    pub fn reader(&self) -> RowReader<'_> {
        RowReader { values: self.0.iter(), column: 0 }
    }
}

/// Reads the columns of a row one after the other, as the statement lists them.
pub struct RowReader<'r> {
    values: std::slice::Iter<'r, Value>,
    column: usize,
}

impl RowReader<'_> {
    fn unexpected(&self, wanted: &str) -> StoreError {
        StoreError::Broken(format!("column {} of a row is not {wanted}", self.column))
    }

    pub fn optional_text(&mut self) -> Result<Option<String>> {
        self.column += 1;
        match self.values.next() {
            Some(Value::Text(value)) => Ok(value.clone()),
            Some(Value::Integer(None) | Value::Blob(None)) => Ok(None),
            _ => Err(self.unexpected("text")),
        }
    }

    pub fn text(&mut self) -> Result<String> {
        self.optional_text()?.ok_or_else(|| self.unexpected("text that is there"))
    }

    pub fn optional_integer(&mut self) -> Result<Option<i64>> {
        self.column += 1;
        match self.values.next() {
            Some(Value::Integer(value)) => Ok(*value),
            Some(Value::Text(None) | Value::Blob(None)) => Ok(None),
            _ => Err(self.unexpected("an integer")),
        }
    }

    pub fn integer(&mut self) -> Result<i64> {
        self.optional_integer()?.ok_or_else(|| self.unexpected("an integer that is there"))
    }

    pub fn count(&mut self) -> Result<u64> {
        u64::try_from(self.integer()?).map_err(|_| self.unexpected("a count"))
    }

    pub fn optional_count(&mut self) -> Result<Option<u64>> {
        self.optional_integer()?.map(u64::try_from).transpose().map_err(|_| self.unexpected("a count"))
    }

    pub fn flag(&mut self) -> Result<bool> {
        Ok(self.integer()? != 0)
    }

    pub fn optional_blob(&mut self) -> Result<Option<Vec<u8>>> {
        self.column += 1;
        match self.values.next() {
            Some(Value::Blob(value)) => Ok(value.clone()),
            Some(Value::Text(None) | Value::Integer(None)) => Ok(None),
            _ => Err(self.unexpected("bytes")),
        }
    }

    pub fn time(&mut self) -> Result<Timestamp> {
        Ok(Timestamp::from_microseconds(self.integer()?))
    }

    pub fn optional_time(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.optional_integer()?.map(Timestamp::from_microseconds))
    }

    /// A word that stands for an id or a variant.
    pub fn parsed<T: std::str::FromStr>(&mut self) -> Result<T> {
        self.text()?.parse().map_err(|_| self.unexpected(std::any::type_name::<T>()))
    }

    pub fn optional_parsed<T: std::str::FromStr>(&mut self) -> Result<Option<T>> {
        self.optional_text()?.map(|text| text.parse()).transpose().map_err(|_| self.unexpected(std::any::type_name::<T>()))
    }

    pub fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        serde_json::from_str(&self.text()?).map_err(|error| StoreError::Broken(format!("column {}: {error}", self.column)))
    }

    pub fn optional_json<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let text = self.optional_text()?;
        text.map(|text| serde_json::from_str(&text).map_err(|error| StoreError::Broken(format!("column {}: {error}", self.column))))
            .transpose()
    }
}

/// JSON as it is stored.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Value {
    Value::Text(Some(serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())))
}

/// The same for what may be absent.
pub(crate) fn optional_json<T: serde::Serialize>(value: Option<&T>) -> Value {
    Value::Text(value.and_then(|value| serde_json::to_string(value).ok()))
}
