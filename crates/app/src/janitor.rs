//! The janitor compares what the rows say with what the providers have, in both directions. Nothing is removed or given up on one sighting, but
//! what is empty and was never recorded.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use stead_domain::host::Host;
use stead_domain::ids::{ProcessId, SandboxId};
use stead_domain::provider::ProviderName;
use stead_domain::sandbox::SandboxStatus;
use stead_domain::{Error, Result, Timestamp};
use stead_store::{environments, hosts, idempotency, sandboxes, settings};

use crate::App;
use crate::provider::{Listed, Provider};
use crate::reconcile::mark_presence;

const EVERY: Duration = Duration::from_secs(60);
const HEARTBEAT: Duration = Duration::from_secs(10);

/// What was seen once and is acted on when it is seen again.
#[derive(Default)]
pub struct Sightings {
    /// At the provider, but no live row.
    strangers: HashSet<SandboxId>,
    /// A live row, but not at the provider.
    missing: HashSet<SandboxId>,
    /// Runs, but has no row.
    processes: HashSet<ProcessId>,
}

impl App {
    /// Says every few seconds that this host is there.
    pub(crate) async fn run_heartbeat(&self) {
        let started_at = self.since;
        loop {
            let host = Host {
                id: self.host,
                address: self.settings.address.clone(),
                version: self.settings.version.to_owned(),
                started_at,
                heartbeat_at: self.context.now(),
            };
            let beat: Result<()> = self.store.write(move |unit| Box::pin(async move { Ok(hosts::beat(unit, &host).await?) })).await;
            if let Err(error) = beat {
                tracing::warn!(%error, cause = error.internal_cause(), "the heartbeat could not be written");
            }
            if !self.pause(HEARTBEAT).await {
                return;
            }
        }
    }

    pub(crate) async fn run_janitor(&self) {
        for provider in self.providers.all().filter(|provider| provider.is_made_at_once()) {
            if let Err(error) = self.remove_unrecorded(&**provider).await {
                tracing::warn!(provider = %provider.name(), %error, "what the last server left unrecorded is looked at later");
            }
        }
        if let Err(error) = self.drop_layers(&[]).await {
            tracing::warn!(%error, "layers that the last server left are removed later");
        }
        if let Err(error) = self.bring_the_rest_to_disk().await {
            tracing::warn!(%error, "checkpoints that the last server left are brought to the disk later");
        }
        let mut sightings = HashMap::new();
        loop {
            if !self.pause(EVERY).await {
                return;
            }
            self.sweep(&mut sightings).await;
            let now = self.context.now();
            let forgotten: Result<u64> =
                self.store.write(move |unit| Box::pin(async move { Ok(idempotency::delete_expired(unit, now).await?) })).await;
            if let Err(error) = forgotten {
                tracing::warn!(%error, "expired idempotency keys could not be forgotten");
            }
            if let Err(error) = self.forget_old_processes().await {
                tracing::warn!(%error, "old processes could not be forgotten");
            }
            if let Err(error) = self.unnamed_images(true).await {
                tracing::warn!(%error, "images that no definition names could not be removed");
            }
            if let Err(error) = self.make_due_checkpoints().await {
                tracing::warn!(%error, "checkpoints that are due could not be made");
            }
            if let Err(error) = self.bring_the_rest_to_disk().await {
                tracing::warn!(%error, "checkpoints could not be brought to the disk");
            }
            if let Err(error) = self.drop_layers(&[]).await {
                tracing::warn!(%error, "layers that nobody needs could not be removed");
            }
            if let Err(error) = self.bound_output().await {
                tracing::warn!(%error, "output beyond the bound could not be removed");
            }
        }
    }

    /// One sweep over every provider.
    pub async fn sweep(&self, sightings: &mut HashMap<ProviderName, Sightings>) {
        for provider in self.providers.all() {
            if let Err(error) = self.sweep_provider(&**provider, sightings.entry(provider.name()).or_default()).await {
                tracing::warn!(provider = %provider.name(), %error, "a sweep could not be finished");
            }
        }
    }

    async fn sweep_provider(&self, provider: &dyn Provider, sightings: &mut Sightings) -> Result<()> {
        // Rows first: what is made between the two looks then only seems a stranger, and is a row at the second sighting.
        let rows = self.rows_of(provider).await?;
        let listed = provider.list().await?;
        let restored_at = self.restored_at().await?;
        let known: HashMap<SandboxId, SandboxStatus> = rows.iter().copied().collect();

        let mut strangers = HashSet::new();
        for entry in &listed {
            if known.contains_key(&entry.sandbox) {
                continue;
            }
            if restored_at.is_some_and(|restored_at| entry.sandbox.made_at() <= restored_at) {
                // Made after the backup that was restored: no row knows it, and it may hold somebody's work. `prune` removes it when asked.
                continue;
            }
            if sightings.strangers.contains(&entry.sandbox) {
                if let Err(error) = self.remove_stranger(provider, entry.sandbox, &entry.resource_id).await {
                    tracing::warn!(sandbox = %entry.sandbox, %error, "what no row knows could not be removed yet");
                }
            } else {
                strangers.insert(entry.sandbox);
            }
        }
        let present: HashSet<SandboxId> = listed.iter().map(|entry| entry.sandbox).collect();
        let mut missing = HashSet::new();
        for (id, status) in rows {
            if !matches!(status, SandboxStatus::Ready | SandboxStatus::Stopped | SandboxStatus::Orphaned) {
                continue;
            }
            let there = present.contains(&id);
            if there == (status != SandboxStatus::Orphaned) {
                continue;
            }
            if there || sightings.missing.contains(&id) {
                let context = self.context.clone();
                self.store.write(move |unit| Box::pin(async move { mark_presence(unit, &context, id, there, None).await })).await?;
            } else {
                missing.insert(id);
            }
        }
        let processes = self.sweep_processes(provider, &sightings.processes, restored_at).await?;
        *sightings = Sightings { strangers, missing, processes };
        Ok(())
    }

