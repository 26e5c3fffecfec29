//! What somebody is told whose lease is gone: how it ended, what became of the command, and who holds the environment now.

use std::time::Duration;

use stead_client::Client;
use stead_domain::environment::Environment;
use stead_domain::ids::ProcessId;
use stead_domain::lease::{HolderView, LeaseStatus, LeaseView};
use stead_domain::{Code, Error};

use super::vigil::Loss;
use super::words;

/// How long the server is asked for what it knows.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the server knew of it, as far as it could be asked.
pub struct Fate {
    record: Option<LeaseView>,
    now: Option<Environment>,
    /// The command goes on.
    runs: bool,
}

pub async fn look(client: &Client, environment: &Environment, lease: &LeaseView, process: Option<ProcessId>) -> Fate {
    let of_process = async {
        match process {
            Some(process) => client.get_process(environment.id, process).await.is_ok_and(|process| !process.status.is_over()),
            None => false,
        }
    };
    let asked = async { tokio::join!(client.get_lease(lease.id), client.get_environment(environment.id), of_process) };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok((record, now, runs)) => Fate { record: record.ok(), now: now.ok().map(|now| now.value), runs },
        Err(_) => Fate { record: None, now: None, runs: false },
    }
}

impl Fate {
    /// Where the server knows of no loss, it is to be told.
    pub fn is_held(&self) -> bool {
        self.record.as_ref().is_none_or(|record| record.status == LeaseStatus::Active)
    }

    fn ended(&self) -> Option<&LeaseView> {
        self.record.as_ref().filter(|record| record.status != LeaseStatus::Active)
    }

    fn holder(&self, but: &LeaseView) -> Option<&HolderView> {
        self.now.as_ref().and_then(words::holder).filter(|held| held.lease_id != Some(but.id))
    }

    /// Whom it was handed on to. A release stops what runs before it is one, so what still runs under another's lease went along with it
    /// also where no reason says so.
    pub fn handed_on(&self, lease: &LeaseView) -> Option<String> {
        let ended = self.ended().filter(|ended| ended.status == LeaseStatus::Released)?;
        let by_what_runs = || self.holder(lease).filter(|_| self.runs && ended.reason.is_none()).map(|held| held.holder.clone());
        words::successor(ended).map(str::to_owned).or_else(by_what_runs)
    }
}

/// `lease` as it was granted.
pub fn explained(environment: &Environment, lease: &LeaseView, fate: &Fate, process: Option<ProcessId>, loss: Option<&Loss>) -> Error {
    let (name, id) = (&environment.name, lease.id.to_string());
    if let Some(successor) = fate.handed_on(lease) {
        let next = match process {
            Some(process) if fate.runs => format!(
                "the command goes on under {successor}'s lease: `stead logs {process} --follow` shows what it prints, and `stead attach \
                 {process}` comes back to it"
            ),
            Some(process) => format!("`stead logs {process}` shows what the command printed"),
            None => "nothing was started under it; run it again".to_owned(),
        };
        return Error::new(Code::LeaseLost, format!("the lease on environment `{name}` was handed on to {successor}"))
            .detail("lease_id", id)
            .detail("holder", successor)
            .suggestion(next);
    }
    let at_its_end = matches!(loss, Some(Loss::Stop)) && fate.ended().is_none_or(|ended| ended.status != LeaseStatus::Revoked);
    let how = match (fate.ended(), loss) {
        _ if at_its_end => {
            let most = lease.max_expires_in_ms.map(|most| format!(" of {}", words::time(most))).unwrap_or_default();
            format!("its max_lifetime{most} is over")
        }
        (Some(record), _) => words::ended(record),
        (None, Some(Loss::Silence(time))) => format!("no renewal came through for {}", words::time(time.as_millis() as u64)),
        (None, Some(Loss::Slept)) => "this machine slept, and no renewal came through afterwards".to_owned(),
        (None, Some(Loss::Stop)) => "the server said to stop".to_owned(),
        (None, Some(Loss::Told(error))) => error.to_string(),
        (None, None) => "somebody else may hold the environment by now".to_owned(),
    };
    let holder = fate.holder(lease);
    let who = match holder {
        Some(held) => format!("; {} holds it now", words::named(&held.holder, held.note.as_deref())),
        None if fate.now.is_some() => "; nobody else holds it now".to_owned(),
        None => String::new(),
    };
    let mut error = Error::new(Code::LeaseLost, format!("the lease on environment `{name}` was lost: {how}{who}")).detail("lease_id", id);
    if let Some(held) = holder {
        error = error.detail("holder", held.holder.clone());
    }
    let longer = if at_its_end { "with a longer --max-lifetime, which `lease.max_lifetime` of the definition bounds" } else { "again" };
    error.suggestion(match process {
        Some(process) => format!("the command was stopped; `stead logs {process}` shows what it printed, and then run it {longer}"),
        None => format!("nothing was started under it; run it {longer}"),
    })
}
