//! Acquire: the lease at once, or a place in the queue for it. A repetition with the same key is told how it stands by now.

use std::time::Duration as StandardDuration;

use serde::Deserialize;
use stead_domain::definition::{AtRelease, Spec};
use stead_domain::duration::Duration;
use stead_domain::environment::{BoundToType, Environment, EnvironmentMode, Lifetime, Purpose, Scope, TemplateId};
use stead_domain::ids::{EnvironmentId, LeaseId, TicketId};
use stead_domain::lease::{
    AcquireReply, AcquiredItem, Answer, Event, LONGEST_NOTE, LeaseBind, LeaseMode, MOST_PRIORITY, Moment, OnBusy, Terms, Ticket,
    TicketStatus, Wanted, Whereabouts,
};
use stead_domain::principal::{Caller, Credential, Idempotency, Role};
use stead_domain::provider::ProviderName;
use stead_domain::tags::Tags;
use stead_domain::{Code, Error, Result, names};
use stead_store::{Unit, environments, leases, tickets};
use tokio::time::Instant;
use utoipa::ToSchema;

use super::deciding::{Asked, Decided, decide_in, token_hash};
use super::entering::{PATIENCE, check_quarantine};
use super::standing::{Standing, standing_in};
use super::surroundings::surroundings_in;
use super::underway::Quiet;
use super::{Office, no_sandbox, whereabouts};
use crate::environments::{NewEnvironment, unknown};
use crate::idempotency::{self, Claim, Outcome};
use crate::processes::check_usable;
use crate::{App, Entered};

const SHORTEST: u64 = 1000;
const LONGEST: u64 = 24 * 3600 * 1000;
/// Who binds by principal never renews: published clients cannot.
const BY_PRINCIPAL: Duration = Duration::from_secs(3600);
const BY_TOKEN: Duration = Duration::from_secs(90);
/// So many environments at once.
const MOST: usize = 50;

#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireEnvironment {
    /// One is made when neither this nor `environment_ids` is there.
    pub environment_id: Option<EnvironmentId>,
    /// All of them or none.
    pub environment_ids: Option<Vec<EnvironmentId>>,
    /// From one renewal to the end: `1s` to `24h`. The definition's `lease.default_ttl` when it is left out; an hour when it binds by principal.
    pub lease_ttl: Option<Duration>,
    /// After which no renewal helps.
    pub max_lifetime: Option<Duration>,
    /// `exclusive` when it is left out. A `shared` one reads, changes nothing, and keeps writers out meanwhile.
    pub mode: Option<LeaseMode>,
    /// `principal` when it is left out: calls of this principal are the holder's, whoever makes them. With `token` only those are that present it.
    pub bind: Option<LeaseBind>,
    /// How long to wait for it.
    pub wait: Option<Duration>,
    /// `wait` with a `wait`, else `fail`. Only an owner may `preempt`.
    pub on_busy: Option<OnBusy>,
    /// From -10 to 10: each step is worth half a minute of waiting, so that whoever waits for long enough is next.
    #[schema(minimum = -10, maximum = 10)]
    pub priority: Option<i8>,
    pub at_release: Option<AtRelease>,
    /// What it is for, for whoever finds it held.
    #[schema(max_length = 1024)]
    pub note: Option<String>,
    pub holder_type: Option<BoundToType>,
    #[schema(max_length = 256)]
    pub holder_id: Option<String>,
    pub purpose: Option<Purpose>,
    // Of an environment that is made.
    #[schema(max_length = 128)]
    pub name: Option<String>,
    pub scope: Option<Scope>,
    pub provider: Option<ProviderName>,
    pub environment_mode: Option<EnvironmentMode>,
    #[schema(max_length = 256)]
    pub owned_by: Option<String>,
    pub bound_to_type: Option<BoundToType>,
    #[schema(max_length = 256)]
    pub bound_to_id: Option<String>,
    pub lifetime: Option<Lifetime>,
    pub template_id: Option<TemplateId>,
    pub spec: Option<Spec>,
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    pub tags: Option<Tags>,
}

/// What is asked of one environment.
struct Request {
    environment: Environment,
    lease: LeaseId,
    ticket: TicketId,
    wanted: Wanted,
    terms: Terms,
    quiet: Quiet,
}

/// What the unit came to.
enum Written {
    /// With how it stands, for each that was granted at once.
    Decided(Vec<(Decided, Option<Standing>)>),
    /// These leases, or the ticket for one, are what the first request with the key came to.
    Before(Vec<LeaseId>),
}

