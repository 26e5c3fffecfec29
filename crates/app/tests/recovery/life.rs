//! A world that lasts, and the lives of servers in it. A crash ends everything that a life had under way, and nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use stead_app::environments::NewEnvironment;
use stead_app::identity::access::{Admitted, Arrival};
use stead_app::{Access, App, Entered, Outcome, Presented, Providers, Retention, Sealer, Settings};
use stead_domain::environment::{Environment, EnvironmentStatus};
use stead_domain::ids::{EnvironmentId, HostId, RequestId, SandboxId};
use stead_domain::principal::{Idempotency, Role};
use stead_domain::sandbox::Sandbox;
use stead_domain::{Context, Error, Result};
use stead_secrets::{KeySource, Sealing};
use stead_store::{Dialect, Location, Store};
use stead_testing::{PrivatePostgres, TestClock};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::cloud::{Cloud, CloudProvider};

pub struct World {
    location: Location,
    pub context: Context,
    pub clock: Arc<TestClock>,
    pub cloud: Arc<Cloud>,
    pub host: HostId,
    _directory: TempDir,
}

fn sealer(context: &Context) -> Arc<dyn Sealer> {
    Arc::new(Sealing::first(KeySource::Variable("5a".repeat(32).into()), context.clone()).unwrap())
}

impl World {
    pub fn sqlite() -> Self {
        let directory = TempDir::new().unwrap();
        let location = Location::Sqlite(directory.path().join("stead.db"));
        Self::on(location, directory)
    }

    pub fn postgres(server: &PrivatePostgres, name: &str) -> Self {
        Self::on(Location::Postgres(server.database(name)), TempDir::new().unwrap())
    }

    fn on(location: Location, directory: TempDir) -> Self {
        let (context, clock) = stead_testing::context(7);
        let host = HostId::new(&context);
        let world = Self { location, context, clock, cloud: Cloud::new(), host, _directory: directory };
        let first = world.live();
        first.run(async {
            first.app.seed("tester", |_| Ok(())).await.unwrap();
            watch_transitions(&first.store).await;
        });
        first.end();
        world
    }

    /// A server on this world's store.
    pub fn live(&self) -> Life {
        self.live_on(self.host, &self.cloud, Duration::from_secs(3600))
    }

    /// One on another host, or with less patience.
    pub fn live_on(&self, host: HostId, cloud: &Arc<Cloud>, patience: Duration) -> Life {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let store = runtime.block_on(stead_store::open(&self.location)).unwrap();
        let provider = Arc::new(CloudProvider { cloud: Arc::clone(cloud), host });
        let settings = Settings {
            version: "0.0.0",
            data_dir: "/nowhere".into(),
            address: "http://127.0.0.1:1".to_owned(),
            allow_unsandboxed: false,
            ports: None,
            retention: Retention {
                audit: Duration::from_secs(1 << 30),
                tombstones: Duration::from_secs(1 << 30),
                logs: Duration::from_secs(1 << 30),
                log_bytes: 4 << 20,
            },
        };
        let providers = Providers::default().with_patience(provider, patience);
        let app = App::new(store.clone(), self.context.clone(), providers, sealer(&self.context), settings, host);
        Life { runtime, app, store, location: self.location.clone(), context: self.context.clone() }
    }
}

/// Lets the database itself write down every change of a state, so that none goes unseen.
async fn watch_transitions(store: &Store) {
    let statements: &[&'static str] = match store.dialect() {
        Dialect::Sqlite => &[
            "CREATE TABLE transitions (id TEXT NOT NULL, was TEXT NOT NULL, is_now TEXT NOT NULL)",
            "CREATE TRIGGER watch AFTER UPDATE OF status ON environments WHEN old.status <> new.status
             BEGIN INSERT INTO transitions VALUES (new.id, old.status, new.status); END",
        ],
        Dialect::Postgres => &[
            "CREATE TABLE transitions (id TEXT NOT NULL, was TEXT NOT NULL, is_now TEXT NOT NULL)",
            "CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN INSERT INTO transitions VALUES (new.id, old.status, new.status); RETURN new; END'",
            "CREATE TRIGGER watch AFTER UPDATE OF status ON environments FOR EACH ROW WHEN (old.status <> new.status) EXECUTE FUNCTION watch()",
        ],
    };
    for statement in statements {
        let statement: &'static str = statement;
        store.write(move |unit| Box::pin(async move { unit.execute(statement, &[]).await })).await.unwrap();
    }
}

