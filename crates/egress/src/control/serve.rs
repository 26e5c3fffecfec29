//! The relay's side of the control socket.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::protocol::{Failure, LAST, Listed, PROTOCOL, Reply, Request, Socket};
use super::wire;
use crate::environment::{Environment, Shared};
use crate::policy::{Policy, PolicyText};
use crate::sources::Source;

/// All environments. One lock: changes are rare, and one that removes is over before the next begins.
pub(crate) struct Registry {
    shared: Arc<Shared>,
    environments: Mutex<BTreeMap<String, Held>>,
    stop: CancellationToken,
    /// Set by [`Request::Retire`]; its reply goes out first.
    retired: AtomicBool,
}

struct Held {
    environment: Arc<Environment>,
    policy: PolicyText,
    sockets: Vec<Socket>,
}

/// A relay with no environment and no server ends by itself after so many looks.
const IDLE: u32 = 6;
const LOOK_EVERY: Duration = Duration::from_secs(10);

type Answer = Result<Reply, (Failure, String)>;

/// Takes connections until it is stopped; then everything is closed.
pub(crate) async fn serve(listener: UnixListener, shared: Arc<Shared>, stop: CancellationToken) {
    let registry = Arc::new(Registry { shared, environments: Mutex::default(), stop: stop.clone(), retired: AtomicBool::new(false) });
    let tasks = TaskTracker::new();
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) if is_ours(&stream) => {
                    let (registry, stop) = (registry.clone(), stop.clone());
                    tasks.spawn(async move { stop.run_until_cancelled(converse(&registry, stream)).await });
                }
                Ok(_) => tracing::warn!("a process of another user was turned away from the control socket"),
                Err(error) => {
                    tracing::warn!(%error, "the control socket cannot take a connection");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    };
    let idling = async {
        let mut idle = 0;
        while idle < IDLE {
            sleep(LOOK_EVERY).await;
            let needed = !tasks.is_empty() || !registry.environments.lock().await.is_empty();
            idle = if needed { 0 } else { idle + 1 };
        }
        stop.cancel();
    };
    stop.run_until_cancelled(async { tokio::join!(accepting, idling) }).await;
    tasks.close();
    tasks.wait().await;
    for held in registry.environments.lock().await.values() {
        held.environment.remove().await;
    }
}

fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}

async fn converse(registry: &Registry, stream: UnixStream) {
    let mut greeted = false;
    loop {
        let (request, descriptors) = match wire::receive::<serde_json::Value>(&stream).await {
            Ok(Some(received)) => received,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "a control connection broke off");
                return;
            }
        };
        let answer = match serde_json::from_value::<Request>(request) {
            Ok(Request::Hello { protocol }) => {
                greeted = (LAST..=PROTOCOL).contains(&protocol);
                hello(protocol)
            }
            Ok(_) if !greeted => Err((Failure::Protocol, "say hello first".to_owned())),
            Ok(request) => registry.answer(request, descriptors).await,
            Err(error) => Err((Failure::Malformed, error.to_string())),
        };
        let reply = answer.unwrap_or_else(|(code, message)| Reply::Failed { code, message });
        let sent = wire::send(&stream, &reply, &[]).await;
        if registry.retired.load(Ordering::SeqCst) {
            registry.stop.cancel();
        }
        if sent.is_err() {
            return;
        }
    }
}

fn hello(protocol: u32) -> Answer {
    if !(LAST..=PROTOCOL).contains(&protocol) {
        return Err((Failure::Protocol, format!("the relay speaks protocols {LAST} to {PROTOCOL}, not {protocol}")));
    }
    Ok(Reply::Hello { protocol, version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() })
}

impl Registry {
    async fn answer(&self, request: Request, descriptors: Vec<OwnedFd>) -> Answer {
        let mut environments = self.environments.lock().await;
        let missing = |environment: &str| (Failure::NoSuchEnvironment, format!("there is no environment `{environment}` here"));
        match request {
            Request::Add { .. } if self.retired.load(Ordering::SeqCst) => return Err((Failure::Busy, "the relay is ending".to_owned())),
            Request::Add { environment: id, policy: text, sockets } => {
                check_id(&id)?;
                let policy = parse(&text)?;
                let sources = Source::all(&sockets, descriptors).map_err(|message| (Failure::InvalidSocket, message))?;
                // The old one is gone before the new one begins: they would share a journal and a name.
                if let Some(old) = environments.remove(&id) {
                    old.environment.remove().await;
                }
                let environment = Environment::new(&id, policy, self.shared.clone());
                Source::start(sources, &environment);
                environments.insert(id, Held { environment, policy: text, sockets });
            }
            Request::Update { environment: id, policy: text } => {
                let policy = parse(&text)?;
                let held = environments.get_mut(&id).ok_or_else(|| missing(&id))?;
                held.environment.set_policy(policy);
                held.policy = text;
            }
            Request::Broker { environment: id, broker } => {
                let held = environments.get(&id).ok_or_else(|| missing(&id))?;
                held.environment.set_broker(&broker).map_err(|error| (Failure::InvalidBroker, error.to_string()))?;
            }
            Request::Remove { environment: id } => {
                let held = environments.remove(&id).ok_or_else(|| missing(&id))?;
                held.environment.remove().await;
            }
            Request::List => {
                let listed = |(id, held): (&String, &Held)| Listed {
                    environment: id.clone(),
                    policy: held.policy.clone(),
                    sockets: held.sockets.clone(),
                    connections: held.environment.connections(),
                };
                return Ok(Reply::List { environments: environments.iter().map(listed).collect() });
            }
            Request::Ping => {}
            Request::Retire if environments.is_empty() => self.retired.store(true, Ordering::SeqCst),
            Request::Retire => return Err((Failure::Busy, format!("the relay still has {} environments", environments.len()))),
            Request::Hello { protocol } => return hello(protocol),
        }
        Ok(Reply::Done)
    }
}

fn parse(text: &PolicyText) -> Result<Policy, (Failure, String)> {
    Policy::parse(text).map_err(|error| (Failure::InvalidPolicy, error.to_string()))
}

/// It becomes part of a file's name.
fn check_id(id: &str) -> Result<(), (Failure, String)> {
    let plain = (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if plain {
        Ok(())
    } else {
        Err((Failure::InvalidEnvironment, "an environment's id has 1 to 64 letters, digits, `_` or `-`".to_owned()))
    }
}
