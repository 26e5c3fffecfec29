//! Which lease is meant: by its id, by the environment that it is of, or by the token that is presented.

use stead_client::Client;
use stead_domain::ids::LeaseId;
use stead_domain::lease::LeaseView;
use stead_domain::{Code, Error};

use crate::failure::Result;
use crate::references;
use crate::settings::Settings;

/// What was given, or what is presented when nothing was.
pub async fn lease(settings: &Settings, client: &Client, reference: Option<&str>) -> Result<LeaseId> {
    let presented = settings.presented().map(|presented| presented.value);
    match (reference, presented) {
        (Some(reference), _) => named(client, reference, presented).await,
        (None, Some(presented)) => Ok(presented),
        (None, None) => Err(Error::new(Code::Usage, "it is not said which lease is meant")
            .suggestion("name it or its environment, or present its token with STEAD_LEASE or --lease-token-file; `stead lease list` shows those that are held")
            .into()),
    }
}

/// A lease by its id, or the one that is held in an environment: the presented one where there are several.
pub async fn named(client: &Client, reference: &str, presented: Option<LeaseId>) -> Result<LeaseId> {
    if let Ok(id) = reference.parse() {
        return Ok(id);
    }
    let held = references::all(async |options| client.list_leases(false, &options).await).await?;
    if reference.starts_with(&format!("{}_", LeaseId::PREFIX)) {
        let chosen = references::choose(reference, held).map_err(|error| match error.code() {
            Code::NotFound => error.suggestion("`stead lease list` shows those that are held"),
            _ => error,
        })?;
        return Ok(chosen.id);
    }
    let environment = references::environment(client, reference).await?;
    // Those who share a sandbox share its leases.
    let of_it: Vec<LeaseView> = held.into_iter().filter(|lease| lease.sandbox_id == environment.sandbox_id).collect();
    let own = of_it.iter().find(|lease| Some(lease.id) == presented);
    match (own, of_it.as_slice()) {
        (Some(own), _) => Ok(own.id),
        (None, [only]) => Ok(only.id),
        (None, []) => Err(Error::new(Code::NotFound, format!("nobody holds environment `{}`", environment.name))
            .suggestion(format!("`stead lease list {} --all` shows who did", environment.name))
            .into()),
        (None, several) => {
            let ids: Vec<String> = several.iter().map(|lease| lease.id.to_string()).collect();
            Err(Error::new(Code::Ambiguous, format!("several hold environment `{}`: {}", environment.name, ids.join(", ")))
                .detail("candidates", ids)
                .suggestion("name the lease by its id")
                .into())
        }
    }
}
