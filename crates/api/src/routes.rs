//! The list of routes, and nothing else.

use std::sync::OnceLock;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::{
    State, api_keys, audit, checkpoints, docs, door, environments, files, github, health, identity, leases, members, openapi, ports,
    processes, projects, providers, sandboxes, secrets, system,
};

/// The routes with their documentation.
pub(crate) fn documented() -> OpenApiRouter<State> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(document))
        .routes(routes!(identity::handler))
        .routes(routes!(projects::list::handler, projects::create::handler))
        .routes(routes!(projects::get::handler, projects::update::handler, projects::delete::handler))
        .routes(routes!(members::list::handler, members::add::handler))
        .routes(routes!(members::role::handler, members::remove::handler))
        .routes(routes!(api_keys::list::handler, api_keys::create::handler))
        .routes(routes!(api_keys::get::handler, api_keys::revoke::handler))
        .routes(routes!(secrets::list::handler))
        .routes(routes!(secrets::get::handler, secrets::set::handler, secrets::delete::handler))
        .routes(routes!(secrets::history::handler))
        .routes(routes!(environments::list::handler, environments::create::handler))
        .routes(routes!(environments::import::handler))
        .routes(routes!(leases::acquire::handler))
        .routes(routes!(leases::list::handler))
        .routes(routes!(leases::get::handler))
        .routes(routes!(leases::renew::handler))
        .routes(routes!(leases::release::handler))
        .routes(routes!(leases::break_lease::handler))
        .routes(routes!(leases::transfer::handler))
        .routes(routes!(leases::ticket::handler, leases::withdraw::handler))
        .routes(routes!(leases::of_environment::handler))
        .routes(routes!(environments::get::handler, environments::update::handler, environments::delete::handler))
        .routes(routes!(environments::reconcile::handler))
        .routes(routes!(environments::versions::handler))
        .routes(routes!(environments::version_diff::handler))
        .routes(routes!(environments::version::handler))
        .routes(routes!(environments::rollback::handler))
        .routes(routes!(environments::activity::handler))
        .routes(routes!(environments::posture::handler))
        .routes(routes!(environments::egress::handler))
        .routes(routes!(environments::changes::handler))
        .routes(routes!(environments::changes_keep::handler))
        .routes(routes!(environments::changes_drop::handler))
        .routes(routes!(environments::export::handler))
        .routes(routes!(environments::git_credentials::handler))
        .routes(routes!(environments::setup::handler))
        .routes(routes!(environments::checkout::handler))
        .routes(routes!(environments::wake::handler))
        .routes(routes!(environments::sleep::handler))
        .routes(routes!(environments::stop::handler))
        .routes(routes!(processes::exec::handler))
        .routes(routes!(processes::list::handler, processes::start::handler))
        .routes(routes!(processes::get::handler, processes::delete::handler))
        .routes(routes!(processes::logs::handler))
        .routes(routes!(processes::stdin::handler))
        .routes(routes!(processes::signals::handler))
        .routes(routes!(processes::resize::handler))
        .routes(routes!(processes::wait::handler))
        .routes(routes!(files::read::handler, files::write::handler, files::append::handler, files::remove::handler))
        .routes(routes!(files::list::handler))
        .routes(routes!(files::stat::handler))
        .routes(routes!(files::mkdir::handler))
        .routes(routes!(files::transfer::r#move))
        .routes(routes!(files::transfer::copy))
        .routes(routes!(files::find::handler))
        .routes(routes!(files::grep::handler))
        .routes(routes!(files::watch::handler))
        .routes(routes!(files::archive::read, files::archive::write))
        .routes(routes!(checkpoints::list::handler, checkpoints::create::handler))
        .routes(routes!(checkpoints::get::handler, checkpoints::delete::handler))
        .routes(routes!(checkpoints::restore::handler))
        .routes(routes!(checkpoints::diff::handler))
        .routes(routes!(checkpoints::fork::handler))
        .routes(routes!(ports::list::handler))
        .routes(routes!(ports::signed_url::handler))
        .routes(routes!(ports::tunnel::handler))
        .routes(routes!(sandboxes::list::handler, sandboxes::create::handler))
        .routes(routes!(sandboxes::get::handler, sandboxes::delete::handler))
        .routes(routes!(providers::list::handler))
        .routes(routes!(providers::check::handler))
        .routes(routes!(audit::handler))
        .routes(routes!(system::status::handler))
        .routes(routes!(system::usage::handler))
        .routes(routes!(system::prune::handler))
        .routes(routes!(system::rotate_key::handler))
        .routes(routes!(system::shutdown::handler))
        .routes(routes!(github::installations::handler))
        .routes(routes!(github::repositories::handler))
        .routes(routes!(github::login::handler))
        .routes(routes!(github::callback::handler))
        .routes(routes!(github::logout::handler))
}

/// The OpenAPI document.
#[utoipa::path(get, path = "/openapi.json", tag = "system", security(()), responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
async fn document() -> impl IntoResponse {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| openapi::document().to_json().unwrap_or_default());
    ([(CONTENT_TYPE, "application/json")], text.as_str())
}

/// Everything behind the door.
pub fn router(state: State) -> Router {
    let routes: Router<State> = documented().into();
    routes
        .route_layer(from_fn_with_state(state.clone(), door::inner))
        .merge(docs::router())
        .fallback(door::not_found)
        // Bodies have their own limit, with an error that says so.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(state.clone(), door::outer))
        .with_state(state)
}
