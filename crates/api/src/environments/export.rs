//! Carry an environment away.

use axum::body::{Body, Bytes};
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use futures::stream;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use stead_app::checkpoints::Export;
use stead_domain::archive::{ExportRequest, MEDIA_TYPE};

use super::parse_id;
use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::Result;

/// An environment as one archive, for `POST …/environments/import` of another server: its definition, its files and its checkpoints.
///
/// What is there now is sealed first, as an automatic checkpoint, unless nothing was written since the last one; `Stead-Checkpoint` names it.
/// No secret, no process, no log and nothing of `runtime_path` is in it. An archive that cannot be finished is cut off before its
/// `Content-Length`. Each request makes another archive: an `Idempotency-Key` means nothing here.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/export", tag = "environments", operation_id = "exportEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path)),
    request_body = Option<ExportRequest>,
    responses((status = 200, body = Vec<u8>, content_type = "application/x-tar", description = "The archive"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    OptionalJson(request): OptionalJson<ExportRequest>,
) -> Result<Response> {
    let export = state.app.export_environment(&entered, parse_id(&id)?, request).await?;
    let (size, checkpoint) = (export.size, export.checkpoint.to_string());
    let mut response = Response::new(body(export));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(checkpoint) = HeaderValue::from_str(&checkpoint) {
        headers.insert("stead-checkpoint", checkpoint);
    }
    Ok(response)
}

/// As it is made. One that fails is cut off, and whoever reads can tell.
fn body(export: Export) -> Body {
    let pieces = stream::unfold(Some(export), |export| async move {
        let mut export = export?;
        match export.next().await {
            Ok(Some(bytes)) => Some((Ok(Bytes::from(bytes)), Some(export))),
            Ok(None) => None,
            Err(error) => {
                tracing::warn!(environment = %export.environment.id, %error, cause = error.internal_cause(), "an archive was cut off");
                Some((Err(std::io::Error::other(error)), None))
            }
        }
    });
    Body::from_stream(pieces)
}
