//! What a user calls a thing by: its id, its name, or a prefix of either that fits only one.

use stead_client::{Client, EnvironmentFilter, ListOptions};
use stead_domain::api_key::ApiKey;
use stead_domain::checkpoint::Checkpoint;
use stead_domain::environment::{Environment, ScopeFilter};
use stead_domain::ids::{ApiKeyId, CheckpointId, EnvironmentId, LeaseId, PrincipalId, ProcessId, SandboxId};
use stead_domain::lease::LeaseView;
use stead_domain::page::{MAXIMUM_LIMIT, Page};
use stead_domain::principal::Member;
use stead_domain::process::Process;
use stead_domain::sandbox::Sandbox;
use stead_domain::{Code, Error, names};

use crate::failure::Result;

/// Shorter ones fit too much: ids of the same day begin alike.
const SHORTEST_PREFIX: usize = 6;
const SHOWN_CANDIDATES: usize = 10;

pub trait Candidate {
    /// What the thing is called in messages.
    const NOUN: &'static str;
    const PREFIX: &'static str;
    fn id(&self) -> String;
    fn name(&self) -> Option<&str>;
}

macro_rules! candidate {
    ($type:ty, $noun:literal, $id:ty, $identified:expr, $named:expr) => {
        impl Candidate for $type {
            const NOUN: &'static str = $noun;
            const PREFIX: &'static str = <$id>::PREFIX;

            fn id(&self) -> String {
                let identified: fn(&$type) -> $id = $identified;
                identified(self).to_string()
            }

            fn name(&self) -> Option<&str> {
                let named: fn(&$type) -> Option<&str> = $named;
                named(self)
            }
        }
    };
}

candidate!(Environment, "environment", EnvironmentId, |it| it.id, |it| Some(&it.name));
candidate!(Checkpoint, "checkpoint", CheckpointId, |it| it.id, |it| it.name.as_deref());
candidate!(Member, "member", PrincipalId, |it| it.principal_id, |it| Some(&it.name));
candidate!(ApiKey, "key", ApiKeyId, |it| it.id, |it| Some(&it.name));
candidate!(Process, "process", ProcessId, |it| it.id, |_| None);
candidate!(LeaseView, "lease", LeaseId, |it| it.id, |_| None);
candidate!(Sandbox, "sandbox", SandboxId, |it| it.id, |_| None);

/// Finds the one that a reference means. A whole id or name wins over prefixes.
pub fn choose<T: Candidate>(reference: &str, candidates: Vec<T>) -> Result<T, Error> {
    let wanted = names::key(reference);
    let exact = |it: &T| it.id() == reference;
    let named = |it: &T| it.name().is_some_and(|name| names::key(name) == wanted);
    let id_prefix = id_prefix::<T>(reference);
    let begins = |it: &T| {
        id_prefix.as_ref().is_some_and(|prefix| it.id().starts_with(prefix))
            || it.name().is_some_and(|name| names::key(name).starts_with(&wanted))
    };
    let levels: [&dyn Fn(&T) -> bool; 3] = [&exact, &named, &begins];
    for fits in levels {
        let matching: Vec<usize> = candidates.iter().enumerate().filter(|(_, it)| fits(it)).map(|(index, _)| index).collect();
        match matching.as_slice() {
            [] => {}
            [only] => return candidates.into_iter().nth(*only).ok_or_else(|| Error::not_found(T::NOUN, reference)),
            several => return Err(ambiguous(reference, several.iter().map(|index| &candidates[*index]).collect())),
        }
    }
    Err(Error::not_found(T::NOUN, reference))
}

/// The reference as the beginning of an id, where it can be one: with the id's prefix, or its digits alone.
pub fn id_prefix<T: Candidate>(reference: &str) -> Option<String> {
    let lower = reference.to_ascii_lowercase();
    let digits = lower.strip_prefix(T::PREFIX).and_then(|rest| rest.strip_prefix('_'));
    let is_hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match digits {
        Some(digits) if lower.len() >= SHORTEST_PREFIX && is_hexadecimal(digits) => Some(lower),
        None if lower.len() >= SHORTEST_PREFIX && is_hexadecimal(&lower) => Some(format!("{}_{lower}", T::PREFIX)),
        _ => None,
    }
}

