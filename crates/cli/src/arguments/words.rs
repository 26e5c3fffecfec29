//! Arguments that are one of several words, known to help and completion.

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

#[cfg(test)]
mod tests {
    use super::*;

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
