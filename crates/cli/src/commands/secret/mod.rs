//! `stead secret …`.

mod delete;
mod history;
mod list;
mod rotate_key;
mod set;

use std::collections::HashMap;

use stead_client::{Client, ListOptions};
use stead_domain::ids::PrincipalId;

use crate::arguments::secret::SecretCommand;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, command: SecretCommand) -> Result<()> {
    match command {
        SecretCommand::Set(arguments) => set::run(invocation, &arguments).await,
        SecretCommand::List(arguments) => list::run(invocation, &arguments).await,
        SecretCommand::History(arguments) => history::run(invocation, &arguments).await,
        SecretCommand::Delete(arguments) => delete::run(invocation, &arguments).await,
        SecretCommand::RotateKey(arguments) => rotate_key::run(invocation, &arguments).await,
    }
}

/// How people call those who set something. Whoever is no member any more is told by the id.
async fn people(client: &Client, ids: impl Iterator<Item = PrincipalId>) -> HashMap<PrincipalId, String> {
    if ids.count() == 0 {
        return HashMap::new();
    }
    match client.list_members(&ListOptions::default()).await {
        Ok(members) => members.items.into_iter().map(|member| (member.principal_id, member.name)).collect(),
        Err(_) => HashMap::new(),
    }
}
