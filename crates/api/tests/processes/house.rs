//! A server, its place, and clients of it.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;
use stead_api::{Limits, Listener, State};
use stead_app::{App, Providers, Retention, Sealer, Settings};
use stead_client::{Client, Endpoint, Key, NewApiKey, NewMember};
use stead_domain::Context;
use stead_domain::ids::{EnvironmentId, HostId, ProcessId};
use stead_domain::principal::{PrincipalKind, Role};
use stead_domain::process_request::NewProcess;
use stead_secrets::{KeySource, Sealing};
use stead_store::Location;
use stead_testing::context;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cloud::{Cloud, CloudProvider};
use crate::memory::MemoryPlace;

fn sealer(context: &Context) -> Arc<dyn Sealer> {
    Arc::new(Sealing::first(KeySource::Variable("5a".repeat(32).into()), context.clone()).unwrap())
}

pub struct House {
    pub cloud: Arc<Cloud>,
    pub context: Context,
    host: HostId,
    directory: TempDir,
    server: Option<Server>,
}

struct Server {
    stop: CancellationToken,
    serving: JoinSet<()>,
    app: App,
}

impl House {
    pub async fn open() -> Self {
        let (context, _) = context(3);
        let host = HostId::new(&context);
        let mut house = Self { cloud: Cloud::new(), context, host, directory: TempDir::new().unwrap(), server: None };
        house.start().await;
        house
    }

    pub fn place(&self) -> &MemoryPlace {
        &self.cloud.place
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub async fn start(&mut self) {
        let store = stead_store::open(&Location::Sqlite(self.directory.path().join("stead.db"))).await.unwrap();
        let provider = Arc::new(CloudProvider { cloud: Arc::clone(&self.cloud), host: self.host });
        let long = Duration::from_secs(1 << 30);
        let settings = Settings {
            version: "0.0.0",
            data_dir: self.directory.path().to_owned(),
            address: "http://127.0.0.1:1".to_owned(),
            allow_unsandboxed: false,
            ports: None,
            retention: Retention { audit: long, tombstones: long, logs: long, log_bytes: 1 << 30 },
        };
        let app = App::new(store, self.context.clone(), Providers::default().with(provider), sealer(&self.context), settings, self.host);
        app.seed("tester", |_| Ok(())).await.unwrap();
        app.start_background();
        let stop = CancellationToken::new();
        let state = State {
            app: app.clone(),
            limits: Arc::new(Limits::per_minute(0)),
            metrics: metrics(),
            started_at: self.context.now(),
            shutdown: Arc::new(Notify::new()),
            stopping: stop.clone(),
        };
        let _ = std::fs::remove_file(self.socket());
        let listener = Listener::Unix(UnixListener::bind(self.socket()).unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(stead_api::serve(vec![listener], stead_api::router(state), 100, stop.clone()));
        self.server = Some(Server { stop, serving, app });
    }

    /// Ends as a server does that was asked to.
    pub async fn stop(&mut self) {
        let server = self.server.take().unwrap();
        server.stop.cancel();
        server.serving.join_all().await;
        server.app.stop().await;
    }

    pub fn client(&self) -> Client {
        self.client_as(None)
    }

    pub fn client_as(&self, key: Option<&str>) -> Client {
        Client::new(Endpoint::Unix { path: self.socket() }, key.map(Key::new), "default", self.context.clone())
    }

    pub async fn environment(&self) -> EnvironmentId {
        self.client().create_environment(&json!({ "name": "web" })).await.unwrap().id
    }

    /// A key of a new member with this role.
    pub async fn key(&self, role: Role) -> String {
        let client = self.client();
        let new = NewMember::Named { name: format!("the {role}"), kind: PrincipalKind::Service, role };
        let member = client.add_member(&new).await.unwrap();
        let new = NewApiKey { name: "key".to_owned(), principal_id: member.principal_id, expires_at: None, tags: Default::default() };
        client.create_api_key(&new).await.unwrap().key
    }

    pub async fn run(&self, environment: EnvironmentId, words: &[&str]) -> ProcessId {
        self.client().start_process(environment, &command(words)).await.unwrap().id
    }
}

/// There is one recorder in a process, however many servers.
fn metrics() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| stead_api::install_metrics().unwrap()).clone()
}

pub fn command(words: &[&str]) -> NewProcess {
    NewProcess { argv: words.iter().map(|word| (*word).to_owned()).collect(), ..NewProcess::default() }
}
