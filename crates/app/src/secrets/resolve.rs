//! From the names of a definition to values, for one start of one process. Nothing of it is kept.

use std::fmt;
use std::time::Duration;

use stead_domain::definition::{Inject, SecretBinding, SecretDelivery};
use stead_domain::environment::Environment;
use stead_domain::ids::EnvironmentId;
use stead_domain::secret::{NEVER_BOUND, SecretValue};
use stead_domain::{Code, Error, Result, hexadecimal};
use stead_redaction::{Known, Value};
use stead_store::secrets;
use zeroize::Zeroize;

use super::belongs_to;
use crate::{App, Entered, SecretSource};

/// How long the sources of one start are waited for, all together.
const PATIENCE: Duration = Duration::from_secs(15);
/// What all values of one environment may take together: they go to its place in one message.
const MOST_BYTES: usize = 256 << 10;
/// How a name is written where the value was.
const SHOWN: &str = "***";

/// What goes into a place with a process, or stays before its door.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// Files by name, where no disk is.
    pub files: Vec<(String, SecretValue)>,
    /// What leaves the place with these values instead of their placeholders.
    pub brokered: Vec<Brokered>,
    /// What the certificate authority of the environment is made of; only where something is brokered.
    pub authority: Option<Authority>,
    /// What has to be taken out of everything that is said inside: values, and what stands in their place.
    pub known: Vec<(String, SecretValue)>,
}

/// A value that never enters the place.
#[derive(Clone, Debug)]
pub struct Brokered {
    pub name: String,
    /// What the inside has instead.
    pub placeholder: String,
    pub value: SecretValue,
    pub hosts: Vec<String>,
    pub inject: Inject,
}

/// 32 bytes that only whoever holds the server's key can make, the same for one environment each time. Whoever has them can pretend to be any
/// host, to the programs of that environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority([u8; 32]);

impl Authority {
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Authority")
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Delivery {
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// What takes the values out of whatever is written down.
    pub fn redaction(&self) -> Known {
        Known::new(self.known.iter().map(|(replacement, value)| Value { replacement, bytes: value.bytes() }))
    }
}

/// The secrets of an environment, as they are now.
#[derive(Default)]
pub(crate) struct Resolved {
    pub env: Vec<(String, String)>,
    pub delivery: Delivery,
    /// What is missing and need not be there.
    pub warnings: Vec<String>,
}

impl App {
    /// The values that a definition names. One that is required and missing fails, before anything has begun.
    pub(crate) async fn resolve_secrets(&self, entered: &Entered, environment: &Environment) -> Result<Resolved> {
        let bindings = environment.spec.secret_bindings.as_deref().unwrap_or_default();
        if bindings.is_empty() {
            return Ok(Resolved::default());
        }
        // Also of a definition that was written before this was refused.
        if let Some(binding) = bindings.iter().find(|binding| NEVER_BOUND.contains(&binding.name.as_str())) {
            return Err(Error::new(Code::SecretUnusable, format!("`{}` controls a provider and can never be bound", binding.name))
                .detail("name", binding.name.as_str())
                .suggestion(format!("`stead env unbind-secret ENVIRONMENT {}`", binding.name)));
        }
        let mut values = match self.stored_values(entered, bindings).await {
            // Perhaps another server has changed the key.
            Err(error) if error.code() == Code::SecretUnusable && self.follow_key().await.is_ok() => {
                self.stored_values(entered, bindings).await.map_err(|_| error)?
            }
            values => values?,
        };
        let fetching = bindings.iter().zip(&mut values).map(async |(binding, value)| {
            if let Some(source) = self.source_of(&entered.handle, &binding.name) {
                *value = fetched_value(&**source, entered, binding).await?;
            }
            Ok::<_, Error>(())
        });
        tokio::time::timeout(PATIENCE, futures::future::try_join_all(fetching)).await.map_err(|_| {
            Error::new(Code::SecretUnavailable, "where secrets come from did not answer in time")
                .recoverable(true)
                .suggestion("try again; the server's `secret_sources` say where they come from")
        })??;
        let mut resolved = Resolved::default();
        for (binding, value) in bindings.iter().zip(values) {
            match value {
                Found::Value(value) => self.deliver(&mut resolved, environment.id, binding, value)?,
                Found::Missing(place) if binding.required => return Err(missing(&binding.name, place.as_deref())),
                Found::Missing(None) => resolved.warnings.push(format!("the optional secret {} is not set", binding.name)),
                Found::Missing(Some(place)) => {
                    resolved.warnings.push(format!("the optional secret {} is not there: {place}", binding.name));
                }
                Found::Failed(why) => resolved.warnings.push(format!("the optional secret {} could not be had: {why}", binding.name)),
            }
        }
        if !resolved.delivery.brokered.is_empty() {
            resolved.delivery.authority = Some(self.authority(environment.id)?);
        }
        let bytes: usize = resolved.delivery.known.iter().map(|(_, value)| value.bytes().len()).sum();
        if bytes > MOST_BYTES {
            return Err(Error::new(
                Code::SecretUnusable,
                format!("the secrets of the environment take more than {MOST_BYTES} bytes together"),
            )
            .suggestion("bind fewer or shorter ones"));
        }
        Ok(resolved)
    }

