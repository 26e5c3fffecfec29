//! A tunnel to a port: bytes as they are, in both directions.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Request, State as Shared};
use axum::response::Response;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use hyper::upgrade::OnUpgrade;
use stead_app::Entered;
use stead_domain::ports::parse_port;
use stead_domain::principal::Role;
use stead_domain::{Code, Error};
use tokio::net::TcpStream;

use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::listen::{Seat, bare};
use crate::openapi::PlaceErrors;
use crate::query::Query;
use crate::reply::Result;

/// What the connection becomes.
const PROTOCOL: &str = "stead-tcp";
/// How often it is looked at whether whoever opened it still may.
const LOOK: Duration = Duration::from_secs(15);

/// A connection to what listens on a port inside. With `Upgrade: stead-tcp` the connection itself becomes it, over HTTP/1.1: after `101` come
/// and go the bytes as they are, and each direction ends by itself. The environment is not woken.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/ports/{port}/tunnel", tag = "ports", operation_id = "openEnvironmentPortTunnel",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("port" = u16, Path), ("Upgrade" = String, Header, description = "`stead-tcp`")),
    responses((status = 101, description = "It is connected"), PlaceErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id, port)): Path<(String, String, String)>,
    query: Query,
    seat: Option<Extension<Arc<Seat>>>,
    mut request: Request,
) -> Result<Response> {
    query.end()?;
    let (id, port) = (parse_id(&id)?, parse_port(&port)?);
    let is_asked = request.version() == Version::HTTP_11 && asks_for(request.headers());
    let (true, Some(Extension(seat))) = (is_asked, seat) else {
        let wrong = Error::new(
            Code::BadRequest,
            format!("this opens a tunnel: it takes `Connection: upgrade` and `Upgrade: {PROTOCOL}` over HTTP/1.1"),
        )
        .suggestion("`stead port forward ENVIRONMENT PORT` does it; browsers use the URL of the port");
        return Err(state.app.unless_unknown(&entered, id, wrong).await.into());
    };
    let inside = state.app.connect_to_port(entered.project, id, port).await?;
    let upgrade = hyper::upgrade::on(&mut request);
    seat.keep(hold(upgrade, inside, state, entered));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    Ok(response)
}

fn asks_for(headers: &HeaderMap) -> bool {
    let has = |name, word: &str| {
        let values = headers.get_all(name).iter().filter_map(|value: &HeaderValue| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, PROTOCOL)
}

async fn hold(upgrade: OnUpgrade, inside: TcpStream, state: State, entered: Entered) {
    let Ok(upgraded) = upgrade.await else { return };
    let joined = stead_tunnel::join(bare(upgraded), (inside.into(), bytes::Bytes::new()));
    tokio::pin!(joined);
    let mut looks = tokio::time::interval(LOOK);
    looks.tick().await;
    loop {
        tokio::select! {
            // Either side may end it in whatever way it likes: nobody is told why.
            _ = &mut joined => return,
            () = state.stopping.cancelled() => return,
            _ = looks.tick() => if state.app.may_still(&entered, Role::Member).await.is_err() {
                return;
            },
        }
    }
}
