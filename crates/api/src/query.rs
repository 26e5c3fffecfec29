//! Query strings, as strict as bodies: an unknown or repeated name is an error, and a wrong value names its field.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use stead_domain::page::PageRequest;
use stead_domain::{Error, Result};

use crate::reply::Failure;

/// The pairs of a query string. Whoever reads it takes what it knows and then says that this was all.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default())?)
    }
}

impl Query {
    pub fn parse(text: &str) -> Result<Self> {
        let decode = |part: &str| {
            let spaced = part.replace('+', " ");
            percent_decode_str(&spaced).decode_utf8().map(|text| text.into_owned()).map_err(|_| Error::field("query", "is not UTF-8"))
        };
        let mut pairs = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(name)?, decode(value)?));
        }
        Ok(Self(pairs))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All values of a name that may be repeated.
    pub fn all(&mut self, name: &str) -> Vec<String> {
        let (taken, rest) = std::mem::take(&mut self.0).into_iter().partition(|(known, _)| known == name);
        self.0 = rest;
        let taken: Vec<(String, String)> = taken;
        taken.into_iter().map(|(_, value)| value).collect()
    }

    pub fn text(&mut self, name: &str) -> Result<Option<String>> {
        let mut values = self.all(name);
        match values.len() {
            0 => Ok(None),
            1 if values[0].contains('\0') => Err(Error::field(name, "holds a NUL")),
            1 => Ok(values.pop()),
            _ => Err(Error::field(name, "stands more than once")),
        }
    }

    pub fn parsed<T: FromStr>(&mut self, name: &str) -> Result<Option<T>>
    where
        T::Err: std::fmt::Display,
    {
        let value = self.text(name)?;
        value.map(|value| value.parse().map_err(|error: T::Err| wrong(name, &error.to_string()))).transpose()
    }

    pub fn flag(&mut self, name: &str) -> Result<bool> {
        match self.text(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Error::field(name, "must be `true` or `false`")),
        }
    }

    pub fn page(&mut self) -> Result<PageRequest> {
        let limit = self.text("limit")?.map(|limit| limit.parse().map_err(|_| Error::field("limit", "must be a number between 1 and 200")));
        let cursor = self.text("cursor")?;
        PageRequest::new(limit.transpose()?, cursor.as_deref())
    }

    /// Refuses what nobody took.
    pub fn end(self) -> Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => {
                let shown: String = name.chars().take(64).collect();
                Err(Error::field(shown, "is not a query parameter of this route").suggestion("see /docs/ for those that are"))
            }
        }
    }
}

/// Enum errors begin with the type's name; the caller knows the parameter's.
fn wrong(name: &str, message: &str) -> Error {
    let message = message.split_once("`: ").map_or(message, |(_, rest)| rest);
    Error::field(name, message)
}

#[cfg(test)]
mod tests {
    use stead_domain::environment::EnvironmentStatus;

    use super::*;

    #[test]
    fn queries_are_decoded_and_nothing_is_left_over() {
        let mut query = Query::parse("a=x%20y&b=1+2&tag=p:1&tag=q:2&c").unwrap();
        assert_eq!(query.text("a").unwrap().as_deref(), Some("x y"));
        assert_eq!(query.text("b").unwrap().as_deref(), Some("1 2"));
        assert_eq!(query.all("tag"), ["p:1", "q:2"]);
        assert_eq!(query.text("c").unwrap().as_deref(), Some(""));
        assert!(query.end().is_ok());
        assert!(Query::parse("x=1").unwrap().end().is_err());
        assert!(Query::parse("x=1&x=2").unwrap().text("x").is_err());
        assert!(Query::parse("x=%ff").is_err());
        let error = Query::parse("status=nope").unwrap().parsed::<EnvironmentStatus>("status").unwrap_err();
        assert!(error.message().contains("`status`") && error.message().contains("`ready`"), "{error}");
    }
}
