//! The door that every request goes through: it gets an id, its caller is let in or not, and its reply leaves with the error body, the
//! headers and the log line that belong to it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use stead_app::identity::access::{Admitted, Arrival, lease_has_ended};
use stead_app::{Access, Entered, Presented};
use stead_domain::ids::RequestId;
use stead_domain::lease::{LeaseToken, TOKEN_PREFIX};
use stead_domain::principal::{Caller, Credential, Idempotency};
use stead_domain::{Code, Error};

use crate::listen::Peer;
use crate::reply::{Carried, Failure};
use crate::{State, access, body, framing, github, metrics};

/// The largest headers that are looked at. The sockets take twice as much before they hang up, so that this can be said.
const LARGEST_HEAD: usize = 32 << 10;

/// The outer half: ids, logs, metrics, error bodies. Also what no route matches comes through here.
pub async fn outer(axum::extract::State(state): axum::extract::State<State>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let request_id = RequestId::new(state.app.context());
    request.extensions_mut().insert(request_id);
    let method = request.method().clone();
    let is_plain = request.uri().path().starts_with("/api/");
    let route = request.extensions().get::<MatchedPath>().map_or_else(|| "unmatched".to_owned(), |path| path.as_str().to_owned());
    let mut response = if size_of(request.headers()) > LARGEST_HEAD {
        let error = Error::new(Code::HeadersTooLarge, format!("the headers are larger than {LARGEST_HEAD} bytes"));
        Failure(error.detail("limit_bytes", LARGEST_HEAD).suggestion("send fewer or shorter headers")).into_response()
    } else if let Err(error) =
        framing::check(&request).and_then(|()| check_sent_once(request.headers())).and_then(|()| check_host(&state, &request))
    {
        Failure(error).into_response()
    } else {
        let outcome = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        outcome.unwrap_or_else(|_| Failure(Error::internal("a handler panicked")).into_response())
    };
    let carried = response.extensions_mut().remove::<Carried>();
    let status = response.status();
    let took = started.elapsed();
    metrics::request(&method, &route, status, took);
    let milliseconds = took.as_secs_f64() * 1000.0;
    match &carried {
        Some(Carried(error)) => {
            if status.is_server_error() {
                tracing::error!(%request_id, %method, route, status = status.as_u16(), milliseconds, code = %error.code(), %error, cause = error.internal_cause());
            } else {
                tracing::info!(%request_id, %method, route, status = status.as_u16(), milliseconds, code = %error.code(), cause = error.internal_cause());
            }
            write_error(&mut response, error, request_id, is_plain);
        }
        None => tracing::info!(%request_id, %method, route, status = status.as_u16(), milliseconds),
    }
    if let Ok(value) = HeaderValue::from_str(&request_id.to_string()) {
        response.headers_mut().insert("x-request-id", value);
    }
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

fn size_of(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

/// Of two, whoever stands before us may have judged the one and we would use the other.
fn check_sent_once(headers: &HeaderMap) -> Result<(), Error> {
    match ["Authorization", "Idempotency-Key", "X-GitHub-Token"].into_iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        Some(name) => Err(Error::new(Code::BadRequest, format!("the header `{name}` is sent more than once"))
            .detail("header", name)
            .suggestion("send it once")),
        None => Ok(()),
    }
}

/// Under the name of a port nothing of the API is served: pages from inside live there.
fn check_host(state: &State, request: &Request) -> Result<(), Error> {
    let host = request.uri().authority().map(http::uri::Authority::as_str);
    let host = host.or_else(|| request.headers().get(http::header::HOST).and_then(|host| host.to_str().ok())).unwrap_or_default();
    match state.app.settings().ports.as_ref().and_then(|origin| origin.name(host).map(|name| origin.url(name))) {
        Some(url) => {
            Err(Error::new(Code::NotFound, "the API is not served under the name of a port")
                .suggestion(format!("the port itself is at {url}")))
        }
        None => Ok(()),
    }
}

fn write_error(response: &mut Response, error: &Error, request_id: RequestId, is_plain: bool) {
    let id = request_id.to_string();
    let text = match is_plain {
        true => serde_json::to_vec(&error.plain_body(Some(&id))),
        false => serde_json::to_vec(&error.body(Some(&id))),
    };
    let text = text.unwrap_or_default();
    *response.body_mut() = Body::from(text);
    response.headers_mut().remove(http::header::CONTENT_LENGTH);
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
}

/// The inner half, for requests that a route matches: who is it, may they, how often.
pub async fn inner(axum::extract::State(state): axum::extract::State<State>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    match admit(&state, request, &route).await {
        Ok((request, allowance)) => {
            let mut response = next.run(request).await;
            if let Some(allowance) = allowance {
                allowance.write(response.headers_mut(), state.app.context().now(), false);
            }
            response
        }
        Err(Refusal::Error(error)) => {
            let allowed = (error.code() == Code::MethodNotAllowed).then(|| access::methods(&route).join(", "));
            let mut response = Failure(error).into_response();
            if let Some(allowed) = allowed.and_then(|allowed| HeaderValue::from_str(&allowed).ok()) {
                response.headers_mut().insert(http::header::ALLOW, allowed);
            }
            response
        }
        Err(Refusal::TooMany(error, allowance)) => {
            let mut response = Failure(error).into_response();
            allowance.write(response.headers_mut(), state.app.context().now(), true);
            response
        }
    }
}

enum Refusal {
    Error(Error),
    TooMany(Error, crate::limits::Allowance),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

async fn admit(state: &State, request: Request, route: &str) -> Result<(Request, Option<crate::limits::Allowance>), Refusal> {
    let access = access::needed(request.method(), route).ok_or_else(|| no_method(request.method()))?;
    body::check_announced(&request, route)?;
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    // What is open to anybody asks for nothing: there a wrong credential is as good as none.
    let presented = match access {
        Access::Open => Presented::Nothing,
        _ => presented(request.headers(), peer.as_deref(), state)?,
    };
    let lease = presented_lease(request.headers())?;
    let (mut parts, request_body) = request.into_parts();
    let project = project_of(&mut parts, route).await;
    let request_id = parts.extensions.get::<RequestId>().copied().unwrap_or_else(|| RequestId::new(state.app.context()));
    let source = peer.as_ref().map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
    let verdict = state.app.judge(access, presented, project, Arrival { source, request_id, lease }).await?;
    // Counted before it is told: trying doors is not free.
    let allowance = match verdict.key {
        Some(key) => state.limits.count(key).map_err(|(error, allowance)| Refusal::TooMany(error, allowance))?,
        None => None,
    };
    let mut admitted = verdict.outcome?;
    if let Admitted::Caller(caller) | Admitted::Entered(Entered { caller, .. }) = &admitted {
        check_lease(caller, &parts.method, route, parts.uri.path())?;
    }
    if let Admitted::Entered(Entered { caller, .. }) = &mut admitted {
        caller.github = github::presented(&parts.headers, state)?;
    }
    // Only now, for who was let in: the body of what can be repeated is read here, everything else by its handler.
    let request_body = match idempotency_key(&parts, route)? {
        Some(key) => {
            // What may be of any length is not held here: whoever takes it adds to the fingerprint what it knows it by.
            let (bytes, rest) = match body::takes_any_length(&parts.method, route) {
                true => (Bytes::new(), Some(request_body)),
                false => (body::read(request_body).await?, None),
            };
            let fingerprint = fingerprint(&parts, &bytes);
            if let Admitted::Caller(caller) | Admitted::Entered(Entered { caller, .. }) = &mut admitted {
                caller.idempotency = Some(Idempotency { key, fingerprint });
            }
            rest.unwrap_or_else(|| Body::from(bytes))
        }
        None => request_body,
    };
    match admitted {
        Admitted::Anybody => {}
        Admitted::Caller(caller) => drop(parts.extensions.insert(caller)),
        Admitted::Entered(entered) => drop(parts.extensions.insert(entered)),
    }
    Ok((Request::from_parts(parts, request_body), allowance))
}

/// A credential that is sent decides alone; only without one does the socket speak for the caller.
fn presented(headers: &HeaderMap, peer: Option<&Peer>, state: &State) -> Result<Presented, Error> {
    if let Some(value) = headers.get(AUTHORIZATION) {
        let text = value.to_str().unwrap_or_default();
        let (scheme, credential) = text.split_once(' ').unwrap_or((text, ""));
        if !scheme.eq_ignore_ascii_case("bearer") || credential.trim().is_empty() {
            return Err(Error::new(Code::Unauthorized, "the Authorization header is not `Bearer` and a key")
                .suggestion("send `Authorization: Bearer stk_…`"));
        }
        return Ok(Presented::Key(credential.trim().to_owned()));
    }
    match peer {
        Some(Peer::Owner { .. }) if !state.app.settings().allow_unsandboxed => Ok(Presented::Socket),
        Some(Peer::Owner { .. }) => Err(Error::new(
            Code::Unauthorized,
            "this server allows unsandboxed environments, so the unix socket asks for a key too: code of the same user could use it otherwise",
        )
        .suggestion(format!("use --key-file {}", state.app.settings().data_dir.join("owner.key").display()))),
        Some(Peer::Refused { reason }) => Err(Error::new(Code::Unauthorized, format!("the unix socket needs a key from here: {reason}"))
            .suggestion("send `Authorization: Bearer stk_…`")),
        _ => Ok(Presented::Nothing),
    }
}

/// What an ended lease, or the token of one as a credential, may still ask for.
fn check_lease(caller: &Caller, method: &Method, route: &str, path: &str) -> Result<(), Error> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    // Its end can be asked for once more, and what came of it.
    let of_a_lease = route.contains("/leases/{lease_id}");
    let is_credential = matches!(caller.credential, Credential::Lease { .. });
    let of_its_own = of_a_lease && caller.lease.is_some_and(|lease| path.split('/').any(|part| part == lease.to_string()));
    if let Some(how) = caller.lease_ended.as_ref().filter(|_| (!reads || is_credential) && !of_its_own) {
        return Err(lease_has_ended(how));
    }
    // Nor does it make another environment of its own, or say what it is.
    let defines =
        route.ends_with("/fork") || route.ends_with("/rollback") || *method == Method::PATCH && route.ends_with("{environment_id}");
    let elsewhere = !route.contains("{environment_id}") && !of_a_lease || defines;
    if is_credential && !reads && elsewhere {
        return Err(
            Error::new(Code::Forbidden, "the token of a lease is for work in its environment").suggestion("use an API key for this")
        );
    }
    Ok(())
}

/// The token of a lease that came beside the credential.
fn presented_lease(headers: &HeaderMap) -> Result<Option<LeaseToken>, Error> {
    let mut values = headers.get_all("stead-lease").iter();
    let (first, more) = (values.next(), values.next().is_some());
    match first.map(|value| value.to_str().map(str::trim)) {
        None => Ok(None),
        Some(Ok(token)) if !more && token.starts_with(TOKEN_PREFIX) => Ok(Some(LeaseToken(token.to_owned()))),
        Some(_) => Err(Error::new(Code::BadRequest, "the header `Stead-Lease` is not the token of one lease")
            .suggestion("send the `token` that the acquisition was answered with: `Stead-Lease: stl_…`")),
    }
}

async fn project_of(parts: &mut Parts, route: &str) -> Option<String> {
    if !route.contains("{project}") {
        return None;
    }
    let parameters = axum::extract::RawPathParams::from_request_parts(parts, &()).await.ok()?;
    parameters.iter().find(|(name, _)| *name == "project").map(|(_, value)| value.to_owned())
}

fn idempotency_key(parts: &Parts, route: &str) -> Result<Option<String>, Error> {
    // A value that is set again after somebody else's would undo theirs; the other methods do no harm when they are repeated.
    let sets_secret = parts.method == Method::PUT && route == "/v1/projects/{project}/secrets/{name}";
    if parts.method != Method::POST && !sets_secret {
        return Ok(None);
    }
    let Some(value) = parts.headers.get("idempotency-key") else { return Ok(None) };
    let key = value.to_str().unwrap_or_default();
    if !(1..=255).contains(&key.len()) || !key.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        return Err(Error::field("Idempotency-Key", "must be 1 to 255 printable ASCII characters"));
    }
    Ok(Some(key.to_owned()))
}

