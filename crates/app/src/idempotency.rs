//! The same request twice has one outcome. A key is claimed in the unit that makes the change, so that neither can be without the other.

use std::time::Duration;

use serde::Serialize;
use stead_domain::principal::Caller;
use stead_domain::{Code, Context, Error, Result, Timestamp, hexadecimal};
use stead_store::Unit;
use stead_store::idempotency::{self, StoredReply};

use crate::{App, Sealer};

/// How long a key is remembered.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// How long a reply that holds a credential is told again.
pub(crate) const TOLD_AGAIN: Duration = Duration::from_secs(600);
/// How far ahead of us the first request may have looked at its clock: we looked before we waited for it, or another host did.
const SKEW: Duration = Duration::from_secs(60);

/// What a use case answers: something new, or what the first request with this key was answered.
#[derive(Debug)]
pub enum Outcome<T> {
    New(T),
    Again(Reply),
}

/// A reply as it was sent.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
}

pub(crate) enum Claim {
    /// This is the first request, or one without a key.
    New,
    /// The first was answered like this.
    Answered(Reply),
    /// The first was cut off, or is still under way; this is what it makes.
    Unfinished(Option<String>),
}

/// Whose words a key is among: one principal's, in one project. A handle may come to name another project; its id never does.
fn scope(caller: &Caller) -> String {
    match caller.let_into {
        Some((project, _)) => format!("{}/{project}", caller.principal),
        None => caller.principal.to_string(),
    }
}

/// What keeps two requests with one key apart within this server.
pub(crate) fn lock_key(caller: &Caller) -> Option<String> {
    caller.idempotency.as_ref().map(|given| belongs_to(&scope(caller), &given.key))
}

/// Whether the caller's key was used before. Nothing is claimed by asking.
pub(crate) async fn is_known(unit: &mut Unit, caller: &Caller, now: Timestamp) -> Result<bool> {
    match &caller.idempotency {
        Some(given) => Ok(idempotency::is_known(unit, &scope(caller), &given.key, now).await?),
        None => Ok(false),
    }
}

/// Claims the caller's key, if it brought one.
pub(crate) async fn claim(unit: &mut Unit, context: &Context, sealer: &dyn Sealer, caller: &Caller) -> Result<Claim> {
    let Some(given) = &caller.idempotency else { return Ok(Claim::New) };
    let now = context.now();
    let scope = scope(caller);
    // With a key of ours: a request may hold what could be guessed from its plain hash.
    let fingerprint = hexadecimal::write(&sealer.sign(format!("fingerprint/{}", given.fingerprint).as_bytes())?);
    let known = idempotency::claim(unit, &scope, &given.key, &fingerprint, now, now.plus(REMEMBERED)).await?;
    let Some(known) = known else { return Ok(Claim::New) };
    // The plain one was kept by a version before.
    if known.fingerprint != fingerprint && known.fingerprint != given.fingerprint {
        return Err(Error::new(Code::IdempotencyMismatch, "this Idempotency-Key was used before with another request")
            .suggestion("use a new key for a new request, and the same key only to repeat one unchanged"));
    }
    match known.reply {
        None => Ok(Claim::Unfinished(known.target_id)),
        // Told again for ten minutes, and only by a server that holds the key it was sealed with.
        Some(reply) if reply.sealed => match sealer.open(belongs_to(&scope, &given.key).as_bytes(), &reply.body) {
            Ok(body) if known.created_at <= now.plus(SKEW) && now.since(known.created_at) < TOLD_AGAIN => {
                Ok(Claim::Answered(Reply { status: reply.status, body }))
            }
            _ => Ok(Claim::Unfinished(known.target_id)),
        },
        Some(reply) => Ok(Claim::Answered(Reply { status: reply.status, body: reply.body })),
    }
}

fn belongs_to(scope: &str, key: &str) -> String {
    format!("idempotency/{scope}/{key}")
}

