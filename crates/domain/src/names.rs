//! The patterns that names and handles must have. None of them can spell a path that leads elsewhere.

use crate::error::{Error, Result};

/// `^[a-z0-9]+(-[a-z0-9]+)*$`, at most 63 characters.
pub fn check_handle(handle: &str) -> Result<()> {
    let well_formed = !handle.is_empty()
        && handle.len() <= 63
        && handle.split('-').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
    if well_formed {
        return Ok(());
    }
    Err(Error::field("handle", "must be 1 to 63 lower-case letters and digits, in groups joined by single dashes")
        .detail("pattern", "^[a-z0-9]+(-[a-z0-9]+)*$"))
}

/// The most characters of a name.
pub const LONGEST: usize = 128;

/// A name of an environment, principal or key: letters, digits, space, dot, dash, underscore; it starts and ends with none of the
/// last but dash or underscore, so that it is one path segment and never `.` or `..`.
pub fn check_name(field: &str, name: &str) -> Result<()> {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '-' | '_');
    let well_formed = (1..=LONGEST).contains(&name.chars().count())
        && name.chars().all(allowed)
        && name.starts_with(|c: char| c.is_alphanumeric())
        && !name.ends_with([' ', '.']);
    if well_formed {
        return Ok(());
    }
    Err(Error::field(
        field,
        "must be 1 to 128 letters, digits, spaces, dots, dashes or underscores, starting with a letter or digit and not ending in a space or dot",
    ))
}

/// The id of a definition, which is also its file's stem: `^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`.
pub fn check_definition_id(id: &str) -> Result<()> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if (1..=63).contains(&id.len()) && id.bytes().all(allowed) && id.as_bytes()[0].is_ascii_alphanumeric() && !id.ends_with('.') {
        return Ok(());
    }
    Err(Error::field("id", "must be 1 to 63 letters, digits, dots, dashes or underscores, starting with a letter or digit")
        .detail("pattern", "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"))
}

/// What two names are compared by: case makes no difference.
pub fn key(name: &str) -> String {
    name.to_lowercase()
}

/// Free text that people read: bounded, and without control characters.
pub fn check_text(field: &str, text: &str, longest: usize) -> Result<()> {
    if text.chars().count() > longest {
        return Err(Error::field(field, format!("is longer than {longest} characters")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::field(field, "holds a control character"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn handles_follow_the_published_pattern() {
        for handle in ["default", "a", "a-b-c", "0x", "acme-2"] {
            assert!(check_handle(handle).is_ok(), "{handle}");
        }
        for handle in ["", "-a", "a-", "a--b", "A", "a_b", "a.b", "../a", "é", &"a".repeat(64)] {
            assert!(check_handle(handle).is_err(), "{handle}");
        }
    }

    #[test]
    fn no_name_is_a_path() {
        for name in ["web", "Default local environment", "größe", "a.b", "a-_b", "日本"] {
            assert!(check_name("name", name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "../x", "a/b", "a\\b", "a\0", " a", "a ", "a.", "-rf", "a\nb", &"x".repeat(129)] {
            assert!(check_name("name", name).is_err(), "{name:?}");
        }
        for id in ["../agents/alpha/agent", "/etc/passwd", "..", "a/b", "", "a b", "a.", "é"] {
            assert!(check_definition_id(id).is_err(), "{id:?}");
        }
    }

    proptest! {
        #[test]
        fn what_passes_stays_in_its_directory(id in ".*") {
            if check_definition_id(&id).is_ok() || check_name("name", &id).is_ok() {
                let path = std::path::Path::new("/base").join(&id);
                prop_assert_eq!(path.parent(), Some(std::path::Path::new("/base")));
                prop_assert_eq!(path.components().count(), 3);
            }
        }
    }
}
