//! Stores and rows to test with.

use stead_domain::checkpoint::Stack;
use stead_domain::definition::{Spec, template};
use stead_domain::environment::{
    CleanupStatus, Environment, EnvironmentMode, EnvironmentStatus, Lifetime, RetentionPolicy, Runtime, TemplateId,
};
use stead_domain::ids::{EnvironmentId, HostId, ProcessId, ProjectId, SandboxId};
use stead_domain::process::{Process, ProcessStatus, StdinMode};
use stead_domain::project::Project;
use stead_domain::provider::ProviderName;
use stead_domain::sandbox::{Sandbox, SandboxStatus};
use stead_domain::{Context, Error};
use stead_store::{Location, Store, environments, processes, projects, sandboxes};
use stead_testing::PrivatePostgres;
use tempfile::TempDir;

pub struct Fixture {
    pub store: Store,
    pub context: Context,
    pub location: Location,
    _directory: TempDir,
}

impl Fixture {
    pub async fn sqlite() -> Self {
        let directory = TempDir::new().unwrap();
        let location = Location::Sqlite(directory.path().join("stead.db"));
        Self::open(location, directory).await
    }

    pub async fn postgres(server: &PrivatePostgres, name: &str) -> Self {
        Self::open(Location::Postgres(server.database(name)), TempDir::new().unwrap()).await
    }

    async fn open(location: Location, directory: TempDir) -> Self {
        let store = stead_store::open(&location).await.unwrap();
        Self { store, context: stead_testing::context(1).0, location, _directory: directory }
    }

    pub async fn project(&self, handle: &str) -> ProjectId {
        let now = self.context.now();
        let project = Project {
            id: ProjectId::new(&self.context),
            handle: handle.to_owned(),
            name: handle.to_owned(),
            created_at: now,
            updated_at: now,
        };
        let id = project.id;
        self.store.write(move |unit| Box::pin(async move { Ok::<_, Error>(projects::insert(unit, &project).await?) })).await.unwrap();
        id
    }

    pub fn sandbox(&self, project: ProjectId) -> Sandbox {
        let now = self.context.now();
        Sandbox {
            status: SandboxStatus::Ready,
            ..Sandbox::to_be_made(SandboxId::new(&self.context), project, ProviderName::Local, None, now)
        }
    }

    pub fn environment(&self, project: ProjectId, sandbox: SandboxId, name: &str) -> Environment {
        let now = self.context.now();
        let spec: Spec = template(TemplateId::LocalDefault);
        Environment {
            id: EnvironmentId::new(&self.context),
            project_id: project,
            name: name.to_owned(),
            scope: None,
            provider: ProviderName::Local,
            provider_resource_id: None,
            provider_resource_name: None,
            status: EnvironmentStatus::Provisioning,
            environment_mode: EnvironmentMode::Manual,
            lifetime: Lifetime::Explicit,
            purpose: None,
            owned_by: None,
            bound_to_type: None,
            bound_to_id: None,
            created_by: None,
            updated_by: None,
            template_id: None,
            capabilities: Vec::new(),
            spec_version: 1,
            fingerprint: spec.fingerprint(),
            spec,
            runtime: Runtime { provider: Some(ProviderName::Local), ..Runtime::default() },
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
            sandbox_id: sandbox,
            allow_unenforced: false,
            revision: 1,
            stack: Stack::default(),
        }
    }

    /// Inserts a sandbox and an environment on it.
    pub async fn place(&self, project: ProjectId, name: &str) -> Result<Environment, Error> {
        let sandbox = self.sandbox(project);
        let environment = self.environment(project, sandbox.id, name);
        let inserted = environment.clone();
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    sandboxes::insert(unit, &sandbox).await?;
                    environments::insert(unit, &inserted).await?;
                    Ok::<_, Error>(())
                })
            })
            .await?;
        Ok(environment)
    }

    pub fn process(&self, environment: &Environment) -> Process {
        Process {
            id: ProcessId::new(&self.context),
            project_id: environment.project_id,
            environment_id: environment.id,
            sandbox_id: environment.sandbox_id,
            status: ProcessStatus::Starting,
            argv: vec!["sh".to_owned(), "-c".to_owned(), "echo 'größe'; exit 3".to_owned()],
            cwd: None,
            stdin: StdinMode::Closed,
            terminal: None,
            timeout: None,
            spec_version: 1,
            fence: 7,
            started_by: None,
            created_at: self.context.now(),
            exit: None,
            error: None,
            purpose: None,
            warnings: Vec::new(),
        }
    }

    /// Inserts a process in an environment, kept by this host.
    pub async fn started(&self, environment: &Environment, host: Option<HostId>) -> Process {
        let process = self.process(environment);
        let inserted = process.clone();
        self.store
            .write(move |unit| Box::pin(async move { Ok::<_, Error>(processes::insert(unit, &inserted, host).await?) }))
            .await
            .unwrap();
        process
    }
}
