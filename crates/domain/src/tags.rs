//! Tags: a few short labels on a record.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

pub type Tags = BTreeMap<String, String>;

/// At most 8, keys of 1 to 128 characters, values of at most 256, and no key that begins with a reserved prefix.
pub fn check(tags: &Tags) -> Result<()> {
    if tags.len() > 8 {
        return Err(Error::field("tags", "at most 8 are taken"));
    }
    for (key, value) in tags {
        if !(1..=128).contains(&key.chars().count()) || key.chars().any(char::is_control) {
            return Err(Error::field("tags", "keys are 1 to 128 characters, none of them a control character"));
        }
        if key.starts_with("mobius:") || key.starts_with("stead:") {
            return Err(Error::field(format!("tags.{key}"), "keys that begin with `mobius:` or `stead:` are reserved"));
        }
        if value.chars().count() > 256 || value.chars().any(char::is_control) {
            return Err(Error::field(format!("tags.{key}"), "values are at most 256 characters, none of them a control character"));
        }
    }
    Ok(())
}

/// One `tag=Key:Value` of a list: `Key:*` is any value, `Key:a,b` one of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagFilter {
    key: String,
    values: Option<Vec<String>>,
}

impl TagFilter {
    pub fn parse(text: &str) -> Result<Self> {
        let (key, values) = text
            .rsplit_once(':')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| Error::field("tag", "must be Key:Value, Key:* or Key:a,b"))?;
        let values = (values != "*").then(|| values.split(',').map(str::to_owned).collect());
        Ok(Self { key: key.to_owned(), values })
    }

    pub fn matches(&self, tags: &Tags) -> bool {
        match (tags.get(&self.key), &self.values) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(value), Some(values)) => values.contains(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_bounded_and_reserved_keys_refused() {
        let tag = |key: &str, value: &str| Tags::from([(key.to_owned(), value.to_owned())]);
        assert!(check(&tag("team", "x")).is_ok());
        assert!(check(&tag("team", "")).is_ok());
        for (key, value) in
            [("", "x"), ("mobius:a", "x"), ("stead:a", "x"), ("a", &*"v".repeat(257)), (&*"k".repeat(129), "x"), ("a", "\u{1b}[2J")]
        {
            assert!(check(&tag(key, value)).is_err(), "{key:?}");
        }
        assert!(check(&(0..9).map(|n| (n.to_string(), String::new())).collect()).is_err());
    }

    #[test]
    fn a_filter_takes_one_several_or_any_value() {
        let tags = Tags::from([("team".to_owned(), "x".to_owned())]);
        for (filter, expected) in [("team:x", true), ("team:y", false), ("team:*", true), ("team:y,x", true), ("other:*", false)] {
            assert_eq!(TagFilter::parse(filter).unwrap().matches(&tags), expected, "{filter}");
        }
        assert!(TagFilter::parse("team").is_err() && TagFilter::parse(":x").is_err());
    }
}
