//! Which database the local server is told to use.

use super::check::Check;
use crate::settings::Surroundings;

pub fn examine(surroundings: &Surroundings) -> Option<Check> {
    let url = surroundings.variable("STEAD_DATABASE")?;
    Some(Check::ok("SD13", "database", format!("STEAD_DATABASE names {}", without_secrets(&url))))
}

/// The scheme, host and name of a database, without user, password and parameters.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split('?').next().unwrap_or_default();
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    // Without a scheme it may be anything, a list of `password=…` included.
    if scheme.is_empty() { "a database".to_owned() } else { format!("{scheme}://{place}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        assert_eq!(without_secrets("postgres://user:p@ss@host:5432/stead?password=x"), "postgres://host:5432/stead");
        assert_eq!(without_secrets("host=x password=y"), "a database");
    }
}
