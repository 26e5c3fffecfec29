use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{github_token, spec, view};
use crate::arguments::environment::Update;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Update) -> Result<()> {
    let mut body = body(arguments)?;
    let token = github_token::of(invocation, arguments.github_token, arguments.github_installation.is_some()).await?;
    let client = invocation.client().await?.with_github_token(token);
    let found = references::environment(&client, &arguments.reference.environment).await?;
    let before = client.get_environment(found.id).await?;
    if !arguments.mounts.is_empty() {
        // A list of a patch replaces the one that is there.
        let stated = body.get("spec").and_then(|spec| spec.get("mounts")).cloned();
        let present = stated.or_else(|| before.value.spec.mounts.as_ref().map(|mounts| json!(mounts)));
        let spec = body.entry("spec").or_insert_with(|| json!({}));
        spec["mounts"] = spec::with_mounts(present.as_ref(), &arguments.mounts);
    }
    let environment = client.update_environment(found.id, &Value::Object(body), before.etag.as_deref()).await?;
    invocation.printer.record(&environment, &environment.id.to_string(), |printer| {
        let versions = (before.value.spec_version, environment.spec_version);
        match versions {
            (old, new) if old == new => printer.note(&format!("updated environment {}", environment.name)),
            (old, new) => printer.note(&format!("updated environment {}: definition version {old} is now {new}", environment.name)),
        }
        view::show(printer, &environment)
    })
}

fn body(arguments: &Update) -> Result<Map<String, Value>> {
    let mut body = Map::new();
    if let Some(name) = &arguments.name {
        body.insert("name".to_owned(), json!(name));
    }
    if let Some(purpose) = arguments.purpose {
        body.insert("purpose".to_owned(), json!(purpose));
    }
    if !arguments.tags.is_empty() {
        let tags: BTreeMap<_, _> = arguments.tags.iter().cloned().collect();
        body.insert("tags".to_owned(), json!(tags));
    }
    let mut patch = match &arguments.spec {
        Some(path) => spec::read_json(path)?,
        None => json!({}),
    };
    for (path, value) in &arguments.set {
        spec::set(&mut patch, path, value)?;
    }
    if let Some(installation) = arguments.github_installation {
        spec::set(&mut patch, "repos.github_installation_id", &installation.to_string())?;
    }
    if arguments.spec.is_some() || !arguments.set.is_empty() || arguments.github_installation.is_some() {
        body.insert("spec".to_owned(), patch);
    }
    if arguments.allow_unenforced {
        body.insert("allow_unenforced".to_owned(), Value::Bool(true));
    }
    if body.is_empty() && arguments.mounts.is_empty() {
        return Err(Failure::usage("nothing to change was named; see `stead env update --help`"));
    }
    Ok(body)
}
