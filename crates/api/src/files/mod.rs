//! Files of environments: one verb, one file.

pub mod append;
pub mod archive;
pub mod find;
pub mod grep;
pub mod list;
pub mod mkdir;
pub mod read;
pub mod remove;
pub mod stat;
pub mod transfer;
pub mod watch;
mod watch_socket;
pub mod write;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode};
use stead_app::files::{FileWriter, Written};
use stead_app::{Entered, Outcome};
use stead_domain::files::{self, FilePath};
use stead_domain::ids::EnvironmentId;
use stead_domain::{Error, Result};

use crate::State;
use crate::body::next_part;
use crate::query::Query;

/// Whether a body may be as long as a file.
pub(crate) fn takes_any_length(method: &Method, route: &str) -> bool {
    let ends = ["/environments/{environment_id}/files", "/environments/{environment_id}/files/archive"];
    matches!(*method, Method::PUT | Method::PATCH) && ends.iter().any(|end| route.ends_with(end))
}

/// What was asked, or what is wrong with it: for an environment that the caller may not see, only that.
async fn asked<T>(state: &State, entered: &Entered, id: EnvironmentId, asked: Result<T>) -> Result<T> {
    match asked {
        Ok(asked) => Ok(asked),
        Err(error) => Err(state.app.unless_unknown(entered, id, error).await),
    }
}

/// `path`, or `path_bytes` for names that are not UTF-8.
fn path(query: &mut Query) -> Result<FilePath> {
    let (text, digits) = (query.text("path")?, query.text("path_bytes")?);
    files::named("path", text.as_deref(), digits.as_deref())
}

/// The same, or the workspace when neither is given.
fn path_or_workspace(query: &mut Query) -> Result<FilePath> {
    let (text, digits) = (query.text("path")?, query.text("path_bytes")?);
    match (&text, &digits) {
        (None, None) => Ok(FilePath::found(".")),
        _ => files::named("path", text.as_deref(), digits.as_deref()),
    }
}

/// How many at most.
fn limit(query: &mut Query, usual: u64, most: u64) -> Result<u64> {
    let limit = query.parsed::<u64>("limit")?.unwrap_or(usual);
    if (1..=most).contains(&limit) { Ok(limit) } else { Err(Error::field("limit", format!("must be 1 to {most}"))) }
}

fn mode(query: &mut Query) -> Result<Option<u32>> {
    query.text("mode")?.as_deref().map(files::parse_mode).transpose()
}

/// Passes a body on, a part at a time. One that is cut off is never taken for a whole one.
async fn pass_on(mut body: Body, mut writer: FileWriter) -> Result<Written, Error> {
    while let Some(part) = next_part(&mut body).await? {
        writer.send(&part).await?;
    }
    writer.finish().await
}

/// An answer without content, also to a repetition.
fn done(outcome: Outcome<()>, status: StatusCode) -> Response {
    let mut response = status.into_response();
    if matches!(outcome, Outcome::Again(_)) {
        response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    response
}
