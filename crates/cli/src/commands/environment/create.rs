use serde_json::{Map, Value, json};
use stead_domain::checkout::CheckoutRequest;
use stead_domain::definition::{NetworkAccess, Spec};

use super::spec::{self, Shorthand};
use super::{checkout, github_token, view};
use crate::arguments::environment::Create;
use crate::definitions;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Create) -> Result<()> {
    let definition = definition(invocation, arguments)?;
    let token = github_token::of(invocation, arguments.github_token, arguments.github_installation.is_some()).await?;
    let client = invocation.client().await?.with_github_token(token);
    let mut body = Map::from_iter([("name".to_owned(), json!(arguments.name))]);
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    put("provider", arguments.provider.map(|provider| json!(provider)));
    put("template_id", arguments.template.map(|template| json!(template)));
    put("purpose", arguments.purpose.map(|purpose| json!(purpose)));
    put("tags", (!arguments.tags.is_empty()).then(|| json!(arguments.tags.iter().cloned().collect::<std::collections::BTreeMap<_, _>>())));
    put("spec", definition);
    put("allow_unenforced", arguments.allow_unenforced.then_some(Value::Bool(true)));
    if let Some(reference) = &arguments.sandbox {
        let sandbox = references::sandbox(&client, reference).await?;
        put("sandbox_id", Some(json!(sandbox.id)));
    }
    let environment = client.create_environment(&Value::Object(body)).await?;
    invocation.printer.record(&environment, &environment.id.to_string(), |printer| {
        printer.note(&format!("created environment {}", environment.name));
        view::show(printer, &environment)
    })?;
    if arguments.checkout {
        return checkout::check_out(invocation, &environment, &CheckoutRequest::default()).await;
    }
    Ok(())
}

/// The definition: the file that was named, else one of that name here or above, with what the flags say laid over it.
fn definition(invocation: &Invocation<'_>, arguments: &Create) -> Result<Option<Value>> {
    if !arguments.allowed_hosts.is_empty() && arguments.network.is_some_and(|network| network != NetworkAccess::Allowlist) {
        return Err(Failure::usage("--allow-host is only used with --network allowlist"));
    }
    let mut value = match &arguments.spec {
        Some(path) => {
            let value = spec::read_json(path)?;
            // Found out here, an error can name the file's own fields.
            Spec::from_value(value.clone(), "spec")?.validate("spec")?;
            value
        }
        None => match definitions::find(&invocation.surroundings.directory, &arguments.name)? {
            Some(found) => {
                invocation.printer.note(&format!("using the definition {}", found.path.display()));
                spec::without_record_fields(&found.definition.spec)
            }
            None => json!({}),
        },
    };
    if !arguments.mounts.is_empty() {
        let mounts = spec::with_mounts(value.get("mounts"), &arguments.mounts);
        value["mounts"] = mounts;
    }
    let hosts_without_access = !arguments.allowed_hosts.is_empty() && arguments.network.is_none();
    let network = if hosts_without_access { Some(NetworkAccess::Allowlist) } else { arguments.network };
    Shorthand {
        repositories: &arguments.repositories,
        github_installation: arguments.github_installation,
        secrets: &arguments.secrets,
        optional_secrets: &arguments.optional_secrets,
        network: network.map(NetworkAccess::as_str),
        allowed_hosts: &arguments.allowed_hosts,
    }
    .lay_over(&mut value);
    Ok(value.as_object().is_none_or(|fields| !fields.is_empty()).then_some(value))
}