impl AcquireEnvironment {
    fn check(&self, role: Role) -> Result<()> {
        let within = |field: &str, value: Option<Duration>, least: u64, most: u64, words: &str| match value {
            Some(value) if !(least..=most).contains(&value.as_millis()) => Err(Error::field(field, format!("must be between {words}"))),
            _ => Ok(()),
        };
        within("lease_ttl", self.lease_ttl, SHORTEST, LONGEST, "1s and 24h")?;
        within("max_lifetime", self.max_lifetime, SHORTEST, 30 * LONGEST, "1s and 720h, which is 30 days")?;
        within("wait", self.wait, 0, 30 * LONGEST, "0s and 720h, which is 30 days")?;
        if self.priority.is_some_and(|priority| !(-MOST_PRIORITY..=MOST_PRIORITY).contains(&priority)) {
            return Err(Error::field("priority", format!("must be between -{MOST_PRIORITY} and {MOST_PRIORITY}")));
        }
        if let Some(note) = &self.note {
            names::check_text("note", note, LONGEST_NOTE)?;
        }
        if let Some(id) = &self.holder_id {
            names::check_text("holder_id", id, 256)?;
        }
        if self.on_busy == Some(OnBusy::Wait) && self.wait.is_none() {
            return Err(Error::field("wait", "say how long to wait, such as `5m`"));
        }
        if self.on_busy == Some(OnBusy::Fail) && self.wait.is_some_and(|wait| wait.as_millis() > 0) {
            return Err(Error::field("on_busy", "`fail` does not wait: leave one of `wait` and `on_busy` out"));
        }
        if self.on_busy == Some(OnBusy::Preempt) && !role.covers(Role::Owner) {
            return Err(Error::new(Code::Forbidden, "only an owner of the project may take a lease away from its holder")
                .suggestion("wait for it with `wait`, or ask an owner"));
        }
        if self.mode == Some(LeaseMode::Shared) && self.at_release.is_some_and(|it| it != AtRelease::Keep) {
            return Err(Error::field("at_release", "a shared lease changes nothing, so there is nothing to do at its end"));
        }
        if let Some(several) = &self.environment_ids {
            if self.environment_id.is_some() {
                return Err(Error::field("environment_ids", "name one environment with `environment_id`, or several with this"));
            }
            if several.is_empty() || several.len() > MOST {
                return Err(Error::field("environment_ids", format!("must name 1 to {MOST} environments")));
            }
            if self.on_busy() == OnBusy::Wait {
                return Err(Error::field(
                    "wait",
                    "several environments are acquired at once or not at all: leave `wait` out and try again",
                ));
            }
        }
        Ok(())
    }

    fn on_busy(&self) -> OnBusy {
        let waits = self.wait.is_some_and(|wait| wait.as_millis() > 0);
        self.on_busy.unwrap_or(if waits { OnBusy::Wait } else { OnBusy::Fail })
    }

    fn creation(&self) -> NewEnvironment {
        NewEnvironment {
            name: self.name.clone(),
            scope: self.scope,
            provider: self.provider,
            environment_mode: self.environment_mode,
            purpose: self.purpose,
            owned_by: self.owned_by.clone(),
            bound_to_type: self.bound_to_type,
            bound_to_id: self.bound_to_id.clone(),
            lifetime: self.lifetime,
            template_id: self.template_id,
            spec: self.spec.clone(),
            tags: self.tags.clone(),
            ..NewEnvironment::default()
        }
    }

    /// What is asked of this environment.
    fn of(&self, app: &App, entered: &Entered, environment: Environment, quiet: Quiet) -> Result<Request> {
        let caller = &entered.caller;
        let policy = environment.spec.lease.clone().unwrap_or_default();
        let bind = self.bind.unwrap_or(LeaseBind::Principal);
        let ttl = self.lease_ttl.unwrap_or(match bind {
            LeaseBind::Principal => BY_PRINCIPAL,
            LeaseBind::Token => policy.default_ttl.unwrap_or(BY_TOKEN),
        });
        let cap = match (self.max_lifetime, policy.max_lifetime) {
            (Some(asked), Some(most)) => Some(asked.min(most)),
            (asked, most) => asked.or(most),
        };
        let mode = self.mode.unwrap_or(LeaseMode::Exclusive);
        let open = super::is_open(&environment.spec);
        if open && self.at_release.is_some_and(|it| it != AtRelease::Keep) {
            return Err(Error::field("at_release", "the environment is open to many at once, so that nobody's end is the last")
                .suggestion("leave it out, or set `lease.policy: exclusive` in the definition"));
        }
        let at_release = self.at_release.or(policy.at_release).filter(|_| mode == LeaseMode::Exclusive && !open);
        check_at_release(at_release, entered, &environment)?;
        let terms = Terms {
            holder_type: self.holder_type,
            holder_id: self.holder_id.clone(),
            purpose: self.purpose,
            note: self.note.clone(),
            at_release,
            token_hash: None,
            reaps: environment.lifetime == Lifetime::Lease && mode == LeaseMode::Exclusive && !open,
        };
        let ttl = cap.map_or(ttl, |cap| ttl.min(cap)).as_millis();
        let wanted = Wanted { principal: caller.principal, bind, mode, ttl, max_lifetime: cap.map(Duration::as_millis) };
        Ok(Request { environment, lease: LeaseId::new(&app.context), ticket: TicketId::new(&app.context), wanted, terms, quiet })
    }
}

