//! Set a secret.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use stead_domain::ids::SecretId;
use stead_domain::secret::{self, NewSecretValue, Secret, SecretSet, SecretValue};
use stead_domain::{Code, Error, Result};
use stead_redaction::Known;
use stead_store::{Unit, projects, secrets, settings};

use super::{belongs_to, other_key};
use crate::audit::{Act, record};
use crate::idempotency::{self, Claim, Outcome};
use crate::{App, Entered, Sealer};

impl App {
    /// Gives a secret a value, and tells whether it is a new one. The same value again changes nothing.
    pub async fn set_secret(&self, entered: &Entered, name: &str, new: NewSecretValue) -> Result<(Outcome<SecretSet>, bool)> {
        secret::check_name("name", name)?;
        let value = value_of(&new)?;
        if let Some(source) = self.source_of(&entered.handle, name) {
            return Err(Error::new(Code::Conflict, format!("`{name}` comes from {}, and is set there", source.describe()))
                .suggestion("choose a name that no rule of the server's `secret_sources` fits"));
        }
        self.follow_key().await?;
        let warnings = warnings(name, &value);
        let (context, sealer, entered, name) = (self.context.clone(), Arc::clone(&self.sealer), entered.clone(), name.to_owned());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    // Orders two who set the same name, and this with the end of the project.
                    projects::lock(unit, entered.project).await?.ok_or_else(|| Error::not_found("project", &entered.handle))?;
                    if let Claim::Answered(reply) = idempotency::claim(unit, &context, &*sealer, &entered.caller).await? {
                        return Ok((Outcome::Again(reply), false));
                    }
                    check_key(unit, &*sealer).await?;
                    let now = context.now();
                    let present = secrets::find_sealed(unit, entered.project, &name).await?;
                    if let Some(present) = present.as_ref().filter(|present| holds(&*sealer, present, &value)) {
                        let set = SecretSet { secret: present.secret.clone(), warnings };
                        idempotency::answer(unit, &context, &entered.caller, 200, &set).await?;
                        return Ok((Outcome::New(set), false));
                    }
                    let by = entered.caller.principal;
                    let present = secrets::find(unit, entered.project, &name).await?;
                    let is_new = present.is_none();
                    let secret = match present {
                        Some(present) => Secret { version: present.version + 1, updated_by: by, updated_at: now, ..present },
                        None => Secret {
                            id: SecretId::new(&context),
                            project_id: entered.project,
                            name,
                            version: 1,
                            created_by: by,
                            created_at: now,
                            updated_by: by,
                            updated_at: now,
                        },
                    };
                    let whose = belongs_to(secret.project_id, &secret.name, secret.id, secret.version);
                    secrets::set(unit, &secret, &sealer.seal(&whose, value.bytes())?, &sealer.key_id()).await?;
                    let details = vec![("version", secret.version.into())];
                    let act = Act {
                        project: entered.project,
                        action: "secret.set",
                        target_type: "secret",
                        target_id: secret.name.clone(),
                        details,
                    };
                    record(unit, &context, &entered.caller, act).await?;
                    let set = SecretSet { secret, warnings };
                    idempotency::answer(unit, &context, &entered.caller, if is_new { 201 } else { 200 }, &set).await?;
                    Ok((Outcome::New(set), is_new))
                })
            })
            .await
    }
}

fn value_of(new: &NewSecretValue) -> Result<SecretValue> {
    let (field, bytes) = match (&new.value, &new.value_base64) {
        (Some(text), None) => ("value", text.clone().into_bytes()),
        (None, Some(text)) => {
            let bytes = STANDARD.decode(text).map_err(|_| Error::field("value_base64", "is not base64"))?;
            ("value_base64", bytes)
        }
        _ => return Err(Error::field("value", "give either `value` or `value_base64`")),
    };
    let value = SecretValue::new(bytes);
    secret::check_value(field, value.bytes())?;
    Ok(value)
}

fn warnings(name: &str, value: &SecretValue) -> Vec<String> {
    let mut warnings = Vec::new();
    if Known::is_weak(value.bytes()) {
        warnings
            .push(format!("the value of {name} is so short or plain that it is not taken out of logs: it would be found in everything"));
    }
    if value.bytes() != value.bytes().trim_ascii() {
        warnings.push(format!("the value of {name} begins or ends with white space, which is kept"));
    }
    if secret::NEVER_BOUND.contains(&name) {
        warnings.push(format!("{name} controls a provider: the server uses it, and it can never be bound to an environment"));
    }
    warnings
}

fn holds(sealer: &dyn Sealer, present: &secrets::Sealed, value: &SecretValue) -> bool {
    let secret = &present.secret;
    let whose = belongs_to(secret.project_id, &secret.name, secret.id, secret.version);
    sealer.open(&whose, &present.sealed).map(SecretValue::new).is_ok_and(|present| present == *value)
}

/// Nothing is sealed with a key that the others have left behind, or leave before this is written.
async fn check_key(unit: &mut Unit, sealer: &dyn Sealer) -> Result<()> {
    match settings::get_locked(unit, settings::MASTER_KEY).await? {
        Some(stored) if stored != sealer.key_id() => Err(other_key(&stored, &sealer.key_id())),
        _ => Ok(()),
    }
}
