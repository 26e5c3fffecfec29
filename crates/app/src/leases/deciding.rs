//! One decision: the sandbox is locked, the clock is read, the rules are asked, and what follows is written in the same unit.

use stead_domain::environment::Environment;
use stead_domain::ids::{LeaseId, SandboxId};
use stead_domain::lease::{
    self, Answer, Desk, Effect, EndRecord, Event, LeaseEnd, Refusal, Rules, Seen, TicketStatus, Whereabouts, decide,
};
use stead_domain::principal::Caller;
use stead_domain::{Error, Result, api_key};
use stead_store::{Unit, desks, environments, leases, tickets};

use super::Office;
use super::underway::{Identity, Quiet};
use crate::audit::{Act, record, record_after, record_own};

/// An event, with what the rules need not know of it.
#[derive(Clone)]
pub(crate) struct Asked {
    pub event: Event,
    /// What a lease or a ticket that comes of it belongs to.
    pub of: Option<Whereabouts>,
    /// Who asks; nobody: the server by itself.
    pub caller: Option<Caller>,
    /// Why a lease is ended.
    pub reason: Option<String>,
    /// What the place said of what records do not know of.
    pub quiet: Quiet,
    /// Whose own doing is not in the way.
    pub identity: Option<Identity>,
}

impl Asked {
    pub fn by_itself(event: Event) -> Self {
        Self { event, of: None, caller: None, reason: None, quiet: Quiet::Unknown, identity: None }
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Decided {
    pub sandbox: SandboxId,
    pub desk: Desk,
    pub answer: std::result::Result<Answer, Refusal>,
    pub effects: Vec<Effect>,
    pub now: lease::Moment,
    pub quarantined: Option<String>,
    /// Who shares the sandbox, where the decision had to read it.
    pub sharers: Vec<Environment>,
    /// Leases that nobody waits for any more, whose tickets ran out.
    pub over: Vec<LeaseId>,
    /// It is another host's, which carries its barriers.
    pub elsewhere: bool,
}

impl Decided {
    fn refused(loaded: desks::Loaded) -> Self {
        Self {
            sandbox: loaded.sandbox,
            answer: Err(Refusal::NotYet),
            effects: Vec::new(),
            now: loaded.now,
            quarantined: loaded.quarantined,
            desk: loaded.desk,
            sharers: Vec::new(),
            over: Vec::new(),
            elsewhere: false,
        }
    }
}

/// Decides and writes. None when there is no such sandbox any more. `rules` is what one of those who share it says: enough for whoever only goes
/// on; before anything changes all of them are asked.
pub(crate) async fn decide_in(
    unit: &mut Unit,
    office: &Office,
    sandbox: SandboxId,
    rules: Option<Rules>,
    asked: Asked,
) -> Result<Option<Decided>> {
    let (mut one_alone, mut sharers, mut over) = (rules, Vec::new(), Vec::new());
    let deciding = office.underway.decide(sandbox);
    let mut head = desks::HEAD;
    let (loaded, decision) = loop {
        let rules = match one_alone {
            Some(rules) => rules,
            None => {
                sharers = environments::sharing(unit, sandbox).await?;
                office.rules_of(&sharers)
            }
        };
        let Some(loaded) = desks::lock(unit, sandbox, rules, office.own, head).await? else { return Ok(None) };
        if loaded.quarantined.is_some() && lets_in(asked.event) {
            // Nobody is let in, and nothing is tried again, before somebody has looked at it.
            return Ok(Some(Decided::refused(loaded)));
        }
        if loaded.desk.more_wait {
            // Those who are far behind give up in their time as well.
            for (ticket, lease) in tickets::overdue(unit, sandbox, loaded.now).await? {
                if !loaded.desk.waiting.iter().any(|known| known.id == ticket) {
                    tickets::end(unit, ticket, TicketStatus::TimedOut, office.context.now()).await?;
                    over.push(lease);
                }
            }
        }
        let seen = Seen { now: loaded.now, running: running(office, &loaded, &asked) };
        let decision = decide(loaded.desk.clone(), asked.event, seen);
        let goes_on = decision.effects.is_empty() && matches!(decision.answer, Ok(Answer::Pass { .. }));
        if one_alone.take_if(|_| !goes_on).is_some() {
            continue;
        }
        if !decision.ran_out() {
            break (loaded, decision);
        }
        // More of the queue is due than was looked at.
        head = head.saturating_mul(8);
    };
    for effect in &decision.effects {
        write_effect(unit, office, &loaded, &decision.desk, &asked, *effect).await?;
    }
    desks::save(unit, &loaded, &decision.desk, office.own).await?;
    let timed_out = |effect: &Effect| match effect {
        Effect::TimedOut { ticket } => loaded.desk.waiting.iter().find(|known| known.id == *ticket).map(|known| known.lease),
        _ => None,
    };
    over.extend(decision.effects.iter().filter_map(timed_out));
    if decision.desk.leases != loaded.desk.leases || !decision.effects.is_empty() {
        unit.keep_until_over(deciding);
    }
    Ok(Some(Decided {
        sandbox,
        elsewhere: is_elsewhere(office, &loaded),
        over,
        answer: decision.answer,
        effects: decision.effects,
        now: loaded.now,
        quarantined: loaded.quarantined,
        desk: decision.desk,
        sharers,
    }))
}

/// Whether something of somebody may run. The place knows, if it was asked and nothing was begun since; records only follow it. Of a sandbox
/// on another host only that host knows what is being done.
pub(super) fn running(office: &Office, loaded: &desks::Loaded, asked: &Asked) -> bool {
    let elsewhere = is_elsewhere(office, loaded);
    let quiet = office.underway.is_quiet(loaded.sandbox, asked.quiet);
    !quiet || office.underway.is_busy(loaded.sandbox, asked.identity) || elsewhere
}

fn is_elsewhere(office: &Office, loaded: &desks::Loaded) -> bool {
    loaded.host.is_some_and(|host| host != office.own.0)
}

/// Whether somebody would change something there who does not yet.
fn lets_in(event: Event) -> bool {
    matches!(event, Event::Acquire { .. } | Event::Enter { .. } | Event::Present { .. })
}

async fn write_effect(unit: &mut Unit, office: &Office, loaded: &desks::Loaded, desk: &Desk, asked: &Asked, effect: Effect) -> Result<()> {
    let now = office.context.now();
    match effect {
        Effect::Waits(ticket) => {
            let of = asked.of.as_ref().ok_or_else(|| Error::internal("a ticket of nobody"))?;
            tickets::insert(unit, &ticket, of, now).await?;
        }
        Effect::Began { lease, ticket } => {
            let drawn = loaded.waiting.iter().find(|record| Some(record.ticket.id) == ticket);
            let of = drawn.map(|record| &record.of).or(asked.of.as_ref()).ok_or_else(|| Error::internal("a lease of nobody"))?;
            if let Some(ticket) = ticket {
                tickets::end(unit, ticket, TicketStatus::Granted, now).await?;
            }
            let lease = desk.find(lease).ok_or_else(|| Error::internal("a lease that began is not there"))?;
            let hash = match &of.terms.token_hash {
                _ if lease.implicit => None,
                Some(hash) if ticket.is_some() => Some(hash.clone()),
                _ => Some(token_hash(office, lease.id)?),
            };
            leases::insert(unit, lease, of, hash.as_deref(), now).await?;
            let is_handed_on = matches!(asked.event, Event::Transfer { successor, .. } if successor == lease.id);
            let action = if is_handed_on { "lease.transfer" } else { "lease.acquire" };
            let details = vec![
                ("environment_id", of.environment_id.to_string().into()),
                ("fence", lease.fence.into()),
                ("mode", lease.mode.as_str().into()),
                ("implicit", lease.implicit.into()),
            ];
            let act = Act { project: of.project_id, action, target_type: "lease", target_id: lease.id.to_string(), details };
            match asked.caller.as_ref().filter(|_| ticket.is_none()) {
                // The end of the one that was presented stands before this, and has been asked for.
                Some(caller) if is_handed_on => record_after(unit, &office.context, caller, act).await?,
                Some(caller) => record(unit, &office.context, caller, act).await?,
                None => record_own(unit, &office.context, act).await?,
            }
        }
        Effect::Activated { lease } => leases::begin_time(unit, lease, now).await?,
        Effect::Ended { lease, how, clean } => {
            let Some(known) = loaded.leases.iter().find(|known| known.lease.id == lease) else { return Ok(()) };
            let reason = asked.reason.clone().filter(|_| is_about(asked, lease) || how == LeaseEnd::Revoked);
            // What a release leaves is done before its barrier is answered, one that another takes over leaves nothing, and one that never
            // began has changed nothing.
            let released = how == LeaseEnd::Released;
            let is_done = match asked.event {
                Event::BarrierDone { .. } => released && known.lease.stage == lease::Stage::Stopping,
                Event::Transfer { lease: of, .. } => released && of == lease,
                _ => false,
            };
            let began = known.lease.stage != lease::Stage::Fencing;
            let has_work = !is_done && began && !known.lease.implicit && super::work::is_wanted(known);
            let end = EndRecord { at: now, how, clean, reason: reason.clone() };
            let caller = asked.caller.as_ref().filter(|_| is_about(asked, lease));
            let details = vec![("how", how.as_str().into()), ("clean", clean.into()), ("reason", reason.into())];
            let act = Act {
                project: known.of.project_id,
                action: "lease.end",
                target_type: "lease",
                target_id: lease.to_string(),
                details: details.into_iter().filter(|(_, value): &(&str, serde_json::Value)| !value.is_null()).collect(),
            };
            match caller {
                Some(caller) => record(unit, &office.context, caller, act).await?,
                None => record_own(unit, &office.context, act).await?,
            }
            // Not before: whoever releases with its token is asked whether it still may.
            leases::end(unit, lease, &end, has_work).await?;
        }
        Effect::TimedOut { ticket } => {
            tickets::end(unit, ticket, TicketStatus::TimedOut, now).await?;
        }
        // Sent when this is durable, and again until it is answered.
        Effect::Barrier(_) => {}
    }
    Ok(())
}

/// Whether the event is this lease's own end, and not something that ends it by the way.
fn is_about(asked: &Asked, lease: LeaseId) -> bool {
    matches!(asked.event, Event::Release { lease: of, .. } | Event::Break { lease: of } | Event::Transfer { lease: of, .. } if of == lease)
}

/// Made anew whenever it is asked for; only its hash is kept.
pub(super) fn token_of(office: &Office, lease: LeaseId) -> Result<lease::LeaseToken> {
    Ok(lease::token(lease, &office.sealer.sign(&lease::signed_content(lease))?))
}

pub(super) fn token_hash(office: &Office, lease: LeaseId) -> Result<String> {
    Ok(api_key::hash(&token_of(office, lease)?.0))
}
