//! How it stands with what an acquisition came to: the lease with its token, or the ticket for it.

use stead_domain::environment::Environment;
use stead_domain::ids::{LeaseId, ProjectId};
use stead_domain::lease::{AcquireReply, LeaseMode, LeaseRecord, LeaseView, Moment, TicketView};
use stead_domain::{Code, Error, Result, api_key};
use stead_store::{Unit, environments, leases, tickets};

use super::Office;
use super::deciding::token_of;
use super::view::{Names, add_holders, hold, previous, ticket_view, view};
use crate::{App, Entered};

/// What was read of it, in one unit.
pub(super) enum Standing {
    Lease { record: Box<LeaseRecord>, shown: Box<LeaseView>, environment: Option<Box<Environment>> },
    Ticket(Box<TicketView>),
    Unknown,
}

/// Reads it: by whoever asks for it, and in the unit that granted it by whoever is told so, who then need not read it again. `known` is
/// what the decision before it knew: the time, and who shares the sandbox.
pub(super) async fn standing_in(
    unit: &mut Unit,
    office: &Office,
    project: ProjectId,
    lease: LeaseId,
    known: Option<(Moment, Vec<Environment>)>,
) -> Result<Standing> {
    let Some(record) = leases::find_in(unit, project, lease).await? else {
        return Ok(match tickets::of_lease(unit, lease).await? {
            Some(ticket) => Standing::Ticket(Box::new(ticket_view(unit, &ticket).await?)),
            None => Standing::Unknown,
        });
    };
    let (now, sharers) = match known {
        Some(known) => known,
        None => (unit.moment().await?, Vec::new()),
    };
    let mut names = Names::default();
    let mut shown = view(unit, &office.context, &mut names, &record, now).await?;
    shown.previous = previous(unit, &mut names, &record).await?;
    let id = record.of.environment_id;
    let mut environment = match sharers.into_iter().find(|environment| environment.id == id) {
        Some(environment) => Some(environment),
        None => environments::find(unit, project, id).await?,
    };
    if let Some(environment) = &mut environment {
        if record.lease.mode == LeaseMode::Exclusive && record.end.is_none() {
            // Who holds it is this one.
            hold(environment, &record, shown.holder.clone(), shown.expires_in_ms, &office.context);
        } else {
            add_holders(unit, &office.context, std::slice::from_mut(environment)).await?;
        }
    }
    Ok(Standing::Lease { record: Box::new(record), shown: Box::new(shown), environment: environment.map(Box::new) })
}

impl App {
    pub(super) async fn as_it_stands(&self, entered: &Entered, lease: LeaseId) -> Result<AcquireReply> {
        let (office, project) = (self.office(), entered.project);
        let standing =
            self.store.glance(move |unit| Box::pin(async move { standing_in(unit, &office, project, lease, None).await })).await?;
        self.told(lease, standing).await
    }

    /// What the caller is told of it.
    pub(super) async fn told(&self, lease: LeaseId, standing: Standing) -> Result<AcquireReply> {
        let (record, mut shown, environment) = match standing {
            Standing::Lease { record, shown, environment } => (record, shown, environment),
            Standing::Ticket(ticket) => {
                return Ok(AcquireReply { environment: None, lease: None, items: Vec::new(), ticket: Some(*ticket) });
            }
            Standing::Unknown => return Err(super::held::unknown(lease)),
        };
        if let Some(end) = record.end {
            return Err(Error::new(Code::LeaseLost, format!("the lease that this request came to has ended: {} at {}", end.how, end.at))
                .detail("lease_id", lease.to_string())
                .detail("ended", end.how.as_str())
                .suggestion("acquire the environment anew, with a new Idempotency-Key"));
        }
        let token = token_of(&self.office(), lease)?;
        if record.token_hash.as_deref() != Some(&api_key::hash(&token.0)) {
            return Err(Error::new(Code::Conflict, "the lease was given out by a server with another key, which alone can tell its token")
                .suggestion("repeat the request at that server"));
        }
        shown.token = Some(token);
        let environment = environment.ok_or_else(|| crate::environments::unknown(record.of.environment_id))?;
        let environment = self.with_place(self.dress(*environment)).await?;
        Ok(AcquireReply { environment: Some(environment), lease: Some(*shown), items: Vec::new(), ticket: None })
    }
}
