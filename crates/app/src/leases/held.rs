//! What can be done with a lease that is held: renew it, release it, end it for its holder, hand it on.

use stead_domain::definition::AtRelease;
use stead_domain::environment::Environment;
use stead_domain::ids::{LeaseId, PrincipalId, ProjectId};
use stead_domain::lease::{
    AcquireReply, Answer, BreakRequest, Event, HANDED_ON, LONGEST_NOTE, LeaseBind, LeaseRecord, LeaseView, Refusal, ReleaseRequest,
    RenewReply, RenewRequest, Stage, Terms, TransferRequest,
};
use stead_domain::principal::Role;
use stead_domain::{Code, Error, Result, names};
use stead_store::{desks, environments, leases, members, principals};
use tokio::time::Instant;

use super::acquire::Refused;
use super::deciding::{Asked, Decided, decide_in};
use super::entering::PATIENCE;
use super::read::whole_in;
use super::surroundings::{Surroundings, surroundings_in};
use super::underway::Quiet;
use super::view::renew_after;
use super::{no_sandbox, whereabouts};
use crate::idempotency::{self, Claim};
use crate::{App, Entered};

pub(super) fn unknown(id: LeaseId) -> Error {
    Error::not_found("lease", id).suggestion("`stead lease list` shows those that are there")
}

/// Whether the caller is the holder. A token decides alone.
fn is_holder(entered: &Entered, record: &LeaseRecord) -> bool {
    match entered.caller.lease {
        Some(presented) => presented == record.lease.id,
        None => record.lease.is_of(entered.caller.principal),
    }
}

fn not_the_holder(record: &LeaseRecord) -> Error {
    let next = match record.lease.bind {
        LeaseBind::Token => "present its token in the header `Stead-Lease`; whoever acquired it was told it once",
        LeaseBind::Principal => "only who acquired it may do this, or whoever has its token",
    };
    Error::new(Code::Forbidden, format!("lease `{}` is somebody else's", record.lease.id)).suggestion(next)
}

/// What a transfer came to.
enum Handed {
    Now(Box<Decided>),
    /// This lease is what the first request with the key came to.
    Before(LeaseId),
}

impl App {
    pub(super) async fn lease_record(&self, entered: &Entered, id: LeaseId) -> Result<LeaseRecord> {
        let project = entered.project;
        let found =
            self.store.glance(move |unit| Box::pin(async move { Ok::<_, Error>(leases::find_in(unit, project, id).await?) })).await?;
        found.ok_or_else(|| unknown(id))
    }

    async fn decide_on(
        &self,
        entered: &Entered,
        record: &LeaseRecord,
        event: Event,
        reason: Option<String>,
        quiet: Quiet,
    ) -> Result<Decided> {
        let asked = Asked { event, of: Some(record.of.clone()), caller: Some(entered.caller.clone()), reason, quiet, identity: None };
        match self.decide(record.of.sandbox_id, None, asked, self.office()).await? {
            Some(decided) => Ok(decided),
            None => Err(no_sandbox(&self.load(record.of.environment_id).await?)),
        }
    }

    /// What somebody is told whose lease is gone.
    async fn lease_lost(&self, entered: &Entered, id: LeaseId) -> Error {
        let how = self.ended_how(id).await.unwrap_or_else(|| "it is being released".to_owned());
        let mut error = Error::new(Code::LeaseLost, format!("lease `{id}` is not held any more: {how}"))
            .suggestion("stop what you do under it, and acquire the environment anew; an ended lease is never revived");
        if let Ok(record) = self.lease_record(entered, id).await {
            let sandbox = record.of.sandbox_id;
            let now: Result<Vec<LeaseRecord>> =
                self.store.read(move |unit| Box::pin(async move { Ok(leases::live(unit, sandbox).await?) })).await;
            if let Some(holder) = now.ok().and_then(|live| live.into_iter().find(|live| live.lease.id != id)) {
                error = error.detail("held_by", holder.lease.id.to_string());
            }
        }
        error
    }

