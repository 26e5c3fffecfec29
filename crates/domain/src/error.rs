//! Errors that reach a caller: a stable code, a message, and what to do next.
//!
//! Every code stands once in the table below, with the HTTP status and the exit code that follow from it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::strict::Strict;

pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($($variant:ident, $text:literal, $status:literal, $exit:literal, $help:literal;)*) => {
        /// What went wrong, as a word that never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($variant,)* }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }

            /// The HTTP status of the reply.
            pub fn status(self) -> u16 {
                match self { $(Code::$variant => $status,)* }
            }

            /// The exit code of a command that ends with it.
            pub fn exit_code(self) -> u8 {
                match self { $(Code::$variant => $exit,)* }
            }

            /// One sentence for the documentation.
            pub fn help(self) -> &'static str {
                match self { $(Code::$variant => $help,)* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Code::$variant),)* _ => None }
            }
        }
    };
}

codes! {
    // variant, code, HTTP status, exit code, help
    BadRequest, "bad_request", 400, 2, "The request could not be understood; the message says which part.";
    MissingBody, "missing_body", 400, 2, "The request needs a JSON body and had none.";
    MalformedJson, "malformed_json", 400, 2, "The text is not JSON; `details` holds line and column.";
    InvalidField, "invalid_field", 400, 2, "A field has a wrong type, an unknown name or a value outside its range; `details.field` names it.";
    InvalidCursor, "invalid_cursor", 400, 2, "The cursor was not made by this list; start again without one.";
    MalformedDefinition, "malformed_definition", 400, 2, "A definition file is not JSON; `details` holds path, line and column.";
    InvalidDefinition, "invalid_definition", 400, 2, "A definition is JSON but not valid; `details.field` names the field.";
    DefinitionNotFound, "definition_not_found", 404, 4, "There is no definition file of that name here or above.";
    ProviderMismatch, "provider_mismatch", 400, 2, "`provider` and `kind` name one thing and were given two different values.";
    ConfirmationRequired, "confirmation_required", 400, 2, "Deleting a project takes `confirm` with its handle.";
    ProgramNotFound, "program_not_found", 409, 127, "There is no such program inside the environment; nothing was started.";
    ProgramNotRunnable, "program_not_runnable", 409, 126, "The program is there but cannot be run; nothing was started.";
    DirectoryNotFound, "directory_not_found", 409, 125, "The working directory is not there inside the environment; nothing was started.";
    FileNotFound, "file_not_found", 404, 4, "There is nothing of that path inside the environment.";
    NotADirectory, "not_a_directory", 409, 3, "The path leads through something that is not a directory, or ends there.";
    IsADirectory, "is_a_directory", 409, 3, "The path is a directory, and a file is needed.";
    NotAFile, "not_a_file", 409, 3, "The path is a pipe, a socket or a device.";
    FileExists, "file_exists", 409, 3, "There is something of that path already.";
    DirectoryNotEmpty, "directory_not_empty", 409, 3, "The directory has something in it.";
    FileDenied, "file_denied", 403, 5, "What runs inside may not touch that path, or it is read-only there.";
    PathTooLong, "path_too_long", 409, 3, "What lies there is so deep that its path is longer than the kernel takes.";
    WrongOffset, "wrong_offset", 409, 3, "The file does not end where the request says; `details.size` says where it does.";
    FileFailed, "file_failed", 409, 3, "The file could not be read or written; the message holds what the kernel said.";
    InvalidArchive, "invalid_archive", 400, 2, "The body is no archive, is cut off, is not what its digests say, or holds an entry that may not be unpacked; `details.path` names it.";
    GithubLoginFailed, "github_login_failed", 400, 2, "The way to GitHub and back was not one that this server began for this browser, or is over.";
    Unauthorized, "unauthorized", 401, 5, "No credential, or one that is unknown, expired or revoked.";
    Forbidden, "forbidden", 403, 5, "The caller's role does not allow this.";
    RepositoryNotAllowed, "repository_not_allowed", 403, 5, "The definition does not let the environment use that repository; `details.repository` names it.";
    NotFound, "not_found", 404, 4, "There is nothing of that id or name that the caller may see.";
    MethodNotAllowed, "method_not_allowed", 405, 2, "The address exists but not with this method.";
    Conflict, "conflict", 409, 3, "The present state does not allow this.";
    AlreadyExists, "already_exists", 409, 3, "The name is taken.";
    ProviderNotConfigured, "provider_not_configured", 409, 3, "The provider is known but this server has no settings for it.";
    PostureNotEnforced, "posture_not_enforced", 409, 3, "The provider cannot enforce a field of the posture; `details.field` names it.";
    EnvironmentDestroyed, "environment_destroyed", 409, 3, "The environment has been deleted; only its record is left.";
    EnvironmentOnOtherHost, "environment_on_other_host", 409, 3, "The sandbox belongs to another host, which alone may touch it.";
    EnvironmentDraining, "environment_draining", 409, 3, "Whoever keeps the environment is of another version, takes no new process, and ends with the last one that runs.";
    EnvironmentBusy, "environment_busy", 409, 3, "Processes run in the environment; `details.processes` says how many.";
    CheckpointNeedsStop, "checkpoint_needs_stop", 409, 3, "A checkpoint beside running processes needs a filesystem that shares blocks between files, and cgroups.";
    CheckpointUnsupported, "checkpoint_unsupported", 409, 3, "The environment's files cannot be sealed; the message says why.";
    ArchiveUnsupported, "archive_unsupported", 409, 3, "The archive of an environment cannot be made or used here; the message says why.";
    EnvironmentAsleep, "environment_asleep", 409, 3, "Nothing runs in the environment, and it is not woken for this.";
    PortClosed, "port_closed", 409, 3, "Nothing listens on the port inside the environment, or only where it cannot be reached.";
    LeaseHeld, "lease_held", 409, 3, "Somebody else holds the environment, or waits for it; `details` says who, and for how long.";
    LeaseFencing, "lease_fencing", 409, 3, "What the holder before left could not be stopped yet, and nobody is let in before it is.";
    LeaseReadOnly, "lease_read_only", 409, 3, "A shared lease reads, and changes nothing.";
    LeaseLost, "lease_lost", 410, 3, "The lease has ended, and an ended one is never revived; `details` says how.";
    EnvironmentQuarantined, "environment_quarantined", 409, 3, "What a holder left could not be cleaned up three times over; somebody has to look at it.";
    SecretMissing, "secret_missing", 409, 3, "A secret that the definition requires is not set; `details.name` names it. Nothing was started.";
    SecretUnusable, "secret_unusable", 409, 3, "A secret's value cannot be delivered as its binding says; `details.name` names it.";
    MasterKeyMismatch, "master_key_mismatch", 409, 3, "What is in the store was sealed with another master key than the one that this server has.";
    GithubIdentityRequired, "github_identity_required", 403, 5, "This is told to a user of GitHub alone: sign in at `/api/auth/github/login`, or send `X-GitHub-Token`. An API key of this server is none.";
    GithubProofRequired, "github_proof_required", 403, 5, "Whoever gives an environment an installation or repositories of one must be shown them by GitHub; send `X-GitHub-Token` with the request, or sign in.";
    GitUnavailable, "git_unavailable", 409, 3, "There is no credential to give: the server has no GitHub App, or the definition names no installation.";
    GithubNotInstalled, "github_not_installed", 409, 3, "The installation that the definition names is none of the server's GitHub App, or is there no more.";
    GithubForbidden, "github_forbidden", 409, 3, "GitHub refuses a token of the installation, as it does when that is suspended.";
    GithubRepositoryMissing, "github_repository_missing", 409, 3, "A repository that the definition allows is not in the installation, or a permission that is asked for is not granted to it.";
    SandboxInUse, "sandbox_in_use", 409, 3, "Live environments use the sandbox.";
    LastOwner, "last_owner", 409, 3, "A project keeps at least one owner.";
    IdempotencyInProgress, "idempotency_in_progress", 409, 3, "The first request with this Idempotency-Key has not ended.";
    StoreInUse, "store_in_use", 409, 3, "Another server uses the data directory or the database.";
    StoreTooNew, "store_too_new", 409, 3, "The store was written by a newer version.";
    StoreTooOld, "store_too_old", 409, 3, "The store was written by an older version, and only a server brings it up to date.";
    PreconditionFailed, "precondition_failed", 412, 3, "`If-Match` names an older version than the present one.";
    FenceStale, "fence_stale", 412, 3, "The lease that was presented has ended, and somebody else may hold the environment by now.";
    PayloadTooLarge, "payload_too_large", 413, 2, "The body is larger than the server takes.";
    UnsupportedMediaType, "unsupported_media_type", 415, 2, "Bodies are `application/json`.";
    RangeNotSatisfiable, "range_not_satisfiable", 416, 2, "The range begins after the end of the file.";
    IdempotencyMismatch, "idempotency_mismatch", 422, 2, "The Idempotency-Key was used before with another request.";
    HeadersTooLarge, "headers_too_large", 431, 2, "The request's headers are larger than the server takes.";
    RateLimitExceeded, "rate_limit_exceeded", 429, 1, "Too many requests with one key; `Retry-After` says when to go on.";
    Internal, "internal", 500, 1, "A fault of Stead's; the log has it under the request id.";
    GithubNotConfigured, "github_not_configured", 501, 1, "The server has no GitHub App; its operator sets `GITHUB_APP_ID` and `GITHUB_APP_PRIVATE_KEY`.";
    GithubAppRejected, "github_app_rejected", 502, 1, "GitHub does not accept the server's GitHub App: another key, another id, or a clock that is wrong.";
    GithubFailed, "github_failed", 502, 1, "GitHub did not answer, answered something else, or asks to come back later.";
    ProviderFailed, "provider_failed", 502, 1, "The provider answered with an error.";
    SecretUnavailable, "secret_unavailable", 502, 1, "Where a secret comes from did not answer, or refused; `details.name` names it.";
    PortFailed, "port_failed", 502, 1, "What listens on the port hung up, takes no connection, or answered what is no HTTP.";
    PortTimeout, "port_timeout", 504, 1, "What listens on the port took the request and did not answer in time.";
    ServiceUnavailable, "service_unavailable", 503, 1, "The store or a part of the server cannot be reached now.";
    StorageFull, "storage_full", 507, 1, "The disk under the data directory is full or refuses writes.";
    // Only a client says these.
    Unreachable, "unreachable", 503, 1, "No server answers at the address.";
    OutputIncomplete, "output_incomplete", 500, 125, "A command printed more than is kept, faster than it was taken; a part is missing.";
    Usage, "usage", 400, 2, "The command line could not be understood.";
    Ambiguous, "ambiguous", 409, 2, "The name or prefix fits more than one.";
    LocalFile, "local_file", 500, 1, "A file of the user's could not be read or written.";
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The table as a page of the documentation.
pub fn document() -> String {
    let mut text = String::from(
        "# Errors\n\nWritten from the table in `crates/domain/src/error.rs` by its own test.\n\n\
        Every error has a code that never changes. The HTTP status and the exit code of a command follow from it.\n\n\
        ```json\n{ \"error\": { \"code\": \"not_found\", \"message\": \"…\", \"details\": { \"suggestion\": \"…\", \"recoverable\": false, \"request_id\": \"req_…\" } } }\n```\n\n\
        `details.suggestion` says what to do next, `details.recoverable` whether the same request may succeed later, and `details.request_id` \
        under which id the server's log has it. A command prints message, code and suggestion on stderr; with `--json` it prints the error \
        as above.\n\n| exit code | means |\n|---|---|\n| 0 | done |\n| 1 | failed |\n| 2 | not understood, or not valid |\n\
        | 3 | the present state does not allow it |\n| 4 | not found |\n| 5 | not allowed |\n| 125 | `run`, `exec`, `shell` and `lease run`: Stead could not do it, or the lease was lost |\n| 126, 127 | the program cannot be run; there is no such program |\n\n| code | status | exit code | meaning |\n|---|---|---|---|\n",
    );
    for code in Code::ALL {
        text.push_str(&format!("| `{code}` | {} | {} | {} |\n", code.status(), code.exit_code(), code.help()));
    }
    text
}

/// An error with all that a caller needs. What is internal stays in `source` and reaches only the log.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    code: Code,
    message: String,
    suggestion: Option<String>,
    recoverable: bool,
    details: Map<String, Value>,
    internal: Option<String>,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let recoverable = matches!(
            code,
            Code::RateLimitExceeded | Code::ServiceUnavailable | Code::IdempotencyInProgress | Code::Unreachable | Code::StorageFull
        );
        Self(Box::new(Inner { code, message: message.into(), suggestion: None, recoverable, details: Map::new(), internal: None }))
    }

    /// A fault of our own: the caller sees a request id, the log sees the cause.
    pub fn internal(cause: impl fmt::Display) -> Self {
        let mut error = Self::new(Code::Internal, "Stead failed to do this; the cause is in the server's log")
            .suggestion("search the server's log for the request id, and report it if it comes again");
        error.0.internal = Some(cause.to_string());
        error
    }

    /// A field that is wrong, by its path.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        let field = field.into();
        Self::new(Code::InvalidField, format!("`{field}`: {}", message.into())).detail("field", field)
    }

    pub fn not_found(what: &str, reference: impl fmt::Display) -> Self {
        Self::new(Code::NotFound, format!("there is no {what} `{reference}` here"))
    }

    #[must_use]
    pub fn suggestion(mut self, text: impl Into<String>) -> Self {
        self.0.suggestion = Some(text.into());
        self
    }

    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.details.insert(name.to_owned(), value.into());
        self
    }

    #[must_use]
    pub fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.0.internal = Some(cause.to_string());
        self
    }

    #[must_use]
    pub fn with_code(mut self, code: Code) -> Self {
        self.0.code = code;
        self
    }

    #[must_use]
    pub fn recoverable(mut self, recoverable: bool) -> Self {
        self.0.recoverable = recoverable;
        self
    }

    /// The same with every text in it put through a function, as is done with what no error may hold.
    #[must_use]
    pub fn with_texts(mut self, through: impl Fn(&str) -> String) -> Self {
        fn each(value: &mut Value, through: &dyn Fn(&str) -> String) {
            match value {
                Value::String(text) => *text = through(text),
                Value::Array(values) => values.iter_mut().for_each(|value| each(value, through)),
                Value::Object(values) => values.values_mut().for_each(|value| each(value, through)),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        self.0.message = through(&self.0.message);
        self.0.suggestion = self.0.suggestion.map(|text| through(&text));
        self.0.internal = self.0.internal.map(|text| through(&text));
        self.0.details.values_mut().for_each(|value| each(value, &through));
        self
    }

    pub fn code(&self) -> Code {
        self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn suggested(&self) -> Option<&str> {
        self.0.suggestion.as_deref()
    }

    pub fn is_recoverable(&self) -> bool {
        self.0.recoverable
    }

    pub fn details(&self) -> &Map<String, Value> {
        &self.0.details
    }

    pub fn internal_cause(&self) -> Option<&str> {
        self.0.internal.as_deref()
    }

    /// The body of a reply on `/v1`.
    pub fn body(&self, request_id: Option<&str>) -> ErrorBody {
        let mut details = self.0.details.clone();
        if let Some(suggestion) = &self.0.suggestion {
            details.insert("suggestion".to_owned(), Value::from(suggestion.clone()));
        }
        details.insert("recoverable".to_owned(), Value::from(self.0.recoverable));
        if let Some(request_id) = request_id {
            details.insert("request_id".to_owned(), Value::from(request_id));
        }
        ErrorBody { error: ErrorContent { code: self.0.code.as_str().to_owned(), message: self.0.message.clone(), details: Some(details) } }
    }

    /// The body of a reply on `/api`.
    pub fn plain_body(&self, request_id: Option<&str>) -> PlainErrorBody {
        let mut context = self.0.details.clone();
        if let Some(request_id) = request_id {
            context.insert("request_id".to_owned(), Value::from(request_id));
        }
        let (code, message) = (self.0.code.as_str().to_owned(), self.0.message.clone());
        let (suggestion, recoverable) = (self.0.suggestion.clone(), self.0.recoverable);
        PlainErrorBody { error: PlainErrorContent { code, message, suggestion, recoverable, context } }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

/// The error body of `/api`: what stands in `details` on `/v1` stands beside the code, and everything else in `context`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PlainErrorBody {
    pub error: PlainErrorContent,
}

#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PlainErrorContent {
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    pub recoverable: bool,
    /// `request_id`, and what the code adds.
    #[schema(value_type = Object)]
    pub context: Map<String, Value>,
}

/// The error body of `/v1`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorBody {
    pub error: ErrorContent,
}

#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorContent {
    pub code: String,
    pub message: String,
    /// `suggestion`, `recoverable`, `request_id`, and what the code adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<Map<String, Value>>,
}