    /// Those that the store keeps; `Missing` for those that it does not.
    async fn stored_values(&self, entered: &Entered, bindings: &[SecretBinding]) -> Result<Vec<Found>> {
        let names: Vec<Option<String>> =
            bindings.iter().map(|binding| self.source_of(&entered.handle, &binding.name).is_none().then(|| binding.name.clone())).collect();
        let (project, count) = (entered.project, names.len());
        let sealed: Vec<Option<secrets::Sealed>> = self
            .store
            .read(move |unit| {
                Box::pin(async move {
                    let mut sealed = Vec::with_capacity(count);
                    for name in names {
                        sealed.push(match name {
                            Some(name) => secrets::find_sealed(unit, project, &name).await?,
                            None => None,
                        });
                    }
                    Ok::<_, Error>(sealed)
                })
            })
            .await?;
        let opened = |sealed: Option<secrets::Sealed>| {
            let Some(secrets::Sealed { secret, sealed }) = sealed else { return Ok(Found::Missing(None)) };
            let whose = belongs_to(secret.project_id, &secret.name, secret.id, secret.version);
            let value = self.sealer.open(&whose, &sealed).map_err(|error| unreadable(&secret.name, &error))?;
            Ok(Found::Value(SecretValue::new(value)))
        };
        sealed.into_iter().map(opened).collect()
    }

    fn deliver(&self, resolved: &mut Resolved, environment: EnvironmentId, binding: &SecretBinding, value: SecretValue) -> Result<()> {
        let name = &binding.name;
        let mut shown = format!("{SHOWN}{name}{SHOWN}");
        match binding.delivery {
            SecretDelivery::Env => resolved.env.push((name.clone(), variable(name, &value)?)),
            SecretDelivery::File => resolved.delivery.files.push((name.clone(), value.clone())),
            SecretDelivery::Broker => {
                let placeholder = self.placeholder(environment, name)?;
                variable(name, &value)?;
                resolved.env.push((name.clone(), placeholder.clone()));
                shown.clone_from(&placeholder);
                resolved.delivery.brokered.push(Brokered {
                    name: name.clone(),
                    placeholder,
                    value: value.clone(),
                    hosts: binding.hosts.clone(),
                    inject: binding.inject.clone().unwrap_or_default(),
                });
            }
        }
        resolved.delivery.known.push((shown, value));
        Ok(())
    }

    pub(crate) fn authority(&self, environment: EnvironmentId) -> Result<Authority> {
        self.sealer.sign(format!("certificate authority/{environment}").as_bytes()).map(Authority)
    }

    /// What stands for a value inside: always the same for one name of one environment, because programs write it down.
    fn placeholder(&self, environment: EnvironmentId, name: &str) -> Result<String> {
        let signature = self.sealer.sign(format!("placeholder/{environment}/{name}").as_bytes())?;
        Ok(format!("stp_{}", hexadecimal::write(&signature[..16])))
    }
}

async fn fetched_value(source: &dyn SecretSource, entered: &Entered, binding: &SecretBinding) -> Result<Found> {
    match source.fetch(&entered.handle, &binding.name).await {
        Ok(Some(value)) if !value.bytes().is_empty() => Ok(Found::Value(value)),
        Ok(_) => Ok(Found::Missing(Some(source.place_of(&entered.handle, &binding.name)))),
        Err(failure) if binding.required => {
            let message = format!("the secret {} could not be had from {}: {failure}", binding.name, source.describe());
            Err(Error::new(Code::SecretUnavailable, message)
                .detail("name", binding.name.as_str())
                .recoverable(true)
                .suggestion(failure.suggestion))
        }
        Err(failure) => Ok(Found::Failed(format!("{}: {failure}", source.describe()))),
    }
}

/// What became of a name.
enum Found {
    Value(SecretValue),
    /// With where it was looked for, when that is not the store.
    Missing(Option<String>),
    /// Of an optional one.
    Failed(String),
}

fn missing(name: &str, place: Option<&str>) -> Error {
    if let Some(place) = place {
        return Error::new(Code::SecretMissing, format!("the secret {name} is required and not there: it is looked for at {place}"))
            .detail("name", name)
            .detail("source", place)
            .suggestion(format!("write it there; or let it be optional: `stead env bind-secret ENVIRONMENT {name} --optional`"));
    }
    Error::new(Code::SecretMissing, format!("the secret {name} is required and not set")).detail("name", name).suggestion(format!(
        "set it: `stead secret set {name}`; or let it be optional: `stead env bind-secret ENVIRONMENT {name} --optional`"
    ))
}

fn unreadable(name: &str, error: &Error) -> Error {
    Error::new(Code::SecretUnusable, format!("the secret {name} cannot be opened: {}", error.internal_cause().unwrap_or(error.message())))
        .detail("name", name)
        .suggestion(format!("give the server the master key that it was sealed with, or set it again: `stead secret set {name}`"))
}

/// The value as it can stand in a variable or in a header.
fn variable(name: &str, value: &SecretValue) -> Result<String> {
    match value.text() {
        Some(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(Error::new(Code::SecretUnusable, format!("the secret {name} is no text, and can only be delivered as a file"))
            .detail("name", name)
            .suggestion("bind it with `delivery: file`")),
    }
}
