//! The environment of a directory: found by its name, made when there is none.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use stead_client::{ClientError, EnvironmentFilter, ListOptions};
use stead_domain::definition::NetworkAccess;
use stead_domain::environment::{Environment, EnvironmentStatus};
use stead_domain::{Code, Error};

use super::begin::Here;
use super::directory::Directory;
use crate::arguments::process::Run;
use crate::commands::environment::spec;
use crate::definitions;
use crate::failure::{Failure, Result};
use crate::session::patience::patiently;
use crate::settings::Target;

/// Definitions that are meant for a directory as a whole.
const DEFINITIONS: [&str; 2] = ["local-default", "default"];
const WORKSPACE: &str = "/workspace";
/// What the definition was when the environment was made from it.
const MADE_FROM: &str = "definition";
const LONGEST_TAG: usize = 256;
const LOOKS: u32 = 300;
const PAUSE: Duration = Duration::from_millis(100);

/// What an environment of a directory must be.
pub struct Own {
    pub name: String,
    body: Value,
    /// Of the definition file, when there is one.
    made_from: Option<String>,
    /// Where the command starts.
    pub start: String,
}

impl Own {
    pub fn new(here: &Here<'_>, arguments: &Run) -> Result<Self> {
        let current = &here.invocation.surroundings.directory;
        let home = here.invocation.surroundings.path("HOME").and_then(|home| home.canonicalize().ok());
        let directory = match Directory::of(current, home.as_deref()) {
            // Nothing of it is mounted.
            Err(_) if arguments.scratch => Directory { root: current.clone(), below: "".into() },
            other => other?,
        };
        if !arguments.scratch && matches!(here.settings.target, Target::Remote { .. }) {
            let message = "a directory of this machine can only be the workspace of an environment of the local server";
            let suggestion = "use --scratch for an empty workspace, --env for an environment that is there, or --profile local";
            return Err(Error::new(Code::Usage, message).suggestion(suggestion).into());
        }
        let definition = definition(current)?;
        let made_from = definition.as_ref().map(|value| hexadecimal(value.to_string().as_bytes()));
        let mut spec = definition.unwrap_or_else(|| json!({}));
        let stated = spec.pointer("/workspace_mount_defaults/workspace_path").and_then(Value::as_str);
        let workspace = stated.unwrap_or(WORKSPACE).to_owned();
        if !arguments.scratch {
            bind(&mut spec, &directory.root, &workspace)?;
        }
        let network = arguments.network.map(NetworkAccess::as_str);
        spec::Shorthand { network, allowed_hosts: &arguments.allowed_hosts, ..spec::Shorthand::default() }.lay_over(&mut spec);
        let name = name(here, arguments, &directory);
        let mut tags = Map::new();
        let path = directory.root.to_string_lossy();
        if path.chars().count() <= LONGEST_TAG && !path.chars().any(char::is_control) {
            tags.insert("directory".to_owned(), json!(path));
        }
        if let Some(made_from) = &made_from {
            tags.insert(MADE_FROM.to_owned(), json!(made_from));
        }
        let mut body = json!({ "name": name, "template_id": "local-default", "spec": spec, "tags": tags });
        if arguments.allow_unenforced {
            body["allow_unenforced"] = Value::Bool(true);
        }
        let start = if arguments.scratch { workspace } else { directory.inside(&workspace) };
        Ok(Self { name, body, made_from, start })
    }

    /// The one that is there, as its definition says, or a new one.
    pub async fn ensure(&self, here: &Here<'_>) -> Result<Environment> {
        let found = match self.find(here).await? {
            Some(found) => found,
            None => match here.client.create_environment(&self.body).await {
                Ok(made) => return Ok(made),
                // Somebody was faster: then it is that one.
                Err(ClientError::Reply { body, .. }) if body.error.code == Code::AlreadyExists.as_str() => {
                    self.find(here).await?.ok_or_else(|| Error::not_found("environment", &self.name))?
                }
                Err(error) => return Err(kindly(error.into())),
            },
        };
        let ready = self.wait_until_made(here, found).await?;
        self.renew(here, ready).await
    }

    pub async fn find(&self, here: &Here<'_>) -> Result<Option<Environment>> {
        let filter = EnvironmentFilter { name: Some(self.name.clone()), ..EnvironmentFilter::default() };
        let page = patiently(async || here.client.list_environments(&filter, &ListOptions::default()).await).await?;
        Ok(page.items.into_iter().find(|environment| environment.scope.is_none()))
    }

