//! Which secrets an environment may use, and how it gets them: names only.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::validate::{LONGEST_LIST, check_host, check_length};
use super::{NetworkAccess, SecretDelivery, Spec};
use crate::error::{Error, Result};
use crate::secret;

/// The name of a secret that the environment may use; never a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretBinding {
    #[schema(pattern = "^[A-Z_][A-Z0-9_]*$")]
    pub name: String,
    #[serde(default = "SecretBinding::default_required")]
    pub required: bool,
    #[serde(default = "SecretBinding::default_delivery")]
    pub delivery: SecretDelivery,
    /// With `delivery: broker`: where the value may go. `host`, `host:port` or `*.suffix[:port]`; 443 without a port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Where the broker puts the value; in the header `Authorization` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inject: Option<Inject>,
}

impl SecretBinding {
    fn default_required() -> bool {
        true
    }

    fn default_delivery() -> SecretDelivery {
        SecretDelivery::Env
    }

    /// Of the plain kind: a variable with the value.
    pub fn plain(name: impl Into<String>, required: bool) -> Self {
        Self { name: name.into(), required, delivery: Self::default_delivery(), hosts: Vec::new(), inject: None }
    }
}

/// In which part of a request the placeholder gives way to the value: a header or a parameter of the query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Inject {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<InjectScheme>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Also in bodies. Whoever runs inside may then send the placeholder to a host that shows it what it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<bool>,
}

text_enum! {
    pub enum InjectScheme {
        Bearer = "bearer",
        Basic = "basic",
        Raw = "raw",
        /// Refused: a signature is made of the whole request, by whoever has the value.
        SigV4 = "sigv4",
        /// Refused, as `sigv4` is.
        Hmac = "hmac",
    }
}

impl Spec {
    pub(super) fn validate_secrets(&self, path: &impl Fn(&str) -> String) -> Result<()> {
        let bindings = self.secret_bindings.as_deref().unwrap_or_default();
        check_length(&path("secret_bindings"), bindings.len(), LONGEST_LIST)?;
        for (index, binding) in bindings.iter().enumerate() {
            let field = |name: &str| path(&format!("secret_bindings[{index}].{name}"));
            binding.validate(&field)?;
            if bindings[..index].iter().any(|earlier| earlier.name == binding.name) {
                return Err(Error::field(field("name"), format!("`{}` is bound twice", binding.name)));
            }
            let network = self.sandbox.as_ref().and_then(|sandbox| sandbox.network_access);
            if binding.delivery == SecretDelivery::Broker && network == Some(NetworkAccess::Disabled) {
                return Err(Error::field(
                    field("delivery"),
                    "`broker` puts the value into what leaves, and with `network_access: disabled` nothing does",
                )
                .suggestion("set sandbox.network_access to `allowlist`: the hosts of the binding are then let through"));
            }
        }
        Ok(())
    }
}

impl SecretBinding {
    fn validate(&self, field: &impl Fn(&str) -> String) -> Result<()> {
        secret::check_name(&field("name"), &self.name)?;
        if secret::NEVER_BOUND.contains(&self.name.as_str()) {
            return Err(Error::field(field("name"), format!("`{}` controls a provider and can never be bound", self.name)));
        }
        if self.name.starts_with("STEAD_") {
            return Err(Error::field(field("name"), "what begins with `STEAD_` is said by Stead itself"));
        }
        check_length(&field("hosts"), self.hosts.len(), LONGEST_LIST)?;
        for (at, host) in self.hosts.iter().enumerate() {
            check_host(&field(&format!("hosts[{at}]")), host)?;
        }
        if self.delivery != SecretDelivery::Broker {
            if self.hosts.is_empty() && self.inject.is_none() {
                return Ok(());
            }
            return Err(Error::field(field("delivery"), "`hosts` and `inject` are only used with `delivery: broker`"));
        }
        if self.hosts.is_empty() {
            return Err(Error::field(field("hosts"), "`delivery: broker` needs the hosts that the value may go to"));
        }
        self.inject.as_ref().map_or(Ok(()), |inject| inject.validate(field))
    }
}

impl Inject {
    fn validate(&self, field: &impl Fn(&str) -> String) -> Result<()> {
        if let Some(scheme @ (InjectScheme::SigV4 | InjectScheme::Hmac)) = self.scheme {
            return Err(Error::field(
                field("inject.scheme"),
                format!("`{scheme}` signs the whole request with the value, which the broker cannot do for it"),
            )
            .suggestion("use `delivery: env` or `file` for keys that sign"));
        }
        if self.header.is_some() && self.query.is_some() {
            return Err(Error::field(field("inject"), "names a header and a query parameter; bind one of them"));
        }
        if self.scheme.is_some() && self.query.is_some() {
            return Err(Error::field(field("inject.scheme"), "belongs to a header, and the query has none"));
        }
        if let Some(header) = &self.header {
            let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            if header.is_empty() || header.len() > 256 || !header.bytes().all(token) {
                return Err(Error::field(field("inject.header"), "is no name of a header"));
            }
            let framing = ["host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"];
            if framing.iter().any(|name| header.eq_ignore_ascii_case(name)) {
                return Err(Error::field(field("inject.header"), format!("`{header}` says how a request is sent, and carries no secret")));
            }
        }
        if let Some(query) = &self.query
            && (query.is_empty() || query.len() > 256 || query.chars().any(char::is_control))
        {
            return Err(Error::field(field("inject.query"), "is no name of a parameter"));
        }
        Ok(())
    }
}
