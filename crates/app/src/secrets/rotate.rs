//! Another master key. Every value is wrapped anew while everything goes on; whoever is cut off in the middle has both keys, and the next start
//! goes on from there.

use std::sync::Arc;
use std::time::Duration;

use stead_domain::hexadecimal;
use stead_domain::ids::SecretId;
use stead_domain::principal::Caller;
use stead_domain::secret::KeyRotation;
use stead_domain::{Error, Result};
use stead_store::{Unit, hosts, secrets, settings};

use super::{belongs_to, other_key};
use crate::audit::{Act, record};
use crate::{App, Sealer};

/// What the signing key is sealed for.
pub const SIGNING_KEY_BELONGS_TO: &[u8] = b"signing_key";

/// Whoever was not heard of for so long is gone.
const RECENTLY: Duration = Duration::from_secs(60);

impl App {
    pub async fn rotate_master_key(&self, caller: &Caller) -> Result<KeyRotation> {
        let (app, caller) = (self.clone(), caller.clone());
        self.detached(async move {
            let _one_at_a_time = app.locks.lock("master key").await;
            app.follow_key().await?;
            let previous_key_id = app.sealer.key_id();
            let sealer = Arc::clone(&app.sealer);
            // A command may take its time to say the next key.
            tokio::task::spawn_blocking(move || sealer.next_key()).await.map_err(Error::internal)??;
            app.take_over(&previous_key_id, &caller).await?;
            let (rewrapped, lost) = app.finish_key_rotation().await?;
            let mut warnings = Vec::new();
            if lost > 0 {
                warnings.push(format!("{lost} secrets cannot be opened with any key at hand: set them again, or delete them"));
            }
            let others = app.other_hosts().await?;
            if others > 0 {
                warnings.push(format!("{others} other servers use this database: give them the new key, and start them again"));
            }
            Ok(KeyRotation { key_id: app.sealer.key_id(), previous_key_id, rewrapped, warnings })
        })
        .await
    }

    /// Wraps everything with the key that seals now, and tells how much that was, and how much no key at hand opens. It may be repeated.
    pub async fn finish_key_rotation(&self) -> Result<(u64, u64)> {
        let key_id = self.sealer.key_id();
        let (mut rewrapped, mut lost, mut after) = (0, 0, None);
        loop {
            let (sealer, key_id) = (Arc::clone(&self.sealer), key_id.clone());
            let done = self.store.write(move |unit| Box::pin(async move { rewrap_some(unit, &*sealer, &key_id, after).await })).await?;
            rewrapped += done.rewrapped;
            lost += done.lost;
            after = done.last;
            if after.is_none() {
                break;
            }
        }
        // Whatever only an older key opens needs that key.
        if lost == 0 {
            self.sealer.forget_older_keys()?;
        }
        Ok((rewrapped, lost))
    }

    /// The store is sealed with another key from here on, and whoever seals something with the one before comes before or not at all.
    async fn take_over(&self, previous: &str, caller: &Caller) -> Result<()> {
        let (context, sealer, caller) = (self.context.clone(), Arc::clone(&self.sealer), caller.clone());
        let (key_id, previous) = (self.sealer.key_id(), previous.to_owned());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let stored = settings::get_locked(unit, settings::MASTER_KEY).await?;
                    if let Some(stored) = stored.filter(|stored| *stored != previous) {
                        return Err(other_key(&stored, &previous));
                    }
                    if let Some(sealed) = settings::get(unit, settings::SIGNING_KEY).await? {
                        let sealed = hexadecimal::read(&sealed).ok_or_else(|| Error::internal("the signing key is damaged"))?;
                        let again = sealer.rewrap(SIGNING_KEY_BELONGS_TO, &sealed)?;
                        settings::set(unit, settings::SIGNING_KEY, &hexadecimal::write(&again)).await?;
                    }
                    settings::set(unit, settings::MASTER_KEY, &key_id).await?;
                    for project in secrets::projects(unit).await? {
                        let details = vec![("key_id", key_id.clone().into()), ("previous_key_id", previous.clone().into())];
                        let act =
                            Act { project, action: "system.rotate_key", target_type: "project", target_id: project.to_string(), details };
                        record(unit, &context, &caller, act).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Another server may have changed the key: what seals the store seals here too, where this server has it or is given it.
    pub(crate) async fn follow_key(&self) -> Result<()> {
        let own = self.sealer.key_id();
        let Some(stored) = self.stored_key_id().await?.filter(|stored| *stored != own) else { return Ok(()) };
        let (sealer, wanted) = (Arc::clone(&self.sealer), stored.clone());
        match tokio::task::spawn_blocking(move || sealer.use_key(&wanted)).await.map_err(Error::internal)? {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(other_key(&stored, &own)),
        }
    }

    /// How many others answered lately.
    async fn other_hosts(&self) -> Result<usize> {
        let hosts = self.store.read(|unit| Box::pin(async move { Ok::<_, Error>(hosts::list(unit).await?) })).await?;
        let now = self.context.now();
        Ok(hosts.iter().filter(|host| host.id != self.host && now.since(host.heartbeat_at) < RECENTLY).count())
    }

    async fn stored_key_id(&self) -> Result<Option<String>> {
        self.store.read(|unit| Box::pin(async move { Ok::<_, Error>(settings::get(unit, settings::MASTER_KEY).await?) })).await
    }
}

struct Rewrapped {
    rewrapped: u64,
    /// Those that no key at hand opens.
    lost: u64,
    /// Where to go on; none at the end.
    last: Option<SecretId>,
}

async fn rewrap_some(unit: &mut Unit, sealer: &dyn Sealer, key_id: &str, after: Option<SecretId>) -> Result<Rewrapped> {
    let some = secrets::sealed_by_others(unit, key_id, after).await?;
    let mut done = Rewrapped { rewrapped: 0, lost: 0, last: some.last().map(|present| present.secret.id) };
    for present in &some {
        let secret = &present.secret;
        let whose = belongs_to(secret.project_id, &secret.name, secret.id, secret.version);
        match sealer.rewrap(&whose, &present.sealed) {
            Ok(again) => {
                secrets::rewrap(unit, secret.id, secret.version, &again, key_id).await?;
                done.rewrapped += 1;
            }
            Err(_) => done.lost += 1,
        }
    }
    Ok(done)
}
