//! From a configuration to a server that answers, and back.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use stead_api::{Limits, Listener, Ports, State};
use stead_app::{App, Provider, Providers, Retention, Settings};
use stead_domain::port_origin::{PortDomain, PortOrigin};
use stead_domain::{Context, Error, Result};
use stead_github::Github;
use stead_providers::local::Local;
use stead_store::{Location, Store, StoreError, settings};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::configuration::Configuration;
use super::directory::DataDirectory;
use super::github::GithubApp;
use super::{abilities, inside, keys, secret_sources, sockets};
use crate::{roles, world};

/// The name under which the store keeps the id of this installation, the owner label on everything made for it.
pub const INSTALLATION: &str = "installation";

pub async fn serve(mut configuration: Configuration) -> Result<()> {
    start_logging(configuration.log_as_json);
    // Nothing that the server writes is anybody else's to read.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let context = world::context();
    let directory = DataDirectory::open(&configuration.data_dir)?;
    if configuration.detach {
        // Out of the way of the directory that the user stood in.
        let _ = std::env::set_current_dir(&configuration.data_dir);
    }
    let (abilities, finding) = abilities::find_out(&configuration.data_dir);
    let store = open_store(&configuration).await?;
    let installation = installation(&store, &context).await?;
    let host = directory.host_id(&context)?;
    let (tcp, address) = sockets::bind_tcp(&configuration).await?;
    let tls = configuration.tls.as_ref().map(|(certificate, key)| sockets::load_tls(certificate, key)).transpose()?;
    let url = format!("{}://{address}", if tls.is_some() { "https" } else { "http" });
    let bound = sockets::bind_ports(&configuration).await?;
    let origin = bound.as_ref().map(|(_, address)| origin(&configuration, *address));

    let local = Local::open(&configuration.data_dir, &installation, host, configuration.allow_host_paths.clone())?;
    let beside = roles::beside(
        &configuration.data_dir,
        configuration.egress_allow.clone(),
        configuration.egress_roots.clone(),
        configuration.keep_process_log,
    );
    let local: Arc<dyn Provider> = Arc::new(local.with_processes(&configuration.data_dir, beside, abilities));
    let mut providers = Providers::default().with(local);
    for (name, served_by) in &configuration.provider_aliases {
        providers.alias(*name, *served_by)?;
    }
    let app_settings = Settings {
        version: env!("CARGO_PKG_VERSION"),
        data_dir: configuration.data_dir.clone(),
        address: url.clone(),
        allow_unsandboxed: configuration.allow_unsandboxed,
        ports: origin.clone(),
        retention: Retention {
            audit: configuration.keep_audit.into(),
            tombstones: configuration.keep_tombstones.into(),
            logs: configuration.keep_logs.into(),
            log_bytes: configuration.keep_environment_logs,
        },
    };
    let sources = secret_sources::build(&configuration.secret_sources, &|name| std::env::var(name).ok())?;
    let sealer = keys::sealer(&configuration, &store, &context).await?;
    let app = App::new(store, context.clone(), providers, sealer, app_settings, host).with_secret_sources(sources);
    let app = match configuration.github.take() {
        Some(GithubApp { options, permissions }) => {
            tracing::info!(app = options.app_id, web = %options.web, api = %options.api, "tokens for repositories come from a GitHub App");
            app.with_git_host(Arc::new(Github::new(options, context.clone())), permissions)
        }
        None => app,
    };
    app.finish_key_rotation().await?;
    if !app.seed(&user_name(), |key| directory.write("owner.key", key)).await? {
        // Another server on the same database was first: the key in our hands opens nothing.
        directory.remove("owner.key");
    }
    // Before anything is started that may ask.
    let asked_inside = app.git_host().map(|_| inside::open(&configuration.data_dir)).transpose()?;
    app.start_background();

    let shutdown = Arc::new(Notify::new());
    let stop = CancellationToken::new();
    let metrics = stead_api::install_metrics().map_err(Error::internal)?;
    let limits = Arc::new(Limits::per_minute(configuration.rate_limit));
    let ports = origin.map(|origin| Ports::new(app.clone(), Arc::clone(&limits), origin, stop.clone()));
    let state = State {
        app: app.clone(),
        limits,
        metrics: metrics.clone(),
        started_at: context.now(),
        shutdown: Arc::clone(&shutdown),
        stopping: stop.clone(),
    };
    // Before anybody is told the address: who ends the server at once is heard.
    let ending = Signals::listen()?;
    let (unix, socket_file) = sockets::bind_unix(&configuration.socket)?;
    directory.write("address", &url)?;
    announce(&url, app.settings().ports.as_ref(), &configuration);
    let listeners = vec![unix, Listener::Tcp(tcp, tls.clone())];
    let connections = sockets::connections(listeners.len() + usize::from(bound.is_some()));
    let serving = stead_api::serve(listeners, stead_api::router(state), connections, stop.clone());
    let serving_ports = async {
        if let (Some(ports), Some((listener, _))) = (ports, bound) {
            let listeners = vec![Listener::Tcp(listener, tls)];
            tokio::join!(ports.tend(), stead_api::serve(listeners, stead_api::ports_router(ports.clone()), connections, stop.clone()));
        }
    };
    let serving_inside = async {
        if let Some(listener) = asked_inside {
            stead_api::serve_inside(listener, app.clone(), stop.clone()).await;
        }
    };
    let upkeep = stop.run_until_cancelled(stead_api::keep_metrics_up(metrics));
    tokio::join!(serving, serving_ports, serving_inside, upkeep, async {
        ending.wait(&shutdown).await;
        stop.cancel();
    });
    finding.end().await;
    app.stop().await;
    socket_file.remove();
    directory.remove("address");
    tracing::info!("ended");
    Ok(())
}

