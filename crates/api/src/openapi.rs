//! The OpenAPI document, made from the routes themselves.

use std::collections::BTreeMap;

use stead_domain::environment::ScopeFilter;
use stead_domain::error::{ErrorBody, PlainErrorBody};
use stead_domain::process::OutputStream;
use stead_domain::process_request::{InputEvent, OutputFrame};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, Modify, OpenApi as _};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Stead",
        description = "A self-hosted control plane of managed environments: durable places where agents and automations work.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "environments", description = "Named, durable places: records, definitions, versions"),
        (name = "processes", description = "Commands in environments: start, follow, write to, signal, wait for"),
        (name = "files", description = "What lies in an environment: read, write, list, move"),
        (name = "checkpoints", description = "Points in an environment's files: seal, compare, restore, fork"),
        (name = "ports", description = "What listens in an environment, and how it is reached"),
        (name = "sandboxes", description = "The actual places behind environments"),
        (name = "providers", description = "Who makes sandboxes, and what each enforces"),
        (name = "leases", description = "Who may mutate an environment, and until when"),
        (name = "workers", description = "Processes that connect out, claim jobs and bring environments"),
        (name = "logs", description = "What processes and workers printed"),
        (name = "projects", description = "The tenancy and access boundary"),
        (name = "members", description = "Who belongs to a project, in which role"),
        (name = "api-keys", description = "Keys that act for a member"),
        (name = "secrets", description = "Values by name, for environments; no route tells one"),
        (name = "github", description = "What a user of GitHub sees there; errors have `suggestion`, `recoverable` and `context` beside `code`"),
        (name = "identity", description = "Who the caller is"),
        (name = "audit", description = "Who changed what, when, from where"),
        (name = "system", description = "The server itself"),
    ),
    components(schemas(ErrorBody, PlainErrorBody, ScopeFilter, OutputStream, OutputFrame, InputEvent)),
    modifiers(&Security),
    security(("bearer" = [])),
)]
struct Base;

struct Security;

impl Modify for Security {
    fn modify(&self, document: &mut OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API key, `stk_…`, with `.<project>` appended if wanted. On the unix socket the operator needs none."))
            .build();
        document.components.get_or_insert_default().add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

pub fn base() -> OpenApi {
    Base::openapi()
}

/// The whole document.
pub fn document() -> OpenApi {
    crate::routes::documented().into_openapi()
}

fn errors(statuses: &[(&str, &str)]) -> BTreeMap<String, RefOr<Response>> {
    errors_of("ErrorBody", statuses)
}

fn errors_of(schema: &str, statuses: &[(&str, &str)]) -> BTreeMap<String, RefOr<Response>> {
    let entry = |(status, description): &(&str, &str)| {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
        let response = ResponseBuilder::new().description(*description).content("application/json", content).build();
        ((*status).to_owned(), RefOr::T(response))
    };
    statuses.iter().map(entry).collect()
}

/// What every call that needs a credential may be answered.
pub struct AnyErrors;

impl IntoResponses for AnyErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        errors(&[
            ("400", "The request could not be understood"),
            ("401", "No credential, or not a good one"),
            ("403", "The caller's role does not allow this"),
            ("404", "Nothing that the caller may see"),
            ("429", "Too many requests with one key"),
            ("500", "A fault of the server's"),
            ("503", "The store cannot be reached"),
        ])
    }
}

/// What a call may be answered that asks the place of a process.
pub struct PlaceErrors;

impl IntoResponses for PlaceErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut all = AnyErrors::responses();
        all.extend(errors(&[("409", "The process is kept by another host"), ("502", "Its place failed")]));
        all
    }
}

/// What every call that changes something may be answered.
pub struct ChangeErrors;

impl IntoResponses for ChangeErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut all = AnyErrors::responses();
        all.extend(errors(&[
            ("409", "The present state does not allow this"),
            ("410", "The lease has ended"),
            ("412", "`If-Match` names an older version, or the lease that was presented has ended"),
            ("413", "The body is too large"),
            ("415", "The body is not JSON"),
            ("422", "The Idempotency-Key was used with another request"),
            ("502", "The provider failed"),
            ("507", "The disk is full"),
        ]));
        all
    }
}

/// What a call to GitHub's users may be answered.
pub struct GithubErrors;

impl IntoResponses for GithubErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        errors_of(
            "PlainErrorBody",
            &[
                ("400", "The request could not be understood, or the way back from GitHub leads nowhere"),
                ("403", "The caller has no identity at GitHub"),
                ("404", "Nothing that GitHub shows to the caller"),
                ("501", "The server has no GitHub App"),
                ("502", "GitHub did not answer, or not as it should"),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_in_the_documentation_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        let current = format!("{}\n", super::document().to_pretty_json().unwrap());
        if std::env::var_os("STEAD_UPDATE_DOCS").is_some() {
            std::fs::write(&path, &current).unwrap();
        }
        assert!(std::fs::read_to_string(path).unwrap_or_default() == current, "docs/openapi.json is not current: run `make generate`");
    }
}