/// Reads JSON text and tells apart what is malformed (with line and column) from what is invalid (with the field).
pub fn parse_json<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(Strict(&mut deserializer)).map_err(|error| {
        let path = error.path().to_string();
        from_json(error.inner(), &path)
    })?;
    deserializer.end().map_err(|error| from_json(&error, ""))?;
    Ok(value)
}

/// The same for a value that is already JSON; `prefix` names where it stood.
pub fn parse_value<T: serde::de::DeserializeOwned>(value: Value, prefix: &str) -> Result<T> {
    serde_path_to_error::deserialize(Strict(value)).map_err(|error| {
        let inner = error.path().to_string();
        let path = match (prefix, inner.as_str()) {
            (prefix, ".") => prefix.to_owned(),
            ("", inner) => inner.to_owned(),
            (prefix, inner) => format!("{prefix}.{inner}"),
        };
        from_json(error.inner(), &path)
    })
}

fn from_json(error: &serde_json::Error, path: &str) -> Error {
    use serde_json::error::Category;
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text);
    match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => {
            Error::new(Code::MalformedJson, format!("not valid JSON: {message} at line {}, column {}", error.line(), error.column()))
                .detail("line", error.line())
                .detail("column", error.column())
                .suggestion("check the JSON text at that position")
        }
        Category::Data => {
            let field = match path {
                "" | "." => message.split('`').nth(1).filter(|_| message.contains(" field `")).unwrap_or("body"),
                path => path,
            };
            let mut failure = Error::field(field, message);
            if let Some((_, expected)) = message.split_once("expected") {
                let allowed: Vec<Value> = expected.split('`').skip(1).step_by(2).map(Value::from).collect();
                if !allowed.is_empty() {
                    failure = failure.detail("allowed", allowed);
                }
            }
            failure.suggestion("see /docs/ for the fields and values that are taken")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inside {
        #[serde(default)]
        number: u8,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outside {
        inside: Inside,
    }

    #[test]
    fn each_code_stands_once_and_has_help() {
        for (index, code) in Code::ALL.iter().enumerate() {
            assert!(Code::ALL[..index].iter().all(|other| other.as_str() != code.as_str()), "{code}");
            assert_eq!(Code::parse(code.as_str()), Some(*code));
            assert!((400..=599).contains(&code.status()) && matches!(code.exit_code(), 1..=5 | 125..=127) && code.help().ends_with('.'));
        }
    }

    #[test]
    fn the_page_in_the_documentation_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
        if std::env::var_os("STEAD_UPDATE_DOCS").is_some() {
            std::fs::write(&path, document()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), document(), "run `make generate`");
    }

    #[test]
    fn malformed_and_invalid_are_different_errors() {
        let malformed = parse_json::<Outside>(b"{\n \"inside\": }").unwrap_err();
        assert_eq!((malformed.code(), malformed.details()["line"].as_u64()), (Code::MalformedJson, Some(2)));
        let truncated = parse_json::<Outside>(b"{\"inside\"").unwrap_err();
        assert_eq!(truncated.code(), Code::MalformedJson);
        let trailing = parse_json::<Outside>(b"{\"inside\":{}} x").unwrap_err();
        assert_eq!(trailing.code(), Code::MalformedJson);
        let wrong = parse_json::<Outside>(br#"{"inside": {"number": 300}}"#).unwrap_err();
        assert_eq!((wrong.code(), wrong.details()["field"].as_str()), (Code::InvalidField, Some("inside.number")));
        let unknown = parse_json::<Outside>(br#"{"inside": {"colour": 1}}"#).unwrap_err();
        assert_eq!((unknown.code(), unknown.details()["field"].as_str()), (Code::InvalidField, Some("inside.colour")));
        let missing = parse_json::<Outside>(b"{}").unwrap_err();
        assert_eq!((missing.code(), missing.details()["field"].as_str()), (Code::InvalidField, Some("inside")));
        assert_eq!(parse_json::<Outside>(br#"{"inside": {}}"#).unwrap().inside.number, 0);
        assert!(parse_json::<Outside>(br#"[{"number": 1}]"#).is_err(), "a list is no object");
        let list = parse_json::<Outside>(br#"{"inside": [1]}"#).unwrap_err();
        assert_eq!((list.code(), list.details()["field"].as_str()), (Code::InvalidField, Some("inside")));
        assert!(parse_value::<Outside>(serde_json::json!({"inside": [1]}), "spec").is_err());
    }
}