    pub async fn renew_lease(&self, entered: &Entered, id: LeaseId, request: RenewRequest) -> Result<RenewReply> {
        let record = self.lease_record(entered, id).await?;
        if !is_holder(entered, &record) {
            return Err(not_the_holder(&record));
        }
        if request.fence.is_some_and(|fence| fence != record.lease.fence) {
            return Err(Error::new(Code::FenceStale, format!("the lease has fence {}, and not that one", record.lease.fence))
                .suggestion("acquire the environment anew"));
        }
        if record.end.is_some() {
            return Err(self.lease_lost(entered, id).await);
        }
        let decided = self.decide_on(entered, &record, Event::Renew { lease: id }, None, Quiet::Unknown).await?;
        match decided.answer {
            Ok(Answer::Renewed { left, directive }) => Ok(RenewReply {
                id,
                fence: record.lease.fence,
                expires_in_ms: left,
                renew_after_ms: renew_after(left, record.lease.ttl),
                directive,
            }),
            _ => Err(self.lease_lost(entered, id).await),
        }
    }

    /// Answers with the final record, also when it has ended before. With something running it is stopped first.
    pub async fn release_lease(&self, entered: &Entered, id: LeaseId, request: ReleaseRequest) -> Result<LeaseView> {
        let (office, project) = (self.office(), entered.project);
        let (record, held) = self
            .store
            .glance(move |unit| {
                Box::pin(async move {
                    let record = leases::find_in(unit, project, id).await?.ok_or_else(|| unknown(id))?;
                    let environment = match record.end {
                        None => environments::find_any(unit, record.of.environment_id).await?,
                        Some(_) => None,
                    };
                    let held = match environment {
                        Some(environment) => Some((surroundings_in(unit, &office, &environment).await?, environment)),
                        None => None,
                    };
                    Ok::<_, Error>((record, held))
                })
            })
            .await?;
        let is_owner = entered.role.covers(Role::Owner) && entered.caller.lease.is_none();
        if !is_holder(entered, &record) && record.lease.principal != entered.caller.principal && !is_owner {
            return Err(not_the_holder(&record));
        }
        if entered.caller.lease.is_some_and(|presented| presented != id) {
            return Err(not_the_holder(&record));
        }
        let Some((surroundings, environment)) = held else { return self.get_lease(entered, id).await };
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move { app.release_to_the_end(entered, record, environment, surroundings, request).await }).await
    }

    async fn release_to_the_end(
        &self,
        entered: Entered,
        mut record: LeaseRecord,
        environment: Environment,
        surroundings: Surroundings,
        request: ReleaseRequest,
    ) -> Result<LeaseView> {
        let id = record.lease.id;
        if let Some(at_release) = request.at_release {
            if !is_holder(&entered, &record) && !entered.role.covers(Role::Owner) {
                return Err(not_the_holder(&record));
            }
            super::acquire::check_at_release(Some(at_release), &entered, &environment)?;
            record.of.terms.at_release = Some(at_release);
        }
        let terms = request.at_release.map(|_| record.of.terms.clone());
        // It is released now, whoever keeps it answers when it may: nobody is let in before it does.
        let quiet = if surroundings.unconfirmed { Quiet::Unknown } else { self.quiet_in(&environment, &surroundings).await };
        let work = super::work::is_wanted(&record) && !record.lease.implicit;
        let (office, sandbox) = (self.office(), record.of.sandbox_id);
        // Its holder is told that it was not itself.
        let by_another = !is_holder(&entered, &record) && record.lease.principal != entered.caller.principal;
        let asked = Asked {
            event: Event::Release { lease: id, work },
            of: Some(record.of),
            caller: Some(entered.caller.clone()),
            reason: by_another.then(|| "by an owner of the project".to_owned()),
            quiet,
            identity: None,
        };
        let (decided, ended) = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    if let Some(terms) = &terms {
                        desks::claim(unit, sandbox).await?;
                        leases::set_terms(unit, id, terms).await?;
                    }
                    let decided = decide_in(unit, &office, sandbox, None, asked).await?;
                    // What is told of its end is read with it.
                    let ended = leases::find(unit, id).await?.filter(|record| record.end.is_some());
                    let ended = match ended {
                        Some(record) => Some(whole_in(unit, &office.context, &record).await?),
                        None => None,
                    };
                    Ok::<_, Error>((decided, ended))
                })
            })
            .await?;
        let decided = decided.ok_or_else(|| no_sandbox(&environment))?;
        self.follow_up(&decided);
        if let Some(ended) = ended {
            return Ok(ended);
        }
        if decided.desk.find(id).is_some_and(|lease| lease.stage == Stage::Stopping) {
            self.until_settled(&environment, &decided, id, Instant::now() + PATIENCE).await?;
        }
        self.get_lease(&entered, id).await
    }

    /// Ends somebody's lease. What it left is stopped before anybody else is let in.
    pub async fn break_lease(&self, entered: &Entered, id: LeaseId, request: BreakRequest) -> Result<LeaseView> {
        if request.reason.trim().is_empty() {
            return Err(Error::field("reason", "say why: the holder and the audit are told"));
        }
        names::check_text("reason", &request.reason, LONGEST_NOTE)?;
        let record = self.lease_record(entered, id).await?;
        if record.end.is_none() {
            let (app, whose, of) = (self.clone(), entered.clone(), record.clone());
            let broken = async move { app.decide_on(&whose, &of, Event::Break { lease: id }, Some(request.reason), Quiet::Unknown).await };
            let decided = self.detached(broken).await?;
            if let Err(refusal) = decided.answer
                && refusal != Refusal::Stale
            {
                return Err(Error::internal("the rules refused to end a lease"));
            }
        }
        self.get_lease(entered, id).await
    }

    /// From one holder to the next without a gap: what runs goes on.
    pub async fn transfer_lease(&self, entered: &Entered, id: LeaseId, request: TransferRequest) -> Result<AcquireReply> {
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move { app.transfer_to_the_end(&entered, id, request).await }).await
    }

    async fn transfer_to_the_end(&self, entered: &Entered, id: LeaseId, request: TransferRequest) -> Result<AcquireReply> {
        if let Some(note) = &request.note {
            names::check_text("note", note, LONGEST_NOTE)?;
        }
        let record = self.lease_record(entered, id).await?;
        let is_owner = entered.role.covers(Role::Owner) && entered.caller.lease.is_none();
        if !is_holder(entered, &record) && !is_owner {
            return Err(not_the_holder(&record));
        }
        if record.lease.implicit {
            return Err(Error::new(Code::Conflict, "a lease that a command took for itself is not handed on")
                .suggestion("acquire the environment, which takes over what runs, and hand that lease on"));
        }
        let (to, name, role) = self.principal_of(entered, &request.to).await?;
        let environment = self.get_environment(entered, record.of.environment_id).await?;
        let successor = LeaseId::new(&self.context);
        // What somebody else noted is not said of whoever it is taken to.
        let kept = record.of.terms.note.clone().filter(|_| is_holder(entered, &record));
        let mut terms = Terms { note: request.note.or(kept), ..record.of.terms.clone() };
        // Nobody has deleted by its end what it may not delete.
        if environment.created_by != Some(to) && !role.covers(Role::Owner) {
            terms.at_release = terms.at_release.filter(|at_release| *at_release != AtRelease::Destroy);
        }
        let event = Event::Transfer { lease: id, to, bind: request.bind.unwrap_or(LeaseBind::Token), successor };
        let office = self.office();
        let asked = Asked {
            event,
            of: Some(whereabouts(&environment, terms)),
            caller: Some(entered.caller.clone()),
            reason: Some(format!("{HANDED_ON}{name}")),
            quiet: Quiet::Unknown,
            identity: None,
        };
        let (sandbox, caller) = (record.of.sandbox_id, entered.caller.clone());
        let written: std::result::Result<Handed, Refused> = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    match idempotency::claim(unit, &office.context, &*office.sealer, &caller).await? {
                        Claim::New => idempotency::note_target(unit, &caller, &successor.to_string()).await?,
                        // A reply that was lost had the only token: it is told again.
                        Claim::Unfinished(Some(known)) => {
                            return Ok(Handed::Before(known.parse().map_err(|_| idempotency::in_progress())?));
                        }
                        Claim::Unfinished(None) | Claim::Answered(_) => return Err(idempotency::in_progress().into()),
                    }
                    // What runs goes on; a file that is half written is nobody's to take over. Who begins one from here on is asked again.
                    let _deciding = office.underway.decide(sandbox);
                    if office.underway.is_busy(sandbox, None) {
                        return Err(Error::new(Code::Conflict, "something is just being written or started in the environment")
                            .recoverable(true)
                            .suggestion("wait until that is over, and hand the lease on then")
                            .into());
                    }
                    let decided = decide_in(unit, &office, sandbox, None, asked).await?.ok_or(Refused::NoSandbox(0))?;
                    match decided.answer {
                        Ok(_) => Ok(Handed::Now(Box::new(decided))),
                        // Nothing of it is kept, the key neither.
                        Err(_) => Err(Refused::Decided(0, Box::new(decided))),
                    }
                })
            })
            .await;
        match written {
            Ok(Handed::Before(successor)) => self.as_it_stands(entered, successor).await,
            Ok(Handed::Now(decided)) => {
                self.repositories.tokens.hand_over(id, successor);
                self.follow_up(&decided);
                self.as_it_stands(entered, successor).await
            }
            Err(Refused::Error(error)) => Err(error),
            Err(Refused::NoSandbox(_)) => Err(no_sandbox(&environment)),
            Err(Refused::Decided(_, decided)) => match decided.answer {
                Err(refusal) if refusal != Refusal::Stale => Err(self.refused(entered, &environment, &decided, refusal).await),
                _ => Err(self.lease_lost(entered, id).await),
            },
        }
    }

    /// A principal of the project, by id or by name.
    async fn principal_of(&self, entered: &Entered, reference: &str) -> Result<(PrincipalId, String, Role)> {
        let (project, reference) = (entered.project, reference.to_owned());
        self.store
            .read(move |unit| {
                Box::pin(async move {
                    let nobody = || {
                        Error::field("to", "there is no such principal in the project")
                            .suggestion("`stead project members list` shows them")
                    };
                    let found = match reference.parse::<PrincipalId>() {
                        Ok(id) => principals::find(unit, id).await?,
                        Err(_) => match principals::find_by_name(unit, Some(project), &reference).await? {
                            Some(found) => Some(found),
                            None => principals::find_by_name(unit, None, &reference).await?,
                        },
                    };
                    let found = found.ok_or_else(nobody)?;
                    match members::role(unit, project, found.id).await? {
                        Some(role) if role.covers(Role::Member) => Ok((found.id, found.name, role)),
                        Some(role) => Err(Error::field("to", format!("`{}` has the role `{role}`, and may change nothing", found.name))
                            .suggestion("hand it on to a member or an owner; `stead project members role` changes a role")),
                        None => Err(nobody()),
                    }
                })
            })
            .await
    }
}

impl App {
    /// Somebody does not belong to the project any more, or only looks: what it holds there ends.
    pub(crate) async fn end_leases_of(&self, project: ProjectId, principal: PrincipalId) {
        let held: Result<Vec<LeaseRecord>> =
            self.store.read(move |unit| Box::pin(async move { Ok(leases::live_of(unit, project, principal).await?) })).await;
        for record in held.unwrap_or_default() {
            let reason = Some("its holder may not change anything in the project any more".to_owned());
            // By the server itself: whoever took the role away may have taken away its own.
            let asked = Asked { reason, ..Asked::by_itself(Event::Break { lease: record.lease.id }) };
            if let Err(error) = self.decide(record.of.sandbox_id, None, asked, self.office()).await {
                tracing::warn!(lease = %record.lease.id, %error, "the lease of somebody who left could not be ended");
            }
        }
    }
}