    /// Removes at once what a server had made when it was killed and could not record any more. Nothing ever ran in it, so one look is enough.
    async fn remove_unrecorded(&self, provider: &dyn Provider) -> Result<()> {
        let known: HashSet<SandboxId> = self.rows_of(provider).await?.into_iter().map(|(id, _)| id).collect();
        let restored_at = self.restored_at().await?;
        for Listed { sandbox, .. } in provider.list().await? {
            if known.contains(&sandbox) || restored_at.is_some_and(|restored_at| sandbox.made_at() <= restored_at) {
                continue;
            }
            // Whoever holds this is making it, and its row comes next.
            let Some(_guard) = self.locks.try_lock(&sandbox.to_string()) else { continue };
            if !self.is_recorded(sandbox).await? && provider.discard_unused(sandbox).await? {
                tracing::info!(%sandbox, provider = %provider.name(), "removed what was made and never recorded");
            }
        }
        Ok(())
    }

    /// When a backup was last put in place of what was there.
    pub(crate) async fn restored_at(&self) -> Result<Option<Timestamp>> {
        let text =
            self.store.read(|unit| Box::pin(async move { Ok::<_, Error>(settings::get(unit, settings::RESTORED_AT).await?) })).await?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    /// What a restore left without a row at the providers of this host; with `remove`, it goes.
    pub(crate) async fn unknown_since_restore(&self, remove: bool) -> Result<u64> {
        let Some(restored_at) = self.restored_at().await? else { return Ok(0) };
        let mut count = if remove { self.drop_layers_but(&[], |_| false).await? } else { self.unknown_layers().await? };
        for provider in self.providers.all() {
            let known: HashSet<SandboxId> = self.rows_of(&**provider).await?.into_iter().map(|(id, _)| id).collect();
            for entry in provider.list().await? {
                if !known.contains(&entry.sandbox) && entry.sandbox.made_at() <= restored_at {
                    count += 1;
                    if remove {
                        self.remove_stranger(&**provider, entry.sandbox, &entry.resource_id).await?;
                    }
                }
            }
        }
        Ok(count)
    }

    /// How many images no live definition names; with `remove`, they go, but for those that are in use.
    pub(crate) async fn unnamed_images(&self, remove: bool) -> Result<u64> {
        let mut count = 0;
        for provider in self.providers.all() {
            // Images first: one that a definition names meanwhile was wanted lately, and is not among them.
            let kept = provider.images().await?;
            if kept.is_empty() {
                continue;
            }
            let named =
                self.store.read(|unit| Box::pin(async move { Ok::<_, Error>(environments::digests_of_images(unit).await?) })).await?;
            for digest in kept.iter().filter(|digest| !named.iter().any(|name| name.eq_ignore_ascii_case(digest))) {
                if !remove || provider.remove_image(digest).await? {
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    /// Every live row that this provider, on this host, answers for.
    async fn rows_of(&self, provider: &dyn Provider) -> Result<Vec<(SandboxId, SandboxStatus)>> {
        let (name, host) = (provider.name(), provider.host());
        // Only what is compared: there may be very many.
        let mut rows: Vec<(SandboxId, SandboxStatus)> = Vec::new();
        loop {
            let after = rows.last().map(|(id, _)| *id);
            let page = self
                .store
                .read(move |unit| Box::pin(async move { Ok::<_, Error>(sandboxes::of_host(unit, name, host, after).await?) }))
                .await?;
            if page.is_empty() {
                return Ok(rows);
            }
            rows.extend(page.into_iter().map(|sandbox| (sandbox.id, sandbox.status)));
        }
    }

    async fn remove_stranger(&self, provider: &dyn Provider, id: SandboxId, resource_id: &str) -> Result<()> {
        // Whoever holds this is making it, and its row comes next.
        match self.locks.try_lock(&id.to_string()) {
            Some(_guard) => self.remove_unknown(provider, id, Some(resource_id)).await,
            None => Ok(()),
        }
    }

    /// Removes what carries our label and has no live row. Looked up once more by itself: two lists are from different moments.
    pub(crate) async fn remove_unknown(&self, provider: &dyn Provider, id: SandboxId, resource_id: Option<&str>) -> Result<()> {
        if !self.is_recorded(id).await? {
            tracing::info!(sandbox = %id, provider = %provider.name(), "removing what no row knows");
            provider.destroy(id, resource_id).await?;
        }
        Ok(())
    }

    async fn is_recorded(&self, id: SandboxId) -> Result<bool> {
        self.store
            .read(move |unit| {
                Box::pin(async move {
                    let row = sandboxes::find(unit, id).await?;
                    let used = !environments::of_sandbox(unit, id).await?.is_empty();
                    Ok::<_, Error>(used || row.is_some_and(|row| row.destroyed_at.is_none()))
                })
            })
            .await
    }
}