impl App {
    pub async fn acquire_environment(&self, entered: &Entered, asked: AcquireEnvironment) -> Result<AcquireReply> {
        asked.check(entered.role)?;
        if let Credential::Lease { .. } = entered.caller.credential {
            return Err(Error::new(Code::Forbidden, "the token of a lease acquires no other").suggestion("acquire it with an API key"));
        }
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move { app.acquire_to_the_end(entered, asked).await }).await
    }

    async fn acquire_to_the_end(&self, entered: Entered, asked: AcquireEnvironment) -> Result<AcquireReply> {
        let _one_at_a_time = match idempotency::lock_key(&entered.caller) {
            Some(key) => Some(self.locks.lock(&key).await),
            None => None,
        };
        let several = asked.environment_ids.is_some();
        let mut ids = match (asked.environment_id, asked.environment_ids.clone()) {
            (Some(id), _) => vec![id],
            (None, Some(several)) => several,
            (None, None) => vec![self.make_for(&entered, &asked).await?],
        };
        ids.sort();
        ids.dedup();
        let mut requests = Vec::new();
        for id in ids {
            let (office, project) = (self.office(), entered.project);
            let (environment, surroundings) = self
                .store
                .glance(move |unit| {
                    Box::pin(async move {
                        let environment = environments::find(unit, project, id).await?.ok_or_else(|| unknown(id))?;
                        let surroundings = surroundings_in(unit, &office, &environment).await?;
                        Ok::<_, Error>((environment, surroundings))
                    })
                })
                .await?;
            check_usable(&environment)?;
            // Whoever keeps it may not answer: then nobody is let in, and whoever waits does.
            let quiet = self.confirmed_quiet(&environment, &surroundings).await.unwrap_or_default();
            requests.push(asked.of(self, &entered, environment, quiet)?);
        }
        // In the order of the sandboxes, which is what is locked: two who ask for the same ones never wait for each other.
        requests.sort_by_key(|request| request.environment.sandbox_id);
        if let Some([one, other]) =
            requests.windows(2).find(|pair| matches!(pair, [one, other] if one.environment.sandbox_id == other.environment.sandbox_id))
        {
            let (one, other) = (&one.environment.name, &other.environment.name);
            return Err(Error::field(
                "environment_ids",
                format!("`{one}` and `{other}` share a sandbox, and with it their lease: name one of them"),
            ));
        }
        let waits = asked.on_busy() == OnBusy::Wait;
        let deadline = Instant::now() + if waits { asked.wait.map_or(PATIENCE, StandardDuration::from).min(PATIENCE) } else { PATIENCE };
        let leases: Vec<(LeaseId, Option<Standing>)> = match self.write_acquire(&entered, &asked, &requests).await? {
            Written::Before(leases) => leases.into_iter().map(|lease| (lease, None)).collect(),
            Written::Decided(all) => {
                for ((decided, _), request) in all.iter().zip(&requests) {
                    self.follow_up(decided);
                    if let Ok(Answer::Fencing { lease }) = decided.answer {
                        let settled = self.until_settled(&request.environment, decided, lease, deadline).await;
                        // Whoever said that it would wait finds it under its ticket; anybody else is told why not, and holds nothing.
                        if let Err(error) = settled {
                            if waits {
                                return self.fenced_ticket(&entered, request.ticket).await;
                            }
                            self.give_up(&entered, &requests).await?;
                            return Err(error);
                        }
                    }
                }
                requests.iter().zip(all).map(|(request, (_, standing))| (request.lease, standing)).collect()
            }
        };
        let mut items = Vec::new();
        for (lease, standing) in leases {
            let one = match standing {
                Some(standing) => self.told(lease, standing).await?,
                None => self.as_it_stands(&entered, lease).await?,
            };
            if !several {
                return Ok(one);
            }
            if let (Some(environment), Some(lease)) = (one.environment, one.lease) {
                items.push(AcquiredItem { environment, lease });
            }
        }
        // As they were asked for, and not as they were locked.
        items.sort_by_key(|item| asked.environment_ids.iter().flatten().position(|id| *id == item.environment.id));
        Ok(AcquireReply { environment: None, lease: None, items, ticket: None })
    }

    /// An environment for who named none. A repetition finds the one that the first request made.
    async fn make_for(&self, entered: &Entered, asked: &AcquireEnvironment) -> Result<EnvironmentId> {
        let idempotency = entered
            .caller
            .idempotency
            .as_ref()
            .map(|given| Idempotency { key: format!("{}/environment", given.key), fingerprint: given.fingerprint.clone() });
        let caller = Caller { idempotency, ..entered.caller.clone() };
        match self.create_environment(&Entered { caller, ..entered.clone() }, asked.creation()).await? {
            Outcome::New(environment) => Ok(environment.id),
            Outcome::Again(reply) => Ok(serde_json::from_slice::<Environment>(&reply.body).map_err(Error::internal)?.id),
        }
    }

    /// All of it in one unit, in the order of the sandboxes: all of them or none, and nobody waits for another who waits for it.
    async fn write_acquire(&self, entered: &Entered, asked: &AcquireEnvironment, requests: &[Request]) -> Result<Written> {
        let office = self.office();
        let project = entered.project;
        let (caller, on_busy, priority) = (entered.caller.clone(), asked.on_busy(), asked.priority.unwrap_or(0));
        let wait = asked.wait.map_or(0, Duration::as_millis);
        let mut prepared = Vec::new();
        // Of several, one may end what another was told.
        let alone = requests.len() == 1;
        for request in requests {
            let event = Event::Acquire { wanted: request.wanted, on_busy, priority, wait, lease: request.lease, ticket: request.ticket };
            let token_hash = (on_busy == OnBusy::Wait).then(|| token_hash(&office, request.lease)).transpose()?;
            let asked = Asked {
                event,
                of: Some(whereabouts(&request.environment, Terms { token_hash, ..request.terms.clone() })),
                caller: Some(caller.clone()),
                reason: (on_busy == OnBusy::Preempt).then(|| "somebody took it".to_owned()),
                quiet: request.quiet,
                identity: None,
            };
            prepared.push((request.environment.sandbox_id, asked));
        }
        let target = requests.iter().map(|request| request.lease.to_string()).collect::<Vec<_>>().join(",");
        let written: Result<Written, Refused> = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let claim = idempotency::claim(unit, &office.context, &*office.sealer, &caller).await?;
                    match claim {
                        Claim::New => idempotency::note_target(unit, &caller, &target).await?,
                        Claim::Unfinished(Some(known)) => {
                            let before = known.split(',').map(str::parse).collect::<std::result::Result<Vec<LeaseId>, _>>();
                            let before = before.map_err(|_| Refused::Error(idempotency::in_progress()))?;
                            if let [first, ..] = before[..]
                                && is_known(unit, first).await?
                            {
                                return Ok(Written::Before(before));
                            }
                            idempotency::note_target(unit, &caller, &target).await?;
                        }
                        Claim::Unfinished(None) | Claim::Answered(_) => return Err(Refused::Error(idempotency::in_progress())),
                    }
                    let mut all = Vec::new();
                    for (at, (sandbox, asked)) in prepared.into_iter().enumerate() {
                        let (event, drawn, of) = (asked.event, drawn_by(asked.event), asked.of.clone());
                        let decided = decide_in(unit, &office, sandbox, None, asked).await?;
                        match decided {
                            // Refused for good: nothing of this unit is kept, but for whom time has passed, who is seen to by the keeper.
                            Some(decided) if decided.answer.is_err() || decided.quarantined.is_some() => {
                                return Err(Refused::Decided(at, Box::new(decided)));
                            }
                            Some(mut decided) => {
                                if let (Ok(Answer::Fencing { .. }), Some(drawn)) = (&decided.answer, drawn) {
                                    note_drawn(unit, &office, decided.now, &drawn, &of).await?;
                                }
                                let standing = match (&decided.answer, event) {
                                    (Ok(Answer::Pass { .. }), Event::Acquire { lease, .. }) if alone => {
                                        let known = Some((decided.now, std::mem::take(&mut decided.sharers)));
                                        Some(standing_in(unit, &office, project, lease, known).await?)
                                    }
                                    _ => None,
                                };
                                all.push((decided, standing));
                            }
                            None => return Err(Refused::NoSandbox(at)),
                        }
                    }
                    Ok(Written::Decided(all))
                })
            })
            .await;
        match written {
            Ok(written) => Ok(written),
            Err(Refused::Error(error)) => Err(error),
            Err(Refused::NoSandbox(at)) => Err(requests.get(at).map_or_else(no_request, |request| no_sandbox(&request.environment))),
            Err(Refused::Decided(at, decided)) => {
                let environment = &requests.get(at).ok_or_else(no_request)?.environment;
                check_quarantine(environment, &decided)?;
                Err(match decided.answer {
                    Err(refusal) => {
                        self.refused(entered, environment, &decided, refusal).await.detail("environment_id", environment.id.to_string())
                    }
                    Ok(_) => no_request(),
                })
            }
        }
    }

    /// What somebody is told who waits, and is next, while what the holder before left is being stopped.
    async fn fenced_ticket(&self, entered: &Entered, ticket: TicketId) -> Result<AcquireReply> {
        self.get_ticket(entered, ticket, StandardDuration::ZERO).await
    }

    /// Lets go of all of them, and of the key: the same may be asked again under it.
    async fn give_up(&self, entered: &Entered, requests: &[Request]) -> Result<()> {
        let (office, caller) = (self.office(), entered.caller.clone());
        let leases: Vec<_> = requests.iter().map(|request| (request.environment.sandbox_id, request.lease)).collect();
        let all = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let mut all = Vec::new();
                    for (sandbox, lease) in leases {
                        let asked = Asked::by_itself(Event::Release { lease, work: false });
                        all.extend(decide_in(unit, &office, sandbox, None, asked).await?);
                    }
                    idempotency::give_back(unit, &caller).await?;
                    Ok::<_, Error>(all)
                })
            })
            .await?;
        all.iter().for_each(|decided| self.follow_up(decided));
        Ok(())
    }
}

