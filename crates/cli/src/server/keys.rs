//! The master key and the store belong together: a server that has another key than the store was sealed with does not start.

use std::sync::Arc;

use stead_app::Sealer;
use stead_app::secrets::SIGNING_KEY_BELONGS_TO;
use stead_domain::{Code, Context, Error, Result, hexadecimal};
use stead_secrets::{Envelope, KeySource, Keyring, Sealing, SigningKey, key_error};
use stead_store::{Store, secrets, settings};

use super::configuration::Configuration;

pub async fn sealer(configuration: &Configuration, store: &Store, context: &Context) -> Result<Arc<dyn Sealer>> {
    let source = configuration.key_source.clone();
    let loading = source.clone();
    // A command may take its time.
    let found = tokio::task::spawn_blocking(move || loading.load()).await.map_err(Error::internal)?.map_err(key_error)?;
    let (sealed_with, kept) = store
        .read(|unit| {
            Box::pin(async move { Ok::<_, Error>((settings::get(unit, settings::MASTER_KEY).await?, secrets::count(unit).await?)) })
        })
        .await?;
    // Where this server is alone with its store and nothing in it needs the key, a new one does no harm.
    let may_replace = configuration.abandon_secrets || (kept == 0 && configuration.database.is_none() && found.is_none());
    let ring = match (found, &sealed_with) {
        (Some(ring), None) => ring,
        (Some(ring), Some(id)) if ring.holds(id) => ring,
        (Some(ring), Some(_)) if configuration.abandon_secrets => {
            abandon(store, &ring).await?;
            ring
        }
        (Some(ring), Some(id)) => return Err(wrong(&source, &ring, id, kept)),
        (None, Some(id)) if !may_replace => return Err(missing(&source, id, kept)),
        (None, sealed_with) => {
            let ring = source.create(context).map_err(key_error)?.ok_or_else(|| Error::internal("there is no master key"))?;
            if sealed_with.is_some() {
                abandon(store, &ring).await?;
            }
            ring
        }
    };
    // Which key seals is said by the store: to give another one first is not yet to change to it.
    let ring = sealed_with.as_deref().and_then(|id| ring.sealing_with(id)).unwrap_or(ring);
    let own = ring.active.id().to_string();
    let first = SigningKey::first(&ring.active);
    let envelope = Envelope::new(ring.clone(), context.clone());
    let sealed = hexadecimal::write(&envelope.seal(SIGNING_KEY_BELONGS_TO, first.bytes()).map_err(Error::internal)?);
    // Two servers may begin with an empty database at the same moment: what the first wrote counts.
    let (sealed_with, signing) = store
        .write(move |unit| {
            Box::pin(async move {
                let id = settings::get_or_set(unit, settings::MASTER_KEY, &own).await?;
                let signing = if id == own { settings::get_or_set(unit, settings::SIGNING_KEY, &sealed).await? } else { String::new() };
                let signing =
                    if signing.is_empty() { settings::get(unit, settings::SIGNING_KEY).await?.unwrap_or_default() } else { signing };
                Ok::<_, Error>((id, signing))
            })
        })
        .await?;
    let ring = ring.sealing_with(&sealed_with).ok_or_else(|| wrong(&source, &ring, &sealed_with, kept))?;
    let signing = hexadecimal::read(&signing).and_then(|sealed| envelope.open(SIGNING_KEY_BELONGS_TO, &sealed).ok());
    let signing = signing.as_deref().and_then(SigningKey::from_bytes).ok_or_else(|| {
        Error::new(Code::MasterKeyMismatch, "the signing key in the store cannot be opened with the master key")
            .suggestion("restore the store from a backup: it was changed by something else than Stead")
    })?;
    Ok(Arc::new(Sealing::new(ring, &signing, source, context.clone())))
}

/// Gives up what only another key opens.
async fn abandon(store: &Store, ring: &Keyring) -> Result<()> {
    let own = ring.active.id().to_string();
    let lost: u64 = store
        .write(move |unit| {
            Box::pin(async move {
                let lost = secrets::abandon(unit).await?;
                settings::remove(unit, settings::SIGNING_KEY).await?;
                settings::set(unit, settings::MASTER_KEY, &own).await?;
                Ok::<_, Error>(lost)
            })
        })
        .await?;
    tracing::warn!(lost, "the store is used with another master key from now on: secrets that were in it have to be set again");
    Ok(())
}

fn wrong(source: &KeySource, ring: &Keyring, id: &str, kept: u64) -> Error {
    let message = format!("{} holds the master key {}, and what is in the store was sealed with {id}", source.describe(), ring.active.id());
    Error::new(Code::MasterKeyMismatch, message).suggestion(advice(kept))
}

fn missing(source: &KeySource, id: &str, kept: u64) -> Error {
    Error::new(
        Code::MasterKeyMismatch,
        format!("what is in the store was sealed with the master key {id}, and {} is not there", source.describe()),
    )
    .suggestion(advice(kept))
}

fn advice(kept: u64) -> String {
    format!(
        "put that key there: every server on one database has the same, and a backup holds none; \
         if it is lost, start once with `stead serve --abandon-secrets`, which gives up {kept} secrets"
    )
}
