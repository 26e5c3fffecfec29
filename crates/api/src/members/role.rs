//! Change a role.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use stead_domain::principal::{Member, Role};
use utoipa::ToSchema;

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::members::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, json};

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleEdit {
    role: Role,
}

/// Change a member's role. A project keeps at least one owner.
#[utoipa::path(
    patch, path = "/v1/projects/{project}/members/{principal_id}", tag = "members", operation_id = "setMemberRole",
    params(("project" = String, Path, description = "The project's handle"), ("principal_id" = String, Path)),
    request_body = RoleEdit,
    responses((status = 200, body = Member, description = "As it is now"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, principal)): Path<(String, String)>,
    Json(edit): Json<RoleEdit>,
) -> Result<Response> {
    json(StatusCode::OK, &state.app.set_role(&entered, parse_id(&principal)?, edit.role).await?)
}
