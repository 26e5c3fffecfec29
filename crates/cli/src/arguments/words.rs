//! Arguments that are one of several words, known to help and completion.

use std::ops::RangeInclusive;

use stead_domain::definition::{Mount, MountAccess};
use stead_domain::duration::Duration;

/// A parser for one of the domain's enums of words.
macro_rules! one_of {
    ($type:ty) => {{
        use clap::builder::TypedValueParser;
        clap::builder::PossibleValuesParser::new(<$type>::ALL.iter().map(|value| value.as_str())).try_map(|text| text.parse::<$type>())
    }};
}
pub(crate) use one_of;

/// `key=value`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("it should look like key=value".to_owned()),
    }
}

/// `host:/directory:/path:ro`. What may be mounted is for the server to say.
pub fn mount(text: &str) -> Result<Mount, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (kind, source, path, access) = match parts.as_slice() {
        [kind, source, path] => (kind, source, path, MountAccess::ReadOnly),
        [kind, source, path, access] => (kind, source, path, access.parse().map_err(|_| format!("`{access}` is neither ro nor rw"))?),
        _ => return Err("it should look like host:/directory:/path:ro".to_owned()),
    };
    Ok(Mount { source: format!("{kind}:{source}"), path: (*path).to_owned(), access })
}

/// A duration as people type it: the API's notation, and days before it. The API knows no days, so they are sent as hours.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration such as 90d, 12h or 1h30m");
    let (days, rest) = match text.split_once('d') {
        Some((days, rest)) => (days.parse::<u32>().map_err(|_| wrong())?, rest),
        None => (0, text),
    };
    let rest: Duration = if rest.is_empty() && text.ends_with('d') { Duration::from_secs(0) } else { rest.parse().map_err(|_| wrong())? };
    // Through the text, so that one rule says what is too long.
    let total = Duration::from_millis(u64::from(days) * 24 * 3_600_000 + rest.as_millis());
    total.to_string().parse().map_err(|_| wrong())
}

const DAY: u64 = 24 * 3600;

/// How long a lease lasts from one renewal to the next.
pub fn lease_ttl(text: &str) -> Result<Duration, String> {
    within(text, 1..=DAY, "it must be from 1s to 24h; what takes longer renews it")
}

/// How long a lease may last whatever is renewed.
pub fn lease_lifetime(text: &str) -> Result<Duration, String> {
    within(text, 1..=30 * DAY, "it must be from 1s to 30d")
}

/// How long somebody stands in line.
pub fn lease_wait(text: &str) -> Result<Duration, String> {
    within(text, 0..=30 * DAY, "it must be at most 30d")
}

/// In seconds.
fn within(text: &str, range: RangeInclusive<u64>, otherwise: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    let milliseconds = range.start() * 1000..=range.end() * 1000;
    if milliseconds.contains(&duration.as_millis()) { Ok(duration) } else { Err(otherwise.to_owned()) }
}

/// A size as people type it: bytes, or a whole number of binary units.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size such as 64MiB, 1GiB or 1048576");
    let at = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let shift = match unit.trim_start() {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_only_unless_it_says_otherwise() {
        let said = |text: &str| mount(text).map(|it| (it.source, it.path, it.access));
        assert_eq!(said("host:/a:/b").unwrap(), ("host:/a".to_owned(), "/b".to_owned(), MountAccess::ReadOnly));
        assert_eq!(said("host:/a:/b:rw").unwrap().2, MountAccess::ReadWrite);
        for wrong in ["", "/a:/b", "host:/a", "host:/a:/b:wo", "host:/a:/b:ro:x"] {
            assert!(mount(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_binary_units() {
        for (typed, bytes) in [("0", 0), ("17", 17), ("4KiB", 4096), ("64MiB", 64 << 20), ("1 GiB", 1 << 30), ("2TiB", 2 << 40)] {
            assert_eq!(size(typed), Ok(bytes), "{typed}");
        }
        for wrong in ["", "MiB", "1MB", "1mib", "-1", "1.5GiB", "99999999999999TiB", "64MiB "] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_lease_may_be_asked_for_is_what_the_server_takes() {
        for (right, wrong, parse) in [
            (["1s", "24h"], ["999ms", "24h1ms"], lease_ttl as fn(&str) -> Result<Duration, String>),
            (["1s", "30d"], ["0s", "30d1s"], lease_lifetime),
            (["0s", "720h"], ["31d", "721h"], lease_wait),
        ] {
            assert!(right.iter().all(|text| parse(text).is_ok()), "{right:?}");
            assert!(wrong.iter().all(|text| parse(text).is_err_and(|why| why.starts_with("it must be"))), "{wrong:?}");
        }
    }

    #[test]
    fn days_are_hours() {
        for (typed, sent) in
            [("90d", "2160h"), ("1d", "24h"), ("1d12h", "36h"), ("1d1.5h", "25h30m"), ("30m", "30m"), ("0", "0s"), ("0d", "0s")]
        {
            assert_eq!(duration(typed).unwrap().to_string(), sent, "{typed}");
        }
        for wrong in ["", "d", "-1d", "1.5d", "1d2d", "12h1d", "d12h", "1 d", "1dd", "99999999999d", "4000000000d", "1w"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
