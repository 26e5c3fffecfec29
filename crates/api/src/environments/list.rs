//! The environments of a project.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_app::environments::EnvironmentQuery;
use stead_domain::Timestamp;
use stead_domain::environment::{BoundToType, Environment, EnvironmentMode, EnvironmentStatus, Lifetime, Purpose, ScopeFilter};
use stead_domain::page::Page;
use stead_domain::provider::ProviderName;

use crate::State;
use crate::door::In;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// The environments of a project, newest first: those without a scope, unless `scope` says otherwise. Destroyed ones are left out unless they are asked for.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments", tag = "environments", operation_id = "listEnvironments",
    params(("project" = String, Path, description = "The project's handle"), ("cursor" = Option<String>, Query, description = "Where the page begins, from `next_cursor` of the one before"), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Rows of a page; 50 when it is left out"), ("provider" = Option<ProviderName>, Query), ("status" = Option<EnvironmentStatus>, Query), ("lifetime" = Option<Lifetime>, Query), ("environment_mode" = Option<EnvironmentMode>, Query), ("purpose" = Option<Purpose>, Query), ("scope" = Option<ScopeFilter>, Query, description = "`owner` for those whose names are unique per owner, best together with `owned_by`; when it is left out, those without a scope; `any`, an addition of Stead's, for both"), ("owned_by" = Option<String>, Query, description = "Only those of this owner, among those that `scope` shows"), ("bound_to_type" = Option<BoundToType>, Query), ("bound_to_id" = Option<String>, Query), ("include_destroyed" = Option<bool>, Query, description = "Also those of which only the record is left"), ("destroyed_since" = Option<Timestamp>, Query, description = "Narrows destroyed ones only"), ("name" = Option<String>, Query, description = "Exactly this name, in any case"), ("reference" = Option<String>, Query, description = "The beginning of an id or of a name")),
    responses((status = 200, body = Page<Environment>, description = "A page"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, mut query: Query) -> Result<Response> {
    let page = query.page()?;
    let filter = EnvironmentQuery {
        provider: query.parsed::<ProviderName>("provider")?,
        status: query.parsed::<EnvironmentStatus>("status")?,
        lifetime: query.parsed::<Lifetime>("lifetime")?,
        environment_mode: query.parsed::<EnvironmentMode>("environment_mode")?,
        purpose: query.parsed::<Purpose>("purpose")?,
        scope: query.parsed::<ScopeFilter>("scope")?,
        owned_by: query.text("owned_by")?,
        bound_to_type: query.parsed::<BoundToType>("bound_to_type")?,
        bound_to_id: query.text("bound_to_id")?,
        include_destroyed: query.flag("include_destroyed")?,
        destroyed_since: query.parsed::<Timestamp>("destroyed_since")?,
        name: query.text("name")?,
        reference: query.text("reference")?,
    };
    query.end()?;
    json(StatusCode::OK, &state.app.list_environments(&entered, filter, page).await?)
}
