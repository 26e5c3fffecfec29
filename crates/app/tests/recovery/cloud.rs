//! A provider whose things outlive the server, and which does at each step what a test planned for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use stead_app::{Listed, NewSandbox, Observation, Place, Provider, ProviderError, Resource};
use stead_domain::ids::{HostId, SandboxId};
use stead_domain::posture::{Capabilities, Enforcement};
use stead_domain::provider::ProviderName;
use stead_domain::sandbox::Sandbox;
use tokio::sync::Semaphore;

use crate::memory::MemoryPlace;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Create,
    Inspect,
    Destroy,
    List,
}

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This time it goes well.
    Nothing,
    /// It says no, and nothing was done.
    Refuse,
    /// It is not reached, and nothing was done.
    Unreachable,
    /// It was done, and the reply is lost.
    LoseReply,
    /// It never answers, and nothing was done: where a crash is put before the work.
    HangBefore,
    /// It was done and never answers: where a crash is put after the work.
    HangAfter,
}

pub const FAILURES: [Fault; 3] = [Fault::Refuse, Fault::Unreachable, Fault::LoseReply];
pub const CRASHES: [Fault; 2] = [Fault::HangBefore, Fault::HangAfter];

/// What is at the provider, and what it will do.
pub struct Cloud {
    /// How many things there are for each sandbox: more than one would be a leak.
    things: Mutex<BTreeMap<SandboxId, usize>>,
    plan: Mutex<VecDeque<(Step, Fault)>>,
    /// Counts calls that hang.
    hung: Semaphore,
    /// Whether its things are made before their rows.
    pub at_once: AtomicBool,
    /// Where its sandboxes run processes.
    pub place: Arc<MemoryPlace>,
    /// At each removal of a sandbox, how often an environment had been put to sleep by then.
    pub asleep_at_removal: Mutex<Vec<usize>>,
}

impl Cloud {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            things: Mutex::default(),
            plan: Mutex::default(),
            hung: Semaphore::new(0),
            at_once: AtomicBool::new(false),
            place: MemoryPlace::new(),
            asleep_at_removal: Mutex::default(),
        })
    }

    /// The next call of this step goes wrong, after those that were planned before.
    pub fn plan(&self, step: Step, fault: Fault) {
        self.plan.lock().unwrap().push_back((step, fault));
    }

    pub fn forget_plans(&self) {
        self.plan.lock().unwrap().clear();
    }

    pub fn has_plans(&self) -> bool {
        !self.plan.lock().unwrap().is_empty()
    }

    /// Waits until a call hangs.
    pub async fn until_hung(&self) {
        self.hung.acquire().await.unwrap().forget();
    }

    pub fn things(&self) -> BTreeMap<SandboxId, usize> {
        self.things.lock().unwrap().clone()
    }

    /// Something that carries our label and that nobody asked for.
    pub fn put(&self, sandbox: SandboxId) {
        *self.things.lock().unwrap().entry(sandbox).or_default() += 1;
    }

    /// Something is lost behind our back.
    pub fn lose(&self, sandbox: SandboxId) {
        self.things.lock().unwrap().remove(&sandbox);
    }

    async fn call<T>(&self, step: Step, work: impl FnOnce() -> T) -> Result<T, ProviderError> {
        let fault = {
            let mut plan = self.plan.lock().unwrap();
            let at = plan.iter().position(|(planned, _)| *planned == step);
            at.and_then(|at| plan.remove(at)).map(|(_, fault)| fault)
        };
        match fault {
            None | Some(Fault::Nothing) => Ok(work()),
            Some(Fault::Refuse) => Err(ProviderError::Refused("planned".to_owned())),
            Some(Fault::Unreachable) => Err(ProviderError::Unreachable("planned".to_owned())),
            Some(Fault::LoseReply) => {
                work();
                Err(ProviderError::Unreachable("planned".to_owned()))
            }
            Some(Fault::HangBefore) => self.hang().await,
            Some(Fault::HangAfter) => {
                work();
                self.hang().await
            }
        }
    }

    async fn hang<T>(&self) -> T {
        self.hung.add_permits(1);
        std::future::pending().await
    }
}

pub struct CloudProvider {
    pub cloud: Arc<Cloud>,
    pub host: HostId,
}

#[async_trait]
impl Provider for CloudProvider {
    fn name(&self) -> ProviderName {
        ProviderName::Local
    }

    fn capabilities(&self) -> Capabilities {
        let any = [("*", Enforcement::Enforced)];
        ["sandbox.mode", "sandbox.workspace_access", "sandbox.network_access", "sandbox.package_policy", "secret_bindings.delivery"]
            .into_iter()
            .fold(Capabilities::default(), |capabilities, field| capabilities.with(field, &any))
    }

    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    fn host(&self) -> Option<HostId> {
        Some(self.host)
    }

    fn place(&self) -> Option<&dyn Place> {
        Some(&*self.cloud.place)
    }

    fn is_made_at_once(&self) -> bool {
        self.cloud.at_once.load(Ordering::Relaxed)
    }

    async fn create(&self, request: &NewSandbox) -> Result<Resource, ProviderError> {
        let resource = Resource { id: request.id.to_string(), name: request.name.clone() };
        let make = || {
            // What it made before it finds by the label.
            self.cloud.things.lock().unwrap().entry(request.id).or_insert(1);
        };
        self.cloud.call(Step::Create, make).await.map(|()| resource)
    }

    async fn inspect(&self, sandbox: &Sandbox) -> Result<Observation, ProviderError> {
        let look = || self.cloud.things.lock().unwrap().contains_key(&sandbox.id);
        let exists = self.cloud.call(Step::Inspect, look).await?;
        Ok(Observation { exists, state: if exists { "ready" } else { "missing" }.to_owned(), message: None })
    }

    async fn start(&self, _sandbox: &Sandbox) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn stop(&self, _sandbox: &Sandbox) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn destroy(&self, sandbox: SandboxId, _resource_id: Option<&str>) -> Result<(), ProviderError> {
        self.cloud.asleep_at_removal.lock().unwrap().push(self.cloud.place.slept().len());
        self.cloud.call(Step::Destroy, || self.cloud.lose(sandbox)).await
    }

    async fn list(&self) -> Result<Vec<Listed>, ProviderError> {
        let list = || {
            let things = self.cloud.things.lock().unwrap();
            things.keys().map(|sandbox| Listed { sandbox: *sandbox, resource_id: sandbox.to_string() }).collect()
        };
        self.cloud.call(Step::List, list).await
    }

    async fn check(&self) -> Result<String, ProviderError> {
        Ok("fine".to_owned())
    }

    async fn usage(&self) -> Result<Vec<(String, u64)>, ProviderError> {
        Ok(Vec::new())
    }
}
