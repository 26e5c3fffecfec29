//! Whole trees as tar archives.

use axum::body::Body;
use axum::extract::{Path, Request, State as Shared};
use axum::response::Response;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use stead_app::files::FileStream;
use stead_domain::files::{FileOrder, TreeWritten};

use super::{asked, pass_on, path};
use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// A directory or a file in an environment as a tar archive, while it is read. An environment that sleeps is woken for it.
///
/// The names in it begin at the directory. Symbolic and hard links stay links, modes and times (to the second) are kept, owners are not.
/// Sockets and devices are left out. An archive that cannot be finished is cut off, and never ends like a whole one.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/files/archive", tag = "files", operation_id = "readEnvironmentArchive",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "Relative ones start at the workspace, absolute ones at the environment's root"), ("path_bytes" = Option<String>, Query, description = "Instead of `path`, in hexadecimal digits, for names that are not UTF-8")),
    responses((status = 200, body = Vec<u8>, content_type = "application/x-tar", description = "The archive"), ChangeErrors),
)]
pub async fn read(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    mut query: Query,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let path = asked(&state, &entered, id, path(&mut query).and_then(|path| query.end().map(|()| path))).await?;
    let archive = state.app.stream_files(&entered, id, &FileOrder::Pack { path }).await?;
    let mut response = Response::new(body(archive));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-tar"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// What is said inside, as it comes. One that fails is cut off, and whoever reads can tell.
pub(super) fn body(stream: FileStream) -> Body {
    let pieces = stream::unfold(Some(stream), |stream| async move {
        let mut stream = stream?;
        match stream.next().await {
            Ok(Some(bytes)) => Some((Ok(bytes), Some(stream))),
            Ok(None) => None,
            Err(error) => {
                tracing::warn!(%error, cause = error.internal_cause(), "files could not be read to the end");
                Some((Err(std::io::Error::other(error)), None))
            }
        }
    });
    Body::from_stream(pieces)
}

/// Unpack a tar archive into a directory in an environment, which is made if it is not there. An environment that sleeps is woken for it.
///
/// Modes (without setuid and setgid), times and links are kept; whoever runs inside owns it all. Nothing is written outside of the directory:
/// a name that is absolute or holds `..`, a way through a symbolic link, a hard link to something else, and a device are refused, and the
/// error names the entry. Each file is there as a whole or not at all; what came before an error stays.
#[utoipa::path(
    put, path = "/v1/projects/{project}/environments/{environment_id}/files/archive", tag = "files", operation_id = "writeEnvironmentArchive",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "Relative ones start at the workspace, absolute ones at the environment's root"), ("path_bytes" = Option<String>, Query, description = "Instead of `path`, in hexadecimal digits, for names that are not UTF-8")),
    request_body(content = Vec<u8>, content_type = "application/x-tar"),
    responses((status = 200, body = TreeWritten, description = "It is unpacked"), ChangeErrors),
)]
pub async fn write(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    mut query: Query,
    request: Request,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let path = asked(&state, &entered, id, path(&mut query).and_then(|path| query.end().map(|()| path))).await?;
    let writer = state.app.write_file(&entered, id, &FileOrder::Unpack { path }).await?;
    let written = pass_on(request.into_body(), writer).await?;
    json(StatusCode::OK, &TreeWritten { entries: written.count, size: written.size })
}
