//! Many environments, put into the store directly. They belong to a host that is not there, so that no server looks for their directories.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use stead_domain::checkpoint::Stack;
use stead_domain::definition::{Spec, template};
use stead_domain::environment::{
    CleanupStatus, DefinitionVersion, Environment, EnvironmentMode, EnvironmentStatus, Lifetime, RetentionPolicy, Runtime, TemplateId,
};
use stead_domain::ids::{EnvironmentId, HostId, ProjectId, SandboxId};
use stead_domain::provider::ProviderName;
use stead_domain::sandbox::{Sandbox, SandboxStatus};
use stead_domain::{Context, Error};
use stead_store::{Location, Store, Unit, environments, projects, sandboxes, versions};
use tokio::task::LocalSet;

const AT_ONCE: usize = 500;

/// Puts them there, and gives their ids.
pub async fn fill(location: &Location, count: usize) -> Vec<String> {
    let store = stead_store::open(location).await.unwrap();
    let (context, _) = stead_testing::context(4711);
    let project = project(&store).await;
    let host = HostId::new(&context);
    let mut ids = Vec::with_capacity(count);
    for first in (0..count).step_by(AT_ONCE) {
        let rows: Vec<_> = (first..(first + AT_ONCE).min(count)).map(|number| rows(&context, project, host, number)).collect();
        ids.extend(rows.iter().map(|(_, environment)| environment.id.to_string()));
        let written: Result<(), Error> = store
            .write(move |unit| {
                Box::pin(async move {
                    for (sandbox, environment) in &rows {
                        insert(unit, sandbox, environment).await?;
                    }
                    Ok(())
                })
            })
            .await;
        written.unwrap();
    }
    store.close().await;
    ids
}

/// How many creates a second the store itself takes from so many who each wait for theirs to be durable.
pub async fn creates_per_second(location: &Location, clients: usize, time: Duration) -> f64 {
    let store = stead_store::open(location).await.unwrap();
    let (context, _) = stead_testing::context(clients as u64);
    let project = project(&store).await;
    let host = HostId::new(&context);
    let (started, serial) = (Instant::now(), Rc::new(Cell::new(0)));
    let set = LocalSet::new();
    for _ in 0..clients {
        let (store, context, serial) = (store.clone(), context.clone(), Rc::clone(&serial));
        set.spawn_local(async move {
            while started.elapsed() < time {
                let number = serial.get();
                serial.set(number + 1);
                let (sandbox, mut environment) = rows(&context, project, host, number);
                environment.name = format!("by-{clients}-{number}");
                let written: Result<(), Error> =
                    store.write(move |unit| Box::pin(async move { insert(unit, &sandbox, &environment).await })).await;
                written.unwrap();
            }
        });
    }
    set.await;
    let rate = serial.get() as f64 / started.elapsed().as_secs_f64();
    store.close().await;
    rate
}

async fn project(store: &Store) -> ProjectId {
    let found = store.read(|unit| Box::pin(async move { projects::find_by_handle(unit, "default").await })).await;
    found.unwrap().expect("a server was started on the store once").id
}

async fn insert(unit: &mut Unit, sandbox: &Sandbox, environment: &Environment) -> Result<(), Error> {
    sandboxes::insert(unit, sandbox).await?;
    environments::insert(unit, environment).await?;
    let version = DefinitionVersion {
        version: 1,
        fingerprint: environment.fingerprint.clone(),
        created_by: None,
        created_at: environment.created_at,
        rolled_back_to: None,
        spec: environment.spec.clone(),
    };
    Ok(versions::insert(unit, environment.id, &version).await?)
}

/// One as the server itself would write it.
pub fn rows(context: &Context, project: ProjectId, host: HostId, number: usize) -> (Sandbox, Environment) {
    let now = context.now();
    let (id, sandbox_id) = (EnvironmentId::new(context), SandboxId::new(context));
    let spec: Spec = template(TemplateId::LocalDefault);
    let sandbox = Sandbox {
        status: SandboxStatus::Ready,
        resource_id: Some(sandbox_id.to_string()),
        resource_name: Some(format!("filled-{number}")),
        host_id: Some(host),
        ..Sandbox::to_be_made(sandbox_id, project, ProviderName::Local, Some(id), now)
    };
    let environment = Environment {
        id,
        project_id: project,
        name: format!("filled-{number}"),
        scope: None,
        provider: ProviderName::Local,
        provider_resource_id: None,
        provider_resource_name: None,
        status: EnvironmentStatus::Ready,
        environment_mode: EnvironmentMode::Manual,
        lifetime: Lifetime::Explicit,
        purpose: None,
        owned_by: None,
        bound_to_type: None,
        bound_to_id: None,
        created_by: None,
        updated_by: None,
        template_id: None,
        capabilities: vec!["durable_workspace".to_owned()],
        spec_version: 1,
        fingerprint: spec.fingerprint(),
        spec,
        runtime: Runtime::default(),
        tags: Default::default(),
        contains_secrets: false,
        cleanup_status: CleanupStatus::None,
        retention_policy: RetentionPolicy::Manual,
        lease_expires_at: None,
        held_by: None,
        last_seen_at: None,
        last_reconciled_at: None,
        last_error: None,
        created_at: now,
        updated_at: now,
        destroyed_at: None,
        sandbox_id,
        allow_unenforced: false,
        revision: 1,
        stack: Stack::default(),
    };
    (sandbox, environment)
}
