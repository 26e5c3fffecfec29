//! Admit a member.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_app::identity::NewMember;
use stead_domain::principal::Member;

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// Admit a principal by id, or make one of that name and admit it.
#[utoipa::path(
    post, path = "/v1/projects/{project}/members", tag = "members", operation_id = "addMember",
    params(("project" = String, Path, description = "The project's handle"), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = NewMember,
    responses((status = 201, body = Member, description = "It belongs"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Json(new): Json<NewMember>) -> Result<Response> {
    outcome(StatusCode::CREATED, state.app.add_member(&entered, new).await?)
}