/// Whether it can be done at the end, and by this caller: later nobody would be there to be told.
pub(super) fn check_at_release(at_release: Option<AtRelease>, entered: &Entered, environment: &Environment) -> Result<()> {
    let is_bound = environment.spec.bound_workspace().is_some();
    match at_release {
        Some(AtRelease::Clean) if is_bound => {
            Err(Error::field("at_release", "the workspace is a directory of the host's, which is never emptied by itself"))
        }
        Some(AtRelease::Checkpoint) if is_bound => Err(Error::field(
            "at_release",
            "the workspace is a directory of the host's, which others write to as well: it cannot be sealed",
        )),
        Some(AtRelease::Destroy) => may_destroy(entered, environment),
        _ => Ok(()),
    }
}

/// Who may delete an environment may have it deleted: an owner, or who made it.
fn may_destroy(entered: &Entered, environment: &Environment) -> Result<()> {
    if entered.role.covers(Role::Owner) || environment.created_by == Some(entered.caller.principal) {
        return Ok(());
    }
    Err(Error::new(Code::Forbidden, "only an owner of the project, or who made the environment, may have it deleted")
        .detail("field", "at_release")
        .suggestion("say `at_release: clean` to empty it, or ask an owner"))
}

/// Why a unit was given up, and over which of the environments.
pub(super) enum Refused {
    Error(Error),
    NoSandbox(usize),
    Decided(usize, Box<Decided>),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<stead_store::StoreError> for Refused {
    fn from(error: stead_store::StoreError) -> Self {
        Self::Error(error.into())
    }
}

fn no_request() -> Error {
    Error::internal("an acquisition of nothing")
}

/// Somebody who said that it would wait, and what it asked for.
fn drawn_by(event: Event) -> Option<Ticket> {
    match event {
        Event::Acquire { wanted, on_busy: OnBusy::Wait, priority, wait, lease, ticket } => {
            let deadline = Moment { era: 0, at: 0 }.after(wait);
            Some(Ticket { id: ticket, lease, wanted, priority, rank: 0, wait, deadline })
        }
        _ => None,
    }
}

/// It was next at once, and waits only for what the holder before left: its ticket is served, and can be asked for.
async fn note_drawn(unit: &mut Unit, office: &Office, now: Moment, drawn: &Ticket, of: &Option<Whereabouts>) -> Result<()> {
    let Some(of) = of else { return Ok(()) };
    let ticket = Ticket { deadline: now.after(drawn.wait), ..*drawn };
    tickets::insert(unit, &ticket, of, office.context.now()).await?;
    tickets::end(unit, ticket.id, TicketStatus::Granted, office.context.now()).await?;
    Ok(())
}

async fn is_known(unit: &mut Unit, lease: LeaseId) -> Result<bool> {
    Ok(leases::find(unit, lease).await?.is_some() || tickets::of_lease(unit, lease).await?.is_some())
}
