//! Leases of the client's project, and places in the queues for them.

use std::time::Duration as Time;

use serde::Serialize;
use stead_domain::definition::AtRelease;
use stead_domain::duration::Duration;
use stead_domain::ids::{EnvironmentId, LeaseId, TicketId};
use stead_domain::lease::{
    AcquireReply, BreakRequest, LeaseBind, LeaseMode, LeaseToken, LeaseView, OnBusy, ReleaseRequest, RenewReply, RenewRequest, TicketView,
    TransferRequest,
};
use stead_domain::page::Page;

use crate::{Client, ListOptions, Request, Result};

/// What the server may need to stop what a holder left, and to answer: it takes its own time first.
const STOPPING: Time = Time::from_secs(120);
/// What a reply may take longer than the server was asked to wait.
const ON_TOP: Time = Time::from_secs(30);

/// What somebody asks for. What is left out is for the environment's definition to say, or for the server.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NewLease {
    pub environment_id: Option<EnvironmentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ttl: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lifetime: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<LeaseMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<LeaseBind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_busy: Option<OnBusy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_release: Option<AtRelease>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Client {
    /// Has every call of this client present a lease, whatever it is: it then decides alone whose the call is.
    #[must_use]
    pub fn with_lease(mut self, token: Option<LeaseToken>) -> Self {
        self.lease = token;
        self
    }

    /// The lease, or a place in the queue for it. Under the same key it is told how that stands by now.
    pub async fn acquire(&self, new: &NewLease, key: &str) -> Result<AcquireReply> {
        let request = Request::post(self.project_path("/environments/acquire")).json(new)?.header("idempotency-key", key)?;
        self.json(request.within(Some(STOPPING))).await
    }

    /// How it stands with a place in the queue; waits so long for news of it.
    pub async fn get_ticket(&self, id: TicketId, wait: Time) -> Result<AcquireReply> {
        let stated = Duration::from_millis(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let request = Request::get(self.project_path(&format!("/environments/tickets/{id}"))).query("wait", Some(stated));
        self.json(request.within(Some(wait.saturating_add(ON_TOP)))).await
    }

    /// Gives up a place in the queue. Refused when a lease came of it.
    pub async fn withdraw_ticket(&self, id: TicketId) -> Result<TicketView> {
        self.json(Request::delete(self.project_path(&format!("/environments/tickets/{id}")))).await
    }

    pub async fn renew_lease(&self, id: LeaseId) -> Result<RenewReply> {
        self.json(Request::post(self.lease_path(id, "/renew")).json(&RenewRequest::default())?).await
    }

    /// Answers with how it ended, also when that was before. What still runs is stopped first.
    pub async fn release_lease(&self, id: LeaseId, at_release: Option<AtRelease>) -> Result<LeaseView> {
        self.json(Request::post(self.lease_path(id, "/release")).json(&ReleaseRequest { at_release })?.within(Some(STOPPING))).await
    }

    /// Ends somebody's lease.
    pub async fn break_lease(&self, id: LeaseId, reason: &str) -> Result<LeaseView> {
        self.json(Request::post(self.lease_path(id, "/break")).json(&BreakRequest { reason: reason.to_owned() })?).await
    }

    /// Hands a lease on; what runs goes on under the successor's.
    /// Under one key, so that a lost reply can be asked for again: it has the only token.
    pub async fn transfer_lease(&self, id: LeaseId, transfer: &TransferRequest, key: &str) -> Result<AcquireReply> {
        self.json(Request::post(self.lease_path(id, "/transfer")).json(transfer)?.header("idempotency-key", key)?).await
    }

    pub async fn get_lease(&self, id: LeaseId) -> Result<LeaseView> {
        self.json(Request::get(self.lease_path(id, ""))).await
    }

    /// Those that are held, the latest first; with `ended` all of them.
    pub async fn list_leases(&self, ended: bool, options: &ListOptions) -> Result<Page<LeaseView>> {
        let request = Request::get(self.project_path("/environments/leases")).query("ended", ended.then_some(true));
        self.json(options.apply(request)).await
    }

    /// All that an environment ever had, the latest first. Those who share a sandbox share its leases.
    pub async fn leases_of(&self, environment: EnvironmentId, options: &ListOptions) -> Result<Page<LeaseView>> {
        self.json(options.apply(Request::get(self.environment_path(environment, "/leases")))).await
    }

    fn lease_path(&self, id: LeaseId, rest: &str) -> String {
        self.project_path(&format!("/environments/leases/{id}{rest}"))
    }
}