    async fn wait_until_made(&self, here: &Here<'_>, mut environment: Environment) -> Result<Environment> {
        for _ in 0..LOOKS {
            if environment.status != EnvironmentStatus::Provisioning {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            environment = here.client.get_environment(environment.id).await?.value;
        }
        Ok(environment)
    }

    /// Takes over what has changed in the definition file since. What the user has changed by hand stays while the file does.
    async fn renew(&self, here: &Here<'_>, environment: Environment) -> Result<Environment> {
        let Some(made_from) = self.made_from.as_ref().filter(|made_from| environment.tags.get(MADE_FROM) != Some(made_from)) else {
            return Ok(environment);
        };
        let before = here.client.get_environment(environment.id).await?;
        let present = spec::without_record_fields(&before.value.spec);
        let mut patch = spec::replacement(&present, &self.body["spec"]);
        if let Value::Object(fields) = &mut patch {
            fields.retain(|name, value| !(value.is_null() && matches!(name.as_str(), "name" | "kind" | "provider")));
        }
        let mut tags = before.value.tags.clone();
        tags.insert(MADE_FROM.to_owned(), made_from.clone());
        let mut body = json!({ "spec": patch, "tags": tags });
        if let Some(allowed) = self.body.get("allow_unenforced") {
            body["allow_unenforced"] = allowed.clone();
        }
        let after = here.client.update_environment(environment.id, &body, before.etag.as_deref()).await;
        let after = after.map_err(|error| kindly(error.into()))?;
        if after.spec_version != before.value.spec_version {
            let (name, version) = (&after.name, after.spec_version);
            let printer = here.invocation.printer;
            printer.note(&format!("the definition file has changed, and {name} with it: version {version} is what it says"));
            printer.hint(&format!("stead env history {name} --diff {} {version} shows what", before.value.spec_version));
        }
        Ok(after)
    }
}

fn definition(current: &Path) -> Result<Option<Value>> {
    for id in DEFINITIONS {
        if let Some(found) = definitions::find(current, id)? {
            return Ok(Some(spec::without_record_fields(&found.definition.spec)));
        }
    }
    Ok(None)
}

/// Makes the directory the workspace, unless the definition has put something there itself.
fn bind(spec: &mut Value, root: &Path, workspace: &str) -> Result<()> {
    let Some(root) = root.to_str() else {
        let message = format!("{} cannot be named in a definition, because it is not UTF-8", root.display());
        return Err(Error::new(Code::Usage, message).suggestion("rename the directory, or use --scratch").into());
    };
    let mut mounts = spec.get("mounts").and_then(Value::as_array).cloned().unwrap_or_default();
    if mounts.iter().all(|mount| mount["path"] != workspace) {
        mounts.push(json!({ "source": format!("host:{root}"), "path": workspace, "access": "rw" }));
    }
    spec["mounts"] = json!(mounts);
    Ok(())
}

/// Each posture that a flag asks for has an environment of its own: one that others use is never changed under them.
fn name(here: &Here<'_>, arguments: &Run, directory: &Directory) -> String {
    let mut name = directory.name();
    if arguments.scratch {
        name.push_str("-scratch");
    }
    if let Some(network) = arguments.network {
        name.push_str(&format!("-network-{network}"));
    }
    if !arguments.allowed_hosts.is_empty() {
        let hosts: BTreeSet<&str> = arguments.allowed_hosts.iter().map(String::as_str).collect();
        name.push('-');
        name.extend(hexadecimal(hosts.into_iter().collect::<Vec<_>>().join(" ").as_bytes()).chars().take(8));
    }
    if arguments.remove {
        let random: [u8; 4] = here.invocation.context.random();
        name.push('-');
        name.extend(random.iter().map(|byte| format!("{byte:02x}")));
    }
    name
}

fn hexadecimal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A directory that the server does not mount is no dead end.
fn kindly(failure: Failure) -> Failure {
    match &failure {
        Failure::Reply { body, .. } if body.error.code == Code::Forbidden.as_str() && is_about_mounts(body) => {
            Error::new(Code::Forbidden, format!("this directory cannot be the workspace: {}", body.error.message))
                .suggestion("change to a directory of your own, or use --scratch for an empty workspace")
                .into()
        }
        _ => failure,
    }
}

fn is_about_mounts(body: &stead_domain::error::ErrorBody) -> bool {
    let field = body.error.details.as_ref().and_then(|details| details.get("field")).and_then(Value::as_str);
    field.is_some_and(|field| field.starts_with("spec.mounts"))
}