fn ambiguous<T: Candidate>(reference: &str, candidates: Vec<&T>) -> Error {
    let count = candidates.len();
    let mut shown: Vec<String> = candidates
        .iter()
        .take(SHOWN_CANDIDATES)
        .map(|it| match it.name() {
            Some(name) => format!("{name} ({})", it.id()),
            None => it.id(),
        })
        .collect();
    if count > SHOWN_CANDIDATES {
        shown.push(format!("and {} more", count - SHOWN_CANDIDATES));
    }
    let ids: Vec<String> = candidates.iter().map(|it| it.id()).collect();
    Error::new(Code::Ambiguous, format!("`{reference}` fits more than one {}: {}", T::NOUN, shown.join(", ")))
        .detail("candidates", ids)
        .suggestion("give more of the id")
}

pub async fn environment(client: &Client, reference: &str) -> Result<Environment> {
    if let Ok(id) = reference.parse::<EnvironmentId>() {
        return Ok(client.get_environment(id).await?.value);
    }
    let listed = |filter: EnvironmentFilter| async move {
        let filter = EnvironmentFilter { scope: Some(ScopeFilter::Any), ..filter };
        let options = ListOptions { limit: Some(MAXIMUM_LIMIT), cursor: None };
        client.list_environments(&filter, &options).await.map(|page| page.items)
    };
    let mut found = listed(EnvironmentFilter { name: Some(reference.to_owned()), ..EnvironmentFilter::default() }).await?;
    if found.is_empty() {
        found = listed(EnvironmentFilter { reference: Some(reference.to_owned()), ..EnvironmentFilter::default() }).await?;
        // The digits of an id alone: the server knows ids with their prefix.
        if let Some(prefix) = id_prefix::<Environment>(reference).filter(|prefix| prefix != reference) {
            let more = listed(EnvironmentFilter { reference: Some(prefix), ..EnvironmentFilter::default() }).await?;
            found.extend(more.into_iter().filter(|it| found.iter().all(|other| other.id != it.id)).collect::<Vec<_>>());
        }
    }
    choose(reference, found).map_err(|error| match error.code() {
        Code::NotFound => error.suggestion("`stead env list` shows what there is").into(),
        _ => error.into(),
    })
}

pub async fn member(client: &Client, reference: &str) -> Result<Member> {
    let members = all(async |options| client.list_members(&options).await).await?;
    Ok(choose(reference, members).map_err(|error| hinted(error, "stead project members list"))?)
}

pub async fn api_key(client: &Client, reference: &str) -> Result<ApiKey> {
    if let Ok(id) = reference.parse() {
        return Ok(client.get_api_key(id).await?);
    }
    let keys = all(async |options| client.list_api_keys(&options).await).await?;
    Ok(choose(reference, keys).map_err(|error| hinted(error, "stead key list"))?)
}

pub async fn sandbox(client: &Client, reference: &str) -> Result<Sandbox> {
    if let Ok(id) = reference.parse() {
        return Ok(client.get_sandbox(id).await?);
    }
    let sandboxes = all(async |options| client.list_sandboxes(&options).await).await?;
    Ok(choose(reference, sandboxes).map_err(|error| hinted(error, "stead sandbox list"))?)
}

pub async fn checkpoint(client: &Client, environment: EnvironmentId, reference: &str) -> Result<Checkpoint> {
    if let Ok(id) = reference.parse() {
        return Ok(client.get_checkpoint(environment, id).await?);
    }
    let checkpoints = all(async |options| client.list_checkpoints(environment, &options).await).await?;
    Ok(choose(reference, checkpoints).map_err(|error| hinted(error, "stead checkpoint list ENVIRONMENT"))?)
}

fn hinted(error: Error, command: &str) -> Error {
    if error.code() == Code::NotFound { error.suggestion(format!("`{command}` shows what there is")) } else { error }
}

/// Every page of a list that the server cannot search for us.
pub async fn all<T>(list: impl AsyncFn(ListOptions) -> stead_client::Result<Page<T>>) -> Result<Vec<T>> {
    let (mut items, mut cursor) = (Vec::new(), None);
    loop {
        let page = list(ListOptions { limit: Some(MAXIMUM_LIMIT), cursor }).await?;
        items.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(items);
        }
    }
}

#[cfg(test)]
#[path = "references_tests.rs"]
mod tests;
