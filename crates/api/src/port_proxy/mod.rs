//! What ports of environments serve, passed on. A listener and an origin of their own: nothing of the API is here, and whatever a page from
//! inside does, it does not do it as the caller.
//!
//! A request is let in by a key or by the token of a signed URL, loses everything that is ours, and goes over a connection that was made
//! inside. Framing is never passed on: what is read here is written anew, so that both sides agree on where a request ends.

mod admission;
mod cookies;
mod forward;
mod page;
mod passing;
mod pool;
mod request;
mod response;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use http::HeaderValue;
use stead_app::App;
use stead_domain::ids::RequestId;
use stead_domain::port_origin::{PortName, PortOrigin};
use stead_domain::{Code, Error};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::pool::Pool;
use crate::{Limits, metrics};

/// How long the connections into places may take to end with the server.
const GRACE: Duration = Duration::from_secs(2);

/// What serves ports.
#[derive(Clone)]
pub struct Ports {
    app: App,
    limits: Arc<Limits>,
    origin: Arc<PortOrigin>,
    pool: Arc<Pool>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Ports {
    pub fn new(app: App, limits: Arc<Limits>, origin: PortOrigin, stopping: CancellationToken) -> Self {
        Self { app, limits, origin: Arc::new(origin), pool: Arc::default(), tasks: TaskTracker::new(), stopping }
    }

    /// Closes connections into places that nobody uses, until the server ends; then all of them.
    pub async fn tend(&self) {
        let mut looks = tokio::time::interval(Duration::from_secs(1));
        while self.stopping.run_until_cancelled(looks.tick()).await.is_some() {
            self.pool.close_unused();
        }
        self.pool.close_all();
        self.tasks.close();
        let _ = tokio::time::timeout(GRACE, self.tasks.wait()).await;
    }
}

pub fn router(ports: Ports) -> Router {
    Router::new().fallback(handler).with_state(ports)
}

async fn handler(Shared(ports): Shared<Ports>, request: Request) -> Response {
    let started = Instant::now();
    let request_id = RequestId::new(ports.app.context());
    let method = request.method().clone();
    let for_people = page::is_for_people(request.headers());
    let name = name(&ports, &request);
    let outcome = match &name {
        Ok(name) => forward::serve(&ports, *name, request, request_id).await,
        Err(_) => Err(not_here()),
    };
    let took = started.elapsed();
    let milliseconds = took.as_secs_f64() * 1000.0;
    // Neither path nor query: what is asked of a port is nobody's business here, and a query may hold a token.
    let (environment, port) = name.map_or((String::new(), 0), |name| (name.environment.to_string(), name.port));
    let response = match outcome {
        Ok(response) => {
            tracing::info!(%request_id, %method, environment, port, status = response.status().as_u16(), milliseconds, "port");
            response
        }
        Err(error) => {
            let status = error.code().status();
            tracing::info!(%request_id, %method, environment, port, status, milliseconds, code = %error.code(), cause = error.internal_cause(), "port");
            let mut response = page::refusal(&error, request_id, for_people);
            if let Ok(value) = HeaderValue::from_str(&request_id.to_string()) {
                response.headers_mut().insert("x-request-id", value);
            }
            response
        }
    };
    metrics::request(&method, "port", response.status(), took);
    response
}

fn not_here() -> Error {
    Error::new(Code::NotFound, "no port of an environment has this name")
        .suggestion("names are PORT-ENVIRONMENT before the domain; `stead port list ENVIRONMENT` shows them")
}

/// The port that a request is for. Two answers to that question are none.
fn name(ports: &Ports, request: &Request) -> Result<PortName, Error> {
    let mut hosts = request.headers().get_all(http::header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let named = request.uri().authority().map(http::uri::Authority::as_str);
    let host = match (named, hosts.next(), hosts.next()) {
        (Some(one), None, _) | (None, Some(one), None) => one,
        (Some(one), Some(same), None) if one.eq_ignore_ascii_case(same) => one,
        _ => return Err(not_here()),
    };
    ports.origin.name(host).ok_or_else(not_here)
}
