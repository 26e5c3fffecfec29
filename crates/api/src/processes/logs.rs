//! What a process printed: at once, as it comes, as events, or over a WebSocket.

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
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, UPGRADE};
use http::{HeaderMap, HeaderValue};
use stead_app::Frame;
use stead_app::processes::{OutputReader, Piece, Reading};
use stead_domain::frames::MEDIA_TYPE;
use stead_domain::process::OutputStream;
use stead_domain::{Code, Error};
use tokio_util::sync::CancellationToken;

use super::frames::{events_of, server_sent};
use super::{raw_frames, socket};
use crate::State;
use crate::door::In;
use crate::listen::Seat;
use crate::openapi::PlaceErrors;
use crate::processes::parse_ids;
use crate::query::Query;
use crate::reply::Result;

/// What is answered at once when nothing else is said, and at most.
const USUAL: usize = 1 << 20;
const MOST: usize = 8 << 20;
/// What is read from the place for a stream, and then sent before more is read.
pub(super) const PIECE: usize = 256 << 10;
/// How often somebody who follows hears that the connection is alive.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// What a process printed, from an offset on, both streams in the order in which it came.
///
/// The answer is the bytes themselves. `Stead-Next-Offset` says where to go on, and `Stead-Gap` which bytes are no longer kept. With `follow`
/// it stays open until the process is over. With `Accept: text/event-stream` it comes as events `output`, `gap` and `exit`, whose ids are
/// offsets; with `Accept: application/vnd.stead.frames` as frames of bytes, which cost least. A WebSocket carries the same as text messages, and takes `stdin`, `signal` and `resize` from members.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/logs", tag = "processes", operation_id = "getProcessLogs",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("process_id" = String, Path), ("offset" = Option<u64>, Query, description = "Where to begin; offsets count both streams together"), ("stream" = Option<OutputStream>, Query, description = "Only this one"), ("follow" = Option<bool>, Query, description = "Stay until the process is over"), ("hold" = Option<bool>, Query, description = "A process that was started with `overflow: hold` waits until what it printed was sent; only for who follows, and for members"), ("limit" = Option<u64>, Query, minimum = 1, maximum = 8388608, description = "Bytes of an answer that does not follow; 1 MiB when it is left out"), ("Last-Event-ID" = Option<String>, Header, description = "Goes on after that event")),
    responses((status = 200, content((Vec<u8> = "application/octet-stream"), (Vec<u8> = "application/vnd.stead.frames"), (String = "text/event-stream")), description = "The bytes, or what they are wrapped in"), PlaceErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, environment, id)): Path<(String, String, String)>,
    mut query: Query,
    headers: HeaderMap,
    seat: Option<Extension<Arc<Seat>>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    let (environment, id) = parse_ids(&environment, &id)?;
    let offset = query.parsed::<u64>("offset")?;
    let stream = query.parsed::<OutputStream>("stream")?;
    let follow = query.flag("follow")?;
    let hold = query.flag("hold")?;
    let limit = query.parsed::<usize>("limit")?;
    query.end()?;
    if limit.is_some_and(|limit| !(1..=MOST).contains(&limit)) {
        return Err(Error::field("limit", format!("must be 1 to {MOST}")).into());
    }
    let resumed = headers.get("last-event-id").map(|id| {
        let id = id.to_str().ok().and_then(|id| id.trim().parse::<u64>().ok());
        id.ok_or_else(|| Error::field("Last-Event-ID", "is not an offset").suggestion("send the `id` of the last event, or none"))
    });
    let from = resumed.transpose()?.or(offset).unwrap_or(0);
    let is_socket = headers.contains_key(UPGRADE);
    let accepts = |kind| headers.get_all(ACCEPT).iter().any(|accept| accept.to_str().is_ok_and(|accept| accept.contains(kind)));
    let reading = Reading { from, stream, follow: follow || is_socket, hold };
    if hold && !reading.follow {
        return Err(Error::field("hold", "is for who follows").suggestion("add `follow=true`, or leave it out").into());
    }
    let reader = state.app.read_output(&entered, environment, id, reading).await?;
    if is_socket {
        let upgrade = upgrade.map_err(|error| {
            Error::new(Code::BadRequest, format!("this is no opening of a WebSocket: {error}"))
                .suggestion("leave out `Upgrade`, or open a WebSocket of version 13 over HTTP/1.1")
        })?;
        return Ok(socket::open(upgrade, state, entered, reader, (environment, id), seat.map(|Extension(seat)| seat)));
    }
    let (body, kind) = match (accepts("text/event-stream"), follow) {
        _ if accepts(MEDIA_TYPE) => (raw_frames::body(reader, state.stopping.clone()), MEDIA_TYPE),
        (true, _) => (events(reader, state.stopping.clone()), "text/event-stream"),
        (false, true) => (bytes(reader, state.stopping.clone()), "application/octet-stream"),
        (false, false) => return at_once(reader, limit.unwrap_or(USUAL)).await,
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Everything that is there, up to the limit.
async fn at_once(mut reader: OutputReader, limit: usize) -> Result<Response> {
    let mut whole = Vec::new();
    let mut gaps: Vec<String> = Vec::new();
    while whole.len() < limit {
        let before = reader.offset();
        for frame in reader.read(limit - whole.len()).await?.frames {
            match frame {
                Frame::Bytes { bytes, .. } => whole.extend_from_slice(&bytes),
                Frame::Gap { from, to } => gaps.push(format!("{from}-{to}")),
            }
        }
        if reader.offset() == before {
            break;
        }
    }
    let mut response = Response::new(Body::from(whole));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("stead-next-offset", HeaderValue::from(reader.offset()));
    if let (false, Ok(gaps)) = (gaps.is_empty(), HeaderValue::from_str(&gaps.join(", "))) {
        headers.insert("stead-gap", gaps);
    }
    Ok(response)
}

/// The bytes as they come. Nothing is read before what was read is sent.
fn bytes(reader: OutputReader, stopping: CancellationToken) -> Body {
    let pieces = stream::unfold((reader, stopping), |(mut reader, stopping)| async move {
        let piece = tokio::select! {
            () = stopping.cancelled() => return None,
            piece = reader.next(PIECE) => piece,
        };
        let bytes = match piece {
            Ok(Some(Piece::Output(output))) => output.frames.into_iter().fold(Vec::new(), |mut whole, frame| {
                if let Frame::Bytes { bytes, .. } = frame {
                    whole.extend_from_slice(&bytes);
                }
                whole
            }),
            Ok(_) => return None,
            // Cut off rather than ended: whoever reads can tell.
            Err(error) => return Some((Err(std::io::Error::other(error)), (reader, stopping))),
        };
        Some((Ok(Bytes::from(bytes)), (reader, stopping)))
    });
    Body::from_stream(pieces)
}

/// The same as events, with a comment now and then.
fn events(reader: OutputReader, stopping: CancellationToken) -> Body {
    let pieces = stream::unfold(Some((reader, stopping)), |state| async move {
        let (mut reader, stopping) = state?;
        let piece = tokio::select! {
            () = stopping.cancelled() => return None,
            piece = tokio::time::timeout(SIGN_OF_LIFE, reader.next(PIECE)) => piece,
        };
        let text = match piece {
            Err(_) => Ok(":\n\n".to_owned()),
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(piece))) => {
                events_of(piece, reader.offset()).iter().map(|(next, event)| server_sent(*next, event)).collect::<Result<String, Error>>()
            }
            Ok(Err(error)) => Err(error),
        };
        match text {
            Ok(text) => Some((Ok::<_, Infallible>(Bytes::from(text)), Some((reader, stopping)))),
            Err(error) => {
                tracing::warn!(%error, cause = error.internal_cause(), "output could not be read");
                let text = format!("event: error\ndata: {}\n\n", serde_json::to_string(&error.body(None)).unwrap_or_default());
                Some((Ok(Bytes::from(text)), None))
            }
        }
    });
    Body::from_stream(pieces)
}
