//! The right to change something: of the lease that is presented, of the caller's own, or of one that the call takes for itself.

use std::time::Duration;

use stead_domain::environment::Environment;
use stead_domain::ids::{LeaseId, SandboxId};
use stead_domain::lease::{Answer, Event, LeaseMode, Refusal, Rules, Seen, Stage, Terms, Whereabouts, decide};
use stead_domain::principal::Caller;
use stead_domain::{Code, Error, Result};
use stead_store::{Unit, desks};

use super::deciding::{Asked, Decided, decide_in, running};
use super::underway::{Doing, Identity, Quiet};
use super::{Office, no_sandbox, whereabouts};
use crate::place::Warrant;
use crate::{App, Entered};

/// How long a call waits for what the holder before left to be stopped.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Somebody's right to change a sandbox, for as long as this is there: whoever hands it over meanwhile knows of it.
#[derive(Debug)]
pub(crate) struct Right {
    pub warrant: Warrant,
    sandbox: SandboxId,
    rules: Rules,
    event: Event,
    identity: Identity,
    of: Whereabouts,
    caller: Caller,
    quiet: Quiet,
    _doing: Doing,
}

/// What a look at the desk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The right is there.
    Passes,
    /// It has to be decided, and written.
    Undecided,
}

/// Whose right it would be, and whether it is there already, without writing anything: what most calls find. From here on whoever hands the
/// sandbox over knows of it.
pub(crate) async fn see_in(unit: &mut Unit, office: &Office, caller: &Caller, environment: &Environment) -> Result<(Right, Sight)> {
    let mut rules = office.rules(environment);
    rules.open = rules.open && all_open(unit, environment).await?;
    let (event, identity) = match caller.lease {
        Some(lease) => (Event::Present { lease }, Identity::Lease(lease)),
        None => {
            let lease = LeaseId::new(&office.context);
            (Event::Enter { principal: caller.principal, lease }, Identity::Principal(caller.principal))
        }
    };
    let sandbox = environment.sandbox_id;
    let mut right = Right {
        warrant: Warrant::default(),
        sandbox,
        rules,
        event,
        identity,
        of: whereabouts(environment, Terms::default()),
        caller: caller.clone(),
        quiet: Quiet::Unknown,
        _doing: office.underway.begin(sandbox, identity),
    };
    let sight = look_at(unit, office, &mut right).await?;
    Ok((right, sight))
}

async fn look_at(unit: &mut Unit, office: &Office, right: &mut Right) -> Result<Sight> {
    // Before the desk is read: what is decided just now may not be in it.
    if office.underway.is_being_decided(right.sandbox) {
        return Ok(Sight::Undecided);
    }
    let Some(loaded) = desks::look(unit, right.sandbox, right.rules, office.own).await? else { return Ok(Sight::Undecided) };
    if loaded.quarantined.is_some() {
        return Ok(Sight::Undecided);
    }
    let seen = Seen { now: loaded.now, running: running(office, &loaded, &right.asked()) };
    let decision = decide(loaded.desk, right.event, seen);
    Ok(match decision.answer {
        Ok(Answer::Pass { fence }) if decision.effects.is_empty() => {
            right.warrant = Warrant { fence, lease: owner_of(&decision.desk, right.event) };
            Sight::Passes
        }
        _ => Sight::Undecided,
    })
}

/// An environment that lets everybody in shares its sandbox only with such as do the same, or it does not.
pub(super) async fn all_open(unit: &mut Unit, environment: &Environment) -> Result<bool> {
    let sharing = stead_store::environments::sharing(unit, environment.sandbox_id).await?;
    Ok(sharing.iter().all(|other| super::is_open(&other.spec)))
}

impl App {
    /// The caller's right to change something in the environment. Takes an implicit lease when nobody holds it; waits while what the holder
    /// before left is being stopped. The caller holds neither a gate nor the environment's lock: whoever stops it takes them all.
    pub(crate) async fn enter(&self, entered: &Entered, environment: &Environment) -> Result<Right> {
        self.check_host_id(environment.runtime.host)?;
        let (office, caller, of) = (self.office(), entered.caller.clone(), environment.clone());
        let (right, sight) = self.store.glance(move |unit| Box::pin(async move { see_in(unit, &office, &caller, &of).await })).await?;
        match sight {
            Sight::Passes => Ok(right),
            Sight::Undecided => self.obtain(entered, environment, right).await,
        }
    }

