//! `stead env bind-secret` and `unbind-secret`: which secrets an environment may use.

use serde_json::json;
use stead_client::{Client, ClientError, Tagged};
use stead_domain::definition::{Inject, SecretBinding, SecretDelivery};
use stead_domain::environment::Environment;
use stead_domain::{Code, Error, secret};

use super::view;
use crate::arguments::secret::{BindSecret, UnbindSecret};
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn bind(invocation: &Invocation<'_>, arguments: &BindSecret) -> Result<()> {
    secret::check_name("name", &arguments.name)?;
    let client = invocation.client().await?;
    let found = references::environment(&client, &arguments.reference.environment).await?;
    let before = client.get_environment(found.id).await?;
    let mut bindings = before.value.spec.secret_bindings.clone().unwrap_or_default();
    let present = bindings.iter().position(|binding| binding.name == arguments.name);
    let wanted = wanted(arguments, present.map(|at| &bindings[at]));
    match present {
        Some(at) if bindings[at] == wanted => {
            return invocation.printer.record(&before.value, &before.value.id.to_string(), |printer| {
                printer.note(&format!("{} uses {} already, in that way", before.value.name, wanted.name));
                Ok(())
            });
        }
        Some(at) => bindings[at] = wanted,
        None => bindings.push(wanted),
    }
    let environment = save(&client, &before, &bindings).await?;
    match client.get_secret(&arguments.name).await {
        Ok(_) => {}
        Err(error) => match source(&error) {
            Some(place) => invocation.printer.note(&format!("{} is looked for at {place}", arguments.name)),
            None => invocation.printer.warn(&format!("{} is not set in this project yet: stead secret set {0}", arguments.name)),
        },
    }
    tell(invocation, &environment, &format!("{} uses {} from its next process on", environment.name, arguments.name))
}

pub async fn unbind(invocation: &Invocation<'_>, arguments: &UnbindSecret) -> Result<()> {
    let client = invocation.client().await?;
    let found = references::environment(&client, &arguments.reference.environment).await?;
    let before = client.get_environment(found.id).await?;
    let mut bindings = before.value.spec.secret_bindings.clone().unwrap_or_default();
    let count = bindings.len();
    bindings.retain(|binding| binding.name != arguments.name);
    if bindings.len() == count {
        return Err(Error::new(Code::NotFound, format!("{} does not use {}", before.value.name, arguments.name))
            .suggestion(format!("`stead env view {}` shows which secrets it uses", before.value.name))
            .into());
    }
    let environment = save(&client, &before, &bindings).await?;
    tell(invocation, &environment, &format!("{} uses {} no more", environment.name, arguments.name))
}

/// What is not said stays as it is.
fn wanted(arguments: &BindSecret, present: Option<&SecretBinding>) -> SecretBinding {
    let mut binding = present.cloned().unwrap_or_else(|| SecretBinding::plain(&arguments.name, true));
    binding.required = !arguments.optional;
    if let Some(delivery) = arguments.delivery {
        binding.delivery = delivery;
        if delivery != SecretDelivery::Broker {
            binding.hosts.clear();
            binding.inject = None;
        }
    }
    if !arguments.hosts.is_empty() {
        binding.hosts.clone_from(&arguments.hosts);
    }
    if arguments.header.is_some() || arguments.scheme.is_some() || arguments.query.is_some() {
        let inject = Inject { header: arguments.header.clone(), scheme: arguments.scheme, query: arguments.query.clone(), body: None };
        binding.inject = Some(inject);
    }
    binding
}

async fn save(client: &Client, before: &Tagged<Environment>, bindings: &[SecretBinding]) -> Result<Environment> {
    let body = json!({ "spec": { "secret_bindings": bindings } });
    Ok(client.update_environment(before.value.id, &body, before.etag.as_deref()).await?)
}

fn tell(invocation: &Invocation<'_>, environment: &Environment, what: &str) -> Result<()> {
    invocation.printer.record(environment, &environment.id.to_string(), |printer| {
        printer.note(what);
        view::show(printer, environment)
    })
}

/// Where a secret comes from that the server does not keep itself.
fn source(error: &ClientError) -> Option<&str> {
    let ClientError::Reply { body, .. } = error else { return None };
    body.error.details.as_ref()?.get("source")?.as_str()
}
