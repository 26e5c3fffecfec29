//! What requests with an `Idempotency-Key` were answered, so that a repetition has the same outcome.

use stead_domain::Timestamp;

use crate::error::{Result, StoreError};
use crate::unit::Unit;
use crate::value::Value;

/// A request that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub fingerprint: String,
    /// What the request made, also when it was cut off before its reply.
    pub target_id: Option<String>,
    pub reply: Option<StoredReply>,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReply {
    pub status: u16,
    pub body: Vec<u8>,
    /// Encrypted, because it holds a key.
    pub sealed: bool,
}

/// Claims the key for a new request, or gives what is known of the first one. Two at once: the second waits for the first to commit.
pub async fn claim(
    unit: &mut Unit,
    scope: &str,
    key: &str,
    fingerprint: &str,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<Option<Known>> {
    // The first request may give its key back between our two looks; then the key is ours after all.
    for _ in 0..3 {
        match claim_once(unit, scope, key, fingerprint, now, expires_at).await? {
            Claimed::Ours => return Ok(None),
            Claimed::Theirs(known) => return Ok(Some(known)),
            Claimed::GivenBack => {}
        }
    }
    Err(StoreError::Unavailable("an idempotency key changes hands too fast".to_owned()))
}

enum Claimed {
    Ours,
    Theirs(Known),
    GivenBack,
}

async fn claim_once(unit: &mut Unit, scope: &str, key: &str, fingerprint: &str, now: Timestamp, expires_at: Timestamp) -> Result<Claimed> {
    unit.execute("DELETE FROM idempotency WHERE scope = $1 AND key = $2 AND expires_at <= $3", &[scope.into(), key.into(), now.into()])
        .await?;
    let claimed = unit
        .execute(
            "INSERT INTO idempotency (scope, key, fingerprint, sealed, created_at, expires_at) VALUES ($1, $2, $3, 0, $4, $5)
             ON CONFLICT (scope, key) DO NOTHING",
            &[scope.into(), key.into(), fingerprint.into(), now.into(), expires_at.into()],
        )
        .await?;
    if claimed == 1 {
        return Ok(Claimed::Ours);
    }
    let row = unit
        .fetch_optional(
            "SELECT fingerprint, target_id, status, reply, sealed, created_at FROM idempotency WHERE scope = $1 AND key = $2",
            &[scope.into(), key.into()],
        )
        .await?;
    let Some(row) = row else { return Ok(Claimed::GivenBack) };
    let mut row = row.reader();
    let (fingerprint, target_id) = (row.text()?, row.optional_text()?);
    let (status, body, sealed) = (row.optional_integer()?, row.optional_blob()?, row.flag()?);
    let reply = match (status.and_then(|status| u16::try_from(status).ok()), body) {
        (Some(status), Some(body)) => Some(StoredReply { status, body, sealed }),
        _ => None,
    };
    Ok(Claimed::Theirs(Known { fingerprint, target_id, reply, created_at: row.time()? }))
}

/// Whether a key is known, without claiming it.
pub async fn is_known(unit: &mut Unit, scope: &str, key: &str, now: Timestamp) -> Result<bool> {
    let row = unit
        .fetch_optional(
            "SELECT created_at FROM idempotency WHERE scope = $1 AND key = $2 AND expires_at > $3",
            &[scope.into(), key.into(), now.into()],
        )
        .await?;
    Ok(row.is_some())
}

/// Forgets some of those that have expired, and tells how many it were.
pub async fn delete_expired(unit: &mut Unit, now: Timestamp) -> Result<u64> {
    unit.execute(
        "DELETE FROM idempotency WHERE (scope, key) IN (SELECT scope, key FROM idempotency WHERE expires_at <= $1 LIMIT 1000)",
        &[now.into()],
    )
    .await
}

/// Notes what the request is making, before it is made.
pub async fn set_target(unit: &mut Unit, scope: &str, key: &str, target_id: &str) -> Result<()> {
    unit.execute("UPDATE idempotency SET target_id = $3 WHERE scope = $1 AND key = $2", &[scope.into(), key.into(), target_id.into()])
        .await?;
    Ok(())
}

pub async fn set_reply(unit: &mut Unit, scope: &str, key: &str, reply: &StoredReply, expires_at: Timestamp) -> Result<()> {
    unit.execute(
        "UPDATE idempotency SET status = $3, reply = $4, sealed = $5, expires_at = $6 WHERE scope = $1 AND key = $2",
        &[
            scope.into(),
            key.into(),
            i64::from(reply.status).into(),
            Value::Blob(Some(reply.body.clone())),
            reply.sealed.into(),
            expires_at.into(),
        ],
    )
    .await?;
    Ok(())
}

pub async fn delete(unit: &mut Unit, scope: &str, key: &str) -> Result<()> {
    unit.execute("DELETE FROM idempotency WHERE scope = $1 AND key = $2", &[scope.into(), key.into()]).await?;
    Ok(())
}

/// Forgets the sealed replies of requests before a time; that they were made stays known.
pub async fn wipe_sealed(unit: &mut Unit, before: Timestamp) -> Result<u64> {
    unit.execute(
        "UPDATE idempotency SET reply = NULL, status = NULL WHERE sealed = 1 AND reply IS NOT NULL AND created_at < $1",
        &[before.into()],
    )
    .await
}