/// Notes what the request makes, before it is made, so that a repetition after a crash finds it.
pub(crate) async fn note_target(unit: &mut Unit, caller: &Caller, target: &str) -> Result<()> {
    if let Some(given) = &caller.idempotency {
        idempotency::set_target(unit, &scope(caller), &given.key, target).await?;
    }
    Ok(())
}

/// Keeps the reply for repetitions.
pub(crate) async fn answer(unit: &mut Unit, context: &Context, caller: &Caller, status: u16, body: &impl Serialize) -> Result<()> {
    let Some(given) = &caller.idempotency else { return Ok(()) };
    let body = serde_json::to_vec(body).map_err(Error::internal)?;
    let reply = StoredReply { status, body, sealed: false };
    idempotency::set_reply(unit, &scope(caller), &given.key, &reply, context.now().plus(REMEMBERED)).await?;
    Ok(())
}

/// Keeps a reply that holds a credential: encrypted, and wiped after ten minutes.
pub(crate) async fn answer_sealed(
    unit: &mut Unit,
    context: &Context,
    sealer: &dyn Sealer,
    caller: &Caller,
    status: u16,
    body: &impl Serialize,
) -> Result<()> {
    let Some(given) = &caller.idempotency else { return Ok(()) };
    let scope = scope(caller);
    let plain = serde_json::to_vec(body).map_err(Error::internal)?;
    let body = sealer.seal(belongs_to(&scope, &given.key).as_bytes(), &plain)?;
    let reply = StoredReply { status, body, sealed: true };
    idempotency::set_reply(unit, &scope, &given.key, &reply, context.now().plus(REMEMBERED)).await?;
    Ok(())
}

/// Gives a key back after a failure, so that the same request may be tried again.
pub(crate) async fn give_back(unit: &mut Unit, caller: &Caller) -> Result<()> {
    if let Some(given) = &caller.idempotency {
        idempotency::delete(unit, &scope(caller), &given.key).await?;
    }
    Ok(())
}

/// Wipes sealed replies that have been told again for long enough.
pub(crate) async fn wipe_sealed(unit: &mut Unit, now: Timestamp) -> Result<u64> {
    Ok(idempotency::wipe_sealed(unit, now.minus(TOLD_AGAIN)).await?)
}

/// What a repetition hears when the first request is still under way.
pub(crate) fn in_progress() -> Error {
    Error::new(Code::IdempotencyInProgress, "the first request with this Idempotency-Key has not ended yet")
        .suggestion("repeat it in a second")
}

impl App {
    /// Runs what does no harm when it is repeated, and answers a repetition like the first request all the same.
    pub async fn once<T: Serialize>(&self, caller: &Caller, work: impl Future<Output = Result<T>>) -> Result<Outcome<T>> {
        self.once_or_again(caller, |_| work).await
    }

    /// The same, for work that is told whether an earlier request with the same key was cut off: that one may have done all of it or a part.
    pub(crate) async fn once_or_again<T: Serialize, F: Future<Output = Result<T>>>(
        &self,
        caller: &Caller,
        work: impl FnOnce(bool) -> F,
    ) -> Result<Outcome<T>> {
        if caller.idempotency.is_none() {
            return work(false).await.map(Outcome::New);
        }
        let (context, sealer, claimant) = (self.context.clone(), self.sealer.clone(), caller.clone());
        let claim = self.store.write(move |unit| Box::pin(async move { claim(unit, &context, &*sealer, &claimant).await })).await?;
        let claim = match claim {
            Claim::Answered(reply) => return Ok(Outcome::Again(reply)),
            claim => claim,
        };
        let outcome = work(matches!(claim, Claim::Unfinished(_))).await;
        let body = outcome.as_ref().ok().map(serde_json::to_value).transpose().map_err(Error::internal)?;
        let (context, claimant) = (self.context.clone(), caller.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    match body {
                        Some(body) => answer(unit, &context, &claimant, 200, &body).await,
                        None => give_back(unit, &claimant).await,
                    }
                })
            })
            .await?;
        outcome.map(Outcome::New)
    }
}