/// What the request was: method, path, query and body.
fn fingerprint(parts: &Parts, bytes: &[u8]) -> String {
    let head = format!("{} {}\n", parts.method, parts.uri.path_and_query().map_or("", |path| path.as_str()));
    stead_domain::api_key::hash_bytes(&[head.as_bytes(), bytes].concat())
}

/// What a path that no route matches is answered.
pub async fn not_found(request: Request) -> Failure {
    Failure(nothing_at(request.uri().path()))
}

pub fn nothing_at(path: &str) -> Error {
    let path: String = path.chars().take(128).collect();
    Error::new(Code::NotFound, format!("there is nothing at `{path}`")).suggestion("see /docs/ for the routes that there are")
}

/// What a method that an address does not have is answered. What is not in the table of access counts as not there.
pub fn no_method(method: &Method) -> Error {
    let message = format!("`{}` is not a method of this address", method.as_str().chars().take(32).collect::<String>());
    Error::new(Code::MethodNotAllowed, message).suggestion("see /docs/ for the methods that it has")
}

/// The caller that the door let in.
pub struct Who(pub Caller);

/// The caller and the project that the door let it into.
pub struct In(pub Entered);

impl<S: Sync> FromRequestParts<S> for Who {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        parts
            .extensions
            .get::<Caller>()
            .cloned()
            .map(Self)
            .ok_or_else(|| Error::internal("a handler asks for a caller that the door did not let in").into())
    }
}

impl<S: Sync> FromRequestParts<S> for In {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        parts
            .extensions
            .get::<Entered>()
            .cloned()
            .map(Self)
            .ok_or_else(|| Error::internal("a handler asks for a project that the door did not let into").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_is_sent_once() {
        for name in ["authorization", "idempotency-key"] {
            let mut headers = HeaderMap::new();
            headers.append(name, HeaderValue::from_static("a"));
            headers.append("accept", HeaderValue::from_static("a"));
            headers.append("accept", HeaderValue::from_static("b"));
            check_sent_once(&headers).unwrap();
            headers.append(name, HeaderValue::from_static("a"));
            let error = check_sent_once(&headers).unwrap_err();
            assert_eq!(error.code(), Code::BadRequest);
            assert!(error.message().to_lowercase().contains(name), "{error}");
        }
    }
}
