//! Take in an environment that was carried here.

use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use http::{Method, StatusCode};
use stead_domain::Error;
use stead_domain::archive::ImportRequest;
use stead_domain::environment::Environment;
use tokio::sync::mpsc;

use crate::State;
use crate::body::next_part;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::{Result, environment_outcome};

/// So many parts of a body wait to be unpacked.
const PARTS: usize = 4;

/// Whether a body is an archive, of any length.
pub(crate) fn takes_any_length(method: &Method, route: &str) -> bool {
    *method == Method::POST && route.ends_with("/environments/import")
}

/// Make an environment out of an archive that `POST …/export` made, on this server or another one.
///
/// It has its definition as version 1, its files and all its checkpoints, the caller as its owner and an identity of its own. Nothing in the
/// archive is trusted: what its digests do not cover, what is cut off, and an entry that no archive holds are refused, and then nothing of it
/// stays. The definition is held to what holds for a new one; directories of the host are mounted only where the operator allowed it.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/import", tag = "environments", operation_id = "importEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("name" = Option<String>, Query, description = "Another name than the one in the archive"), ("allow_unenforced" = Option<bool>, Query, description = "Accept a posture that the provider does not enforce"), ("allow_mounts" = Option<bool>, Query, description = "Mount what the definition names of the directories of the user who runs the server, for that user at the unix socket"), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body(content = Vec<u8>, content_type = "application/x-tar"),
    responses((status = 201, body = Environment, description = "It is ready"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, mut query: Query, request: Request) -> Result<Response> {
    let wanted = ImportRequest {
        name: query.text("name")?,
        allow_unenforced: query.flag("allow_unenforced")?,
        allow_mounts: query.flag("allow_mounts")?,
    };
    query.end()?;
    let (sender, pieces) = mpsc::channel(PARTS);
    let import = state.app.import_environment(&entered, wanted, pieces);
    let (sent, outcome) = tokio::join!(pass_on(request.into_body(), sender), import);
    match (sent, outcome) {
        // What was wrong with the body is why the archive seemed to be cut off.
        (Err(error), Err(_)) => Err(error.into()),
        (_, outcome) => environment_outcome(StatusCode::CREATED, outcome?),
    }
}

/// Passes a body on, a part at a time, for as long as somebody takes it. The rest is read all the same: who still sends hears no answer.
async fn pass_on(mut body: Body, sender: mpsc::Sender<Option<Vec<u8>>>) -> std::result::Result<(), Error> {
    while let Some(part) = next_part(&mut body).await? {
        if sender.send(Some(part.into())).await.is_err() {
            return pass_over(body).await;
        }
    }
    let _ = sender.send(None).await;
    Ok(())
}

/// More than this is cut off unread.
const LARGEST_REST: usize = 64 << 20;

async fn pass_over(mut body: Body) -> std::result::Result<(), Error> {
    let mut length = 0;
    while let Ok(Some(part)) = next_part(&mut body).await {
        length += part.len();
        if length > LARGEST_REST {
            break;
        }
    }
    Ok(())
}
