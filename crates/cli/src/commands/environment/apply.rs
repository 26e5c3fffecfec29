use serde::Serialize;
use serde_json::{Map, Value, json};
use stead_client::{Client, EnvironmentFilter, ListOptions};
use stead_domain::environment::Environment;
use stead_domain::error::ErrorContent;
use stead_domain::{Code, Error};

use super::{github_token, spec};
use crate::arguments::environment::Apply;
use crate::definitions::{self, Found};
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Created,
    Updated,
    Unchanged,
    Failed,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Created, Self::Updated, Self::Unchanged, Self::Failed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Failed => "failed",
        }
    }
}

#[derive(Serialize)]
struct Outcome {
    path: String,
    outcome: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Environment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorContent>,
}

pub async fn run(invocation: &Invocation<'_>, arguments: &Apply) -> Result<()> {
    let files = load(arguments)?;
    let token = github_token::of(invocation, arguments.github_token, false).await?;
    let client = invocation.client().await?.with_github_token(token);
    let printer = invocation.printer;
    let mut outcomes = Vec::new();
    let mut status = None;
    for found in files {
        let path = found.path.display().to_string();
        outcomes.push(match apply(&client, &found, arguments.allow_unenforced).await {
            Ok((outcome, environment)) => {
                if !printer.is_json() {
                    let id = environment.id.to_string();
                    let row = row(outcome, &environment.name, &path);
                    printer.record(&environment, &id, |printer| printer.line(&row))?;
                }
                Outcome { path, outcome, environment: Some(environment), error: None }
            }
            // What is wrong with one says nothing about the next.
            Err(failure) => {
                status.get_or_insert(failure.exit_status());
                if !printer.is_json() {
                    printer.note(&row(Kind::Failed, &found.definition.id, &path));
                    printer.failure(&failure);
                }
                Outcome { path, outcome: Kind::Failed, environment: None, error: failure.body().map(|body| body.error) }
            }
        });
    }
    let counts = Kind::ALL.map(|kind| (kind, outcomes.iter().filter(|outcome| outcome.outcome == kind).count()));
    if printer.is_json() {
        let summary: Map<String, Value> = counts.iter().map(|(kind, count)| (kind.as_str().to_owned(), json!(count))).collect();
        printer.json(&json!({ "items": outcomes, "summary": summary }))?;
    } else {
        printer.note(&counts.map(|(kind, count)| format!("{count} {}", kind.as_str())).join(", "));
    }
    status.map_or(Ok(()), |status| Err(Failure::Told(status)))
}

fn row(outcome: Kind, name: &str, path: &str) -> String {
    format!("{:9}  {name}  {path}", outcome.as_str())
}

/// Reads and checks every file before the first is applied.
fn load(arguments: &Apply) -> Result<Vec<Found>> {
    let mut files: Vec<Found> = Vec::new();
    for path in &arguments.files {
        for found in definitions::load(path)? {
            if let Some(earlier) = files.iter().find(|earlier| earlier.definition.id == found.definition.id) {
                let (first, second) = (earlier.path.display(), found.path.display());
                let message = format!("`{}` is defined twice, in {first} and in {second}", found.definition.id);
                return Err(Error::new(Code::InvalidDefinition, message).detail("field", "id").suggestion("leave one of them out").into());
            }
            files.push(found);
        }
    }
    Ok(files)
}

async fn apply(client: &Client, found: &Found, allow_unenforced: bool) -> Result<(Kind, Environment)> {
    let id = &found.definition.id;
    let mut wanted = spec::without_record_fields(&found.definition.spec);
    // A name for people that only repeats the id says nothing, and an export writes it where there is none.
    if let Value::Object(fields) = &mut wanted
        && fields.get("name").and_then(Value::as_str) == Some(id)
    {
        fields.remove("name");
    }
    let filter = EnvironmentFilter { name: Some(id.clone()), ..EnvironmentFilter::default() };
    let page = client.list_environments(&filter, &ListOptions::default()).await?;
    // A name may stand twice, once for the project and once for each owner; a file speaks of the project's, and so does a list that does
    // not ask for a scope.
    let Some(present) = page.items.into_iter().next() else {
        let mut body = json!({ "name": id, "spec": wanted });
        if allow_unenforced {
            body["allow_unenforced"] = Value::Bool(true);
        }
        return Ok((Kind::Created, client.create_environment(&body).await?));
    };
    // The patch is made against one version and is taken only while that is the present one.
    let before = client.get_environment(present.id).await?;
    let mut body = json!({ "spec": patch(&before.value, wanted) });
    if allow_unenforced {
        body["allow_unenforced"] = Value::Bool(true);
    }
    let after = client.update_environment(present.id, &body, before.etag.as_deref()).await?;
    let outcome = if after.fingerprint == before.value.fingerprint { Kind::Unchanged } else { Kind::Updated };
    Ok((outcome, after))
}

/// What turns the present definition into the file's. The provider stays unless the file names another, which the server then refuses by
/// name; a name for people that the file leaves out stays too.
fn patch(present: &Environment, wanted: Value) -> Value {
    let mut patch = spec::replacement(&spec::without_record_fields(&present.spec), &wanted);
    if let Value::Object(fields) = &mut patch {
        fields.retain(|name, value| !(value.is_null() && matches!(name.as_str(), "name" | "kind" | "provider")));
    }
    patch
}
