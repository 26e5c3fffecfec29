//! What is asked, and what came back.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use crate::{ClientError, Result};

/// What RFC 3986 leaves as it is; everything else is escaped, so that no name can change the path or the query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(crate) fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

const REPLY_LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    /// Whether a busy server is waited for.
    pub(crate) patient: bool,
    /// How long the reply may take; for ever when there is none.
    pub(crate) limit: Option<Duration>,
}

impl Request {
    /// `path` begins with a slash, is escaped already, and may hold a query.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, target: path.into(), headers: HeaderMap::new(), body: None, patient: true, limit: Some(REPLY_LIMIT) }
    }

    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub fn put(path: impl Into<String>) -> Self {
        Self::new(Method::PUT, path)
    }

    pub fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    pub fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Adds to the query, when there is a value.
    #[must_use]
    pub fn query(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.target.push(if self.target.contains('?') { '&' } else { '?' });
            self.target.push_str(name);
            self.target.push('=');
            self.target.push_str(&escape(&value.to_string()));
        }
        self
    }

    pub fn json(self, body: &impl Serialize) -> Result<Self> {
        let text = serde_json::to_vec(body).map_err(|error| ClientError::Request { cause: error.to_string() })?;
        self.body(text).header("content-type", "application/json")
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Result<Self> {
        let name: HeaderName = name.parse().map_err(|_| ClientError::Request { cause: format!("`{name}` is no name of a header") })?;
        let value = HeaderValue::from_str(value)
            .map_err(|_| ClientError::Request { cause: format!("the value of header `{name}` is not text") })?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Takes the first answer, also that of a busy server.
    #[must_use]
    pub fn impatient(mut self) -> Self {
        self.patient = false;
        self
    }

    /// How long the reply may take, for what is known to take longer than most; for ever when there is no limit.
    #[must_use]
    pub fn within(mut self, limit: Option<Duration>) -> Self {
        self.limit = limit;
        self
    }

    pub fn has_header(&self, name: &str) -> bool {
        self.headers.contains_key(name)
    }
}

#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Response {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Which part of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

impl ListOptions {
    pub(crate) fn apply(&self, request: Request) -> Request {
        request.query("limit", self.limit).query("cursor", self.cursor.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_changes_the_query() {
        let request = Request::get("/v1/x").query("name", Some("a&b=c/../ü")).query("none", None::<&str>).query("limit", Some(5));
        assert_eq!(request.target, "/v1/x?name=a%26b%3Dc%2F..%2F%C3%BC&limit=5");
    }

    #[test]
    fn a_header_holds_no_second_one() {
        assert!(Request::get("/").header("x-a", "b\r\nx-c: d").is_err());
        assert!(Request::get("/").header("x a", "b").is_err());
    }
}
