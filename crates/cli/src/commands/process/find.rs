//! Processes of all environments of the project. The server lists them environment by environment.

use stead_client::{Client, ClientError, EnvironmentFilter, ProcessFilter};
use stead_domain::environment::{Environment, ScopeFilter};
use stead_domain::ids::ProcessId;
use stead_domain::process::Process;
use stead_domain::{Code, Error};

use crate::failure::Result;
use crate::references;

pub async fn environments(client: &Client) -> Result<Vec<Environment>> {
    let filter = EnvironmentFilter { scope: Some(ScopeFilter::Any), ..EnvironmentFilter::default() };
    references::all(async |options| client.list_environments(&filter, &options).await).await
}

/// None for an environment whose provider runs nothing, or on another host, which alone knows.
pub async fn of_environment(client: &Client, environment: &Environment, unfinished: bool) -> Result<Vec<Process>> {
    let filter = ProcessFilter { status: None, unfinished };
    references::all(async |options| match client.list_processes(environment.id, filter, &options).await {
        Err(ClientError::Reply { status: 404 | 409, .. }) => {
            Ok(stead_domain::page::Page { items: Vec::new(), has_more: false, next_cursor: None })
        }
        other => other,
    })
    .await
}

/// The one that a reference means: an id, or the beginning of one that fits no other.
pub async fn process(client: &Client, reference: &str) -> Result<Process> {
    let whole = reference.parse::<ProcessId>().ok();
    let mut found: Vec<Process> = Vec::new();
    let prefix = references::id_prefix::<Process>(reference);
    for environment in environments(client).await? {
        match (whole, &prefix) {
            (Some(id), _) => match client.get_process(environment.id, id).await {
                Ok(process) => return Ok(process),
                Err(ClientError::Reply { status: 404 | 409, .. }) => {}
                Err(error) => return Err(error.into()),
            },
            (None, Some(prefix)) => {
                let all = of_environment(client, &environment, false).await?;
                found.extend(all.into_iter().filter(|process| process.id.to_string().starts_with(prefix)));
            }
            (None, None) => break,
        }
    }
    Ok(references::choose(reference, found).map_err(|error: Error| match error.code() {
        Code::NotFound => error.suggestion("`stead ps --all` shows what there is"),
        _ => error,
    })?)
}