pub struct Life {
    runtime: Runtime,
    pub app: App,
    pub store: Store,
    location: Location,
    context: Context,
}

/// Ends what a life that is over still has under way in the database. Others that are connected connect again.
async fn hang_up(location: &Location) {
    const SQL: &str = "SELECT COUNT(*) FILTER (WHERE pg_terminate_backend(pid, 30000)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    let store = stead_store::open(location).await.unwrap();
    store.read(|unit| Box::pin(async move { unit.fetch(SQL, &[]).await })).await.unwrap();
    store.close().await;
}

/// One row of `environments`.
#[derive(Clone, Debug)]
pub struct Record {
    pub id: EnvironmentId,
    pub name: String,
    pub status: EnvironmentStatus,
    pub sandbox: SandboxId,
}

impl Life {
    pub fn run<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    /// Starts work that nobody waits for yet.
    pub fn start<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.runtime.spawn(work)
    }

    /// Everything that was under way stops where it is. What the database was already given it carries out, as if the crash had come a
    /// moment later; nothing of it is left for the next life to be surprised by.
    pub fn crash(self) {
        let Self { runtime, app, store, location, .. } = self;
        drop(app);
        runtime.shutdown_timeout(Duration::from_secs(30));
        let runtime = Runtime::new().unwrap();
        match store.dialect() {
            Dialect::Sqlite => runtime.block_on(store.close()),
            Dialect::Postgres => {
                drop(store);
                runtime.block_on(hang_up(&location));
            }
        }
    }

    /// Ends as a server does that was asked to.
    pub fn end(self) {
        self.run(self.app.stop());
    }

    pub async fn enter(&self, key: Option<&str>) -> Entered {
        enter(&self.app, &self.context, key).await
    }

    pub fn create(&self, name: &str, key: Option<&str>) -> Result<Outcome<Environment>> {
        self.run(create(self.app.clone(), self.context.clone(), name.to_owned(), key.map(str::to_owned)))
    }

    /// Creates and gives the record, whether it is new or told again.
    pub fn created(&self, name: &str, key: Option<&str>) -> Environment {
        record_of(self.create(name, key).unwrap())
    }

    pub fn start_create(&self, name: &str, key: Option<&str>) -> JoinHandle<Result<Outcome<Environment>>> {
        self.start(create(self.app.clone(), self.context.clone(), name.to_owned(), key.map(str::to_owned)))
    }

    pub fn delete(&self, id: EnvironmentId) -> Result<Environment> {
        self.run(async { self.app.delete_environment(&self.enter(None).await, id).await })
    }

    pub fn start_delete(&self, id: EnvironmentId) -> JoinHandle<Result<Environment>> {
        let (app, context) = (self.app.clone(), self.context.clone());
        self.start(async move {
            let entered = enter(&app, &context, None).await;
            app.delete_environment(&entered, id).await
        })
    }

    pub fn reconcile(&self, id: EnvironmentId) -> Result<Environment> {
        self.run(async { self.app.reconcile_environment(&self.enter(None).await, id).await }).map(record_of)
    }

    pub fn get(&self, id: EnvironmentId) -> Environment {
        self.run(async { self.app.get_environment(&self.enter(None).await, id).await }).unwrap()
    }

    pub fn sandbox(&self, id: SandboxId) -> Sandbox {
        self.run(async { self.app.get_sandbox(&self.enter(None).await, id).await }).unwrap()
    }

    pub fn records(&self) -> Vec<Record> {
        let rows = self.run(self.store.read(|unit| {
            Box::pin(async move { unit.fetch("SELECT id, name, status, sandbox_id FROM environments ORDER BY id", &[]).await })
        }));
        let read = |row: &stead_store::Row| {
            let mut row = row.reader();
            Ok::<_, stead_store::StoreError>(Record { id: row.parsed()?, name: row.text()?, status: row.parsed()?, sandbox: row.parsed()? })
        };
        rows.unwrap().iter().map(|row| read(row).unwrap()).collect()
    }

    /// All records of a name.
    pub fn named(&self, name: &str) -> Vec<Record> {
        self.records().into_iter().filter(|record| record.name == name).collect()
    }

    pub fn pass(&self) {
        self.run(self.app.reconcile_unfinished()).unwrap();
    }

    /// A few passes and sweeps: as many as a healthy world needs to come to rest.
    pub fn settle(&self) {
        for _ in 0..3 {
            self.pass();
        }
        let mut sightings = HashMap::new();
        for _ in 0..3 {
            self.run(self.app.sweep(&mut sightings));
        }
    }

    /// Nothing is half-made, nothing is there twice, nothing is left over, and no state followed one that it may not follow.
    pub fn assert_at_rest(&self, cloud: &Cloud) {
        let records = self.records();
        let sandboxes = self.sandboxes();
        let things = cloud.things();
        for record in &records {
            assert!(matches!(record.status, EnvironmentStatus::Ready | EnvironmentStatus::Destroyed), "{record:?}");
            if record.status == EnvironmentStatus::Ready {
                assert_eq!(things.get(&record.sandbox), Some(&1), "{record:?} has no place, or two");
            }
        }
        for (sandbox, status) in &sandboxes {
            assert!(matches!(status.as_str(), "ready" | "destroyed"), "{sandbox} is {status}");
            assert_eq!(things.contains_key(sandbox), status == "ready", "{sandbox} is {status}");
        }
        for sandbox in things.keys() {
            assert!(sandboxes.contains_key(sandbox), "{sandbox} is nobody's");
        }
        let mut names: Vec<&str> = records.iter().filter(|record| record.status.is_live()).map(|record| record.name.as_str()).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name is there twice: {names:?}");
        self.assert_legal_transitions();
    }

    fn sandboxes(&self) -> HashMap<SandboxId, String> {
        let rows = self
            .run(self.store.read(|unit| Box::pin(async move { unit.fetch("SELECT id, status FROM sandboxes ORDER BY id", &[]).await })))
            .unwrap();
        rows.iter()
            .map(|row| {
                (row.reader().parsed().unwrap(), {
                    let mut row = row.reader();
                    row.text().unwrap();
                    row.text().unwrap()
                })
            })
            .collect()
    }

    pub fn assert_legal_transitions(&self) {
        let rows = self
            .run(self.store.read(|unit| Box::pin(async move { unit.fetch("SELECT id, was, is_now FROM transitions", &[]).await })))
            .unwrap();
        for row in rows {
            let mut row = row.reader();
            let (id, was, is_now) = (row.text().unwrap(), row.parsed::<EnvironmentStatus>().unwrap(), row.parsed().unwrap());
            assert!(was.may_become(is_now), "{id} went from {was} to {is_now}");
        }
    }
}

pub fn record_of(outcome: Outcome<Environment>) -> Environment {
    match outcome {
        Outcome::New(environment) => environment,
        Outcome::Again(reply) => serde_json::from_slice(&reply.body).unwrap(),
    }
}

pub async fn enter(app: &App, context: &Context, key: Option<&str>) -> Entered {
    let idempotency = key.map(|key| Idempotency { key: key.to_owned(), fingerprint: format!("fingerprint of {key}") });
    let arrival = Arrival { source: "test".to_owned(), request_id: RequestId::new(context), lease: None };
    let admitted = app.admit(Access::Project(Role::Owner), Presented::Socket, Some("default".to_owned()), arrival).await;
    match admitted.unwrap() {
        Admitted::Entered(mut entered) => {
            entered.caller.idempotency = idempotency;
            entered
        }
        other => panic!("{other:?}"),
    }
}

async fn create(app: App, context: Context, name: String, key: Option<String>) -> Result<Outcome<Environment>, Error> {
    let entered = enter(&app, &context, key.as_deref()).await;
    app.create_environment(&entered, NewEnvironment { name: Some(name), ..NewEnvironment::default() }).await
}
