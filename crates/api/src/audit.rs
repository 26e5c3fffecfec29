//! The record of who changed what.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_app::AuditQuery;
use stead_domain::audit::AuditRecord;
use stead_domain::error::ErrorBody;
use stead_domain::page::Page;

use crate::State;
use crate::door::In;
use crate::query::Query;
use crate::reply::{Result, json};

/// Audit records, newest first.
#[utoipa::path(
    get, path = "/v1/projects/{project}/audit", tag = "audit", operation_id = "listAudit",
    params(
        ("project" = String, Path, description = "The project's handle"),
        ("cursor" = Option<String>, Query), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200),
        ("action" = Option<String>, Query, description = "Only this action, as `noun.verb`"), ("target_id" = Option<String>, Query),
    ),
    responses((status = 200, body = Page<AuditRecord>, description = "A page"), (status = 400, body = ErrorBody, description = "A bad parameter"), (status = 401, body = ErrorBody, description = "No good credential"), (status = 404, body = ErrorBody, description = "No such project")),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, mut query: Query) -> Result<Response> {
    let page = query.page()?;
    let filter = AuditQuery { action: query.text("action")?, target_id: query.text("target_id")? };
    query.end()?;
    json(StatusCode::OK, &state.app.list_audit(&entered, filter, page).await?)
}
