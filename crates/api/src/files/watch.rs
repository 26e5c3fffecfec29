//! Watch files.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, UPGRADE};
use http::{HeaderMap, HeaderValue};
use stead_app::Entered;
use stead_app::files::FileWatch;
use stead_domain::file_watch::FileEvent;
use stead_domain::principal::Role;
use stead_domain::{Code, Error};

use super::{asked, path_or_workspace, watch_socket};
use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::listen::Seat;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::Result;

/// How often somebody who watches hears that the connection is alive, and whether they still may is looked at.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// What changes in a directory or a file of an environment, from when the answer begins: as an event stream, or over a WebSocket.
///
/// Each event is JSON with its `type`; an event stream also names it. `recursive` also watches directories below, those that are made
/// meanwhile among them. Something may be told twice. `overflow` means that more happened than could be told. The stream ends when what is
/// watched is gone; an environment that is watched does not fall asleep.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/files/watch", tag = "files", operation_id = "watchEnvironmentFiles",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "The workspace when it is left out; relative ones start there, absolute ones at the environment's root"), ("path_bytes" = Option<String>, Query, description = "Instead of `path`, in hexadecimal digits, for names that are not UTF-8"), ("recursive" = Option<bool>, Query, description = "Also what lies in directories below")),
    responses((status = 200, body = FileEvent, content_type = "text/event-stream", description = "Events"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    mut query: Query,
    headers: HeaderMap,
    seat: Option<Extension<Arc<Seat>>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let order = path_or_workspace(&mut query).and_then(|path| Ok((path, query.flag("recursive")?)));
    let order = order.and_then(|order| query.end().map(|()| order));
    let (path, recursive) = asked(&state, &entered, id, order).await?;
    let watch = state.app.watch_files(&entered, id, path, recursive).await?;
    if headers.contains_key(UPGRADE) {
        let upgrade = upgrade.map_err(|error| {
            Error::new(Code::BadRequest, format!("this is no opening of a WebSocket: {error}"))
                .suggestion("leave out `Upgrade`, or open a WebSocket of version 13 over HTTP/1.1")
        })?;
        return Ok(watch_socket::open(upgrade, state, entered, watch, seat.map(|Extension(seat)| seat)));
    }
    let mut response = Response::new(events(watch, state, entered));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn events(watch: FileWatch, state: State, entered: Entered) -> Body {
    let pieces = stream::unfold(Some((watch, state, entered)), |all| async move {
        let (mut watch, state, entered) = all?;
        let told = tokio::select! {
            () = state.stopping.cancelled() => return None,
            told = tokio::time::timeout(SIGN_OF_LIFE, watch.next()) => told,
        };
        let text = match told {
            Err(_) => state.app.may_still(&entered, Role::Member).await.map(|()| ":\n\n".to_owned()),
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(events))) => events.iter().map(server_sent).collect(),
            Ok(Err(error)) => Err(error),
        };
        match text {
            Ok(text) => Some((Ok::<_, Infallible>(Bytes::from(text)), Some((watch, state, entered)))),
            Err(error) => {
                tracing::warn!(%error, cause = error.internal_cause(), "files could not be watched any longer");
                let text = format!("event: error\ndata: {}\n\n", serde_json::to_string(&error.body(None)).unwrap_or_default());
                Some((Ok(Bytes::from(text)), None))
            }
        }
    });
    Body::from_stream(pieces)
}

fn server_sent(event: &FileEvent) -> stead_domain::Result<String> {
    let data = serde_json::to_string(event).map_err(Error::internal)?;
    Ok(format!("event: {}\ndata: {data}\n\n", event.name()))
}