pub async fn open_store(configuration: &Configuration) -> Result<Store> {
    stead_store::open(&location(configuration)).await.map_err(|error| explain(configuration, error))
}

/// Opens the store to read it: its schema stays as it is.
pub async fn open_store_as_it_is(configuration: &Configuration) -> Result<Store> {
    stead_store::open_as_it_is(&location(configuration)).await.map_err(|error| explain(configuration, error))
}

fn location(configuration: &Configuration) -> Location {
    match &configuration.database {
        Some(url) => Location::Postgres(url.clone()),
        None => Location::Sqlite(configuration.data_dir.join("stead.db")),
    }
}

fn explain(configuration: &Configuration, error: StoreError) -> Error {
    let what = if configuration.database.is_some() { "the database" } else { "the store in the data directory" };
    match error {
        StoreError::Unreachable { .. } | StoreError::TooNew { .. } | StoreError::TooOld { .. } => error.into(),
        error => {
            let cause = error.to_string();
            let error = Error::from(error);
            // At the start the operator is the reader: the cause is what helps.
            Error::new(error.code(), format!("{what} cannot be opened: {cause}"))
                .suggestion(error.suggested().unwrap_or("check --database and --data-dir; `stead doctor` looks closer"))
        }
    }
}

async fn installation(store: &Store, context: &Context) -> Result<String> {
    let random: [u8; 16] = context.random();
    let fresh: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    store.write(move |unit| Box::pin(async move { Ok::<_, Error>(settings::get_or_set(unit, INSTALLATION, &fresh).await?) })).await
}

/// How the operator is called in records.
fn user_name() -> String {
    std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "operator".to_owned())
}

fn start_logging(as_json: bool) {
    let filter = EnvFilter::try_from_env("STEAD_LOG").unwrap_or_else(|_| EnvFilter::new("info,sqlx=warn"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // A second start in one process (tests) keeps the first.
    let _ = if as_json { builder.json().try_init() } else { builder.try_init() };
}

/// How ports are reached: as the operator says, or as they are served here.
fn origin(configuration: &Configuration, address: SocketAddr) -> PortOrigin {
    let PortDomain { domain, outside } = configuration.ports_domain.clone();
    let (secure, port) = outside.unwrap_or((configuration.tls.is_some(), Some(address.port())));
    PortOrigin { secure, domain, port }
}

/// The address goes to stdout, for people and for scripts that wait for it.
fn announce(url: &str, ports: Option<&PortOrigin>, configuration: &Configuration) {
    let ports = ports.map_or_else(|| "off".to_owned(), PortOrigin::pattern);
    tracing::info!(address = url, ports, socket = %configuration.socket.display(), data_dir = %configuration.data_dir.display(), "serving");
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{url}").and_then(|()| out.flush());
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).map_err(Error::internal);
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn wait(mut self, shutdown: &Notify) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = shutdown.notified() => {}
        }
        tracing::info!("ending: no new requests, those under way finish");
    }
}
