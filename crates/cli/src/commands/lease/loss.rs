//! What somebody is told whose lease is gone: how it ended, and who holds the environment now.

use std::time::Duration;

use stead_client::Client;
use stead_domain::environment::Environment;
use stead_domain::ids::{LeaseId, ProcessId};
use stead_domain::lease::LeaseStatus;
use stead_domain::{Code, Error};

use super::vigil::Loss;
use super::words;

/// How long the server is asked for what it knows.
const PATIENCE: Duration = Duration::from_secs(5);

pub async fn explained(
    client: &Client,
    environment: &Environment,
    lease: LeaseId,
    process: Option<ProcessId>,
    loss: Option<&Loss>,
) -> Error {
    let asked = async { tokio::join!(client.get_lease(lease), client.get_environment(environment.id)) };
    let (record, now) = match tokio::time::timeout(PATIENCE, asked).await {
        Ok((record, now)) => (record.ok(), now.ok().map(|now| now.value)),
        Err(_) => (None, None),
    };
    let how = match (record.filter(|record| record.status != LeaseStatus::Active), loss) {
        (Some(record), _) => words::ended(&record),
        (None, Some(Loss::Silence(time))) => format!("no renewal came through for {}", words::time(time.as_millis() as u64)),
        (None, Some(Loss::Slept)) => "this machine slept, and no renewal came through afterwards".to_owned(),
        (None, Some(Loss::Stop)) => "the server said to stop".to_owned(),
        (None, Some(Loss::Told(error))) => error.to_string(),
        (None, None) => "somebody else may hold the environment by now".to_owned(),
    };
    let holder = now.as_ref().and_then(words::holder).filter(|held| held.lease_id != Some(lease));
    let who = match holder {
        Some(held) => format!("; {} holds it now", words::named(&held.holder, held.note.as_deref())),
        None if now.is_some() => "; nobody else holds it now".to_owned(),
        None => String::new(),
    };
    let mut error = Error::new(Code::LeaseLost, format!("the lease on environment `{}` was lost: {how}{who}", environment.name))
        .detail("lease_id", lease.to_string());
    if let Some(held) = holder {
        error = error.detail("holder", held.holder.clone());
    }
    error.suggestion(match process {
        Some(process) => format!("the command was stopped; `stead logs {process}` shows what it printed, and then run it again"),
        None => "nothing was started under it; run it again".to_owned(),
    })
}