    /// Has a right decided that was not there at a glance.
    pub(crate) async fn obtain(&self, entered: &Entered, environment: &Environment, mut right: Right) -> Result<Right> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            // What commands left behind is known to the place alone.
            right.quiet = self.confirmed_quiet(environment, &self.surroundings(environment).await?).await?;
            let decided = self.decide(right.sandbox, None, right.asked(), self.office()).await?;
            let decided = decided.ok_or_else(|| no_sandbox(environment))?;
            check_quarantine(environment, &decided)?;
            right.quiet = Quiet::Unknown;
            match decided.answer {
                Ok(Answer::Pass { fence }) => {
                    right.warrant = Warrant { fence, lease: owner_of(&decided.desk, right.event) };
                    return Ok(right);
                }
                Ok(Answer::Fencing { lease }) => self.until_settled(environment, &decided, lease, deadline).await?,
                Ok(_) => return Err(Error::internal("the rules answered something else than was asked")),
                // It was asked now.
                Err(Refusal::NotYet) if tokio::time::Instant::now() < deadline => self.carry(right.sandbox).await?,
                Err(refusal) => return Err(self.refused(entered, environment, &decided, refusal).await),
            }
        }
    }

    /// The right to do what is nobody's work, such as putting it to sleep: refused while somebody else holds it, and no lease comes of it.
    pub(crate) async fn knock(&self, entered: &Entered, environment: &Environment) -> Result<()> {
        if entered.caller.lease.is_some() {
            return self.enter(entered, environment).await.map(drop);
        }
        let office = self.office();
        let asked = Asked {
            caller: Some(entered.caller.clone()),
            quiet: self.ask_for_quiet(environment).await,
            ..Asked::by_itself(Event::Knock { principal: entered.caller.principal })
        };
        let decided = self.decide(environment.sandbox_id, None, asked, office).await?;
        match decided {
            Some(decided) => match decided.answer {
                Ok(_) => Ok(()),
                Err(refusal) => Err(self.refused(entered, environment, &decided, refusal).await),
            },
            None => Ok(()),
        }
    }

    /// Asks the same once more, by whoever has the environment's lock and its gate by now: it may have changed hands while they were waited for.
    pub(crate) async fn knock_again(&self, entered: &Entered, environment: &Environment) -> Result<()> {
        if entered.caller.lease.is_none() {
            return self.knock(entered, environment).await;
        }
        let (office, caller, of) = (self.office(), entered.caller.clone(), environment.clone());
        let (right, sight) = self.store.glance(move |unit| Box::pin(async move { see_in(unit, &office, &caller, &of).await })).await?;
        if sight == Sight::Passes {
            return Ok(());
        }
        // Something is just being decided, or has to be. Nobody is waited for: whoever carries a barrier waits for what this caller has.
        match self.decide(environment.sandbox_id, None, right.asked(), self.office()).await?.map(|decided| decided.answer) {
            Some(Ok(Answer::Pass { .. })) => Ok(()),
            _ => Err(taken_over()),
        }
    }

    /// One decision in a unit of its own, and what follows from it outside.
    pub(crate) async fn decide(&self, sandbox: SandboxId, rules: Option<Rules>, asked: Asked, office: Office) -> Result<Option<Decided>> {
        let decided: Option<Decided> =
            self.store.write(move |unit| Box::pin(async move { decide_in(unit, &office, sandbox, rules, asked).await })).await?;
        if let Some(decided) = &decided {
            self.follow_up(decided);
        }
        Ok(decided)
    }
}

impl Right {
    fn asked(&self) -> Asked {
        Asked {
            event: self.event,
            of: Some(self.of.clone()),
            caller: Some(self.caller.clone()),
            reason: None,
            quiet: self.quiet,
            identity: Some(self.identity),
        }
    }
}

/// Asks again, in the unit that writes down what is done under it, whether the right is still there.
pub(crate) async fn hold_in(unit: &mut Unit, office: &Office, right: &Right) -> Result<()> {
    // Where everybody is let in, all who share it are asked whether they still do.
    let rules = Some(right.rules).filter(|rules| !rules.open);
    let decided = decide_in(unit, office, right.sandbox, rules, right.asked()).await?;
    match decided.map(|decided| decided.answer) {
        Some(Ok(Answer::Pass { fence })) if fence == right.warrant.fence => Ok(()),
        _ => Err(taken_over()),
    }
}

pub(crate) fn taken_over() -> Error {
    Error::new(Code::FenceStale, "the environment changed hands while this was under way, and nothing of it was kept")
        .suggestion("acquire the environment anew, or try again without a lease; `stead lease list` shows who holds it")
}

/// The lease that a warrant names. Of those that came to an open environment none holds it.
fn owner_of(desk: &stead_domain::lease::Desk, event: Event) -> Option<LeaseId> {
    match event {
        _ if desk.rules.open => None,
        Event::Present { lease } => Some(lease),
        _ => desk.exclusive().filter(|lease| lease.stage == Stage::Active && lease.mode == LeaseMode::Exclusive).map(|lease| lease.id),
    }
}

pub(super) fn check_quarantine(environment: &Environment, decided: &Decided) -> Result<()> {
    decided.quarantined.as_ref().map_or(Ok(()), |reason| Err(quarantined(environment, reason)))
}

pub(super) fn quarantined(environment: &Environment, reason: &str) -> Error {
    let message = format!("environment `{}` is set aside: what its last holder left could not be cleaned up ({reason})", environment.name);
    Error::new(Code::EnvironmentQuarantined, message).detail("reason", reason.to_owned()).suggestion(format!(
        "look at it (`stead files ls`, `stead env egress`), mend the cause, and let it be tried again with `stead env reconcile {0}`; \
         or delete it with `stead env delete {0}`",
        environment.name
    ))
}

impl App {
    /// What a refusal of the rules is to whoever asked.
    pub(crate) async fn refused(&self, entered: &Entered, environment: &Environment, decided: &Decided, refusal: Refusal) -> Error {
        match refusal {
            Refusal::Stale => {
                let presented = entered.caller.lease;
                let ended = match presented {
                    Some(lease) => self.ended_how(lease).await,
                    None => None,
                };
                match ended {
                    Some(how) => crate::identity::access::lease_has_ended(&how),
                    None => Error::new(Code::FenceStale, "the lease that was presented is none of this environment's")
                        .suggestion("present the token of a lease of this environment, or acquire it"),
                }
            }
            Refusal::ReadOnly => Error::new(Code::LeaseReadOnly, "a shared lease reads, and changes nothing")
                .suggestion("release it and acquire the environment with `mode: exclusive`"),
            Refusal::NoTicket => Error::new(Code::NotFound, "nobody waits under that ticket").suggestion("acquire the environment anew"),
            Refusal::NotYet => super::barrier::fencing(environment),
            Refusal::NoFence => {
                Error::new(Code::Conflict, "the place has seen the last fence there is: it can be read, and never be held again")
                    .suggestion("copy what is in it to another environment with `stead cp`, or fork it from a checkpoint")
            }
            Refusal::Held { by } => self.held_error(environment, decided, by).await,
        }
    }
}
