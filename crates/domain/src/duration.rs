//! Durations as people write them in definitions and requests: `90s`, `1h30m`, `250ms`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

/// A duration in the notation of Go: a sequence of numbers with units, `ms`, `s`, `m` or `h`; what is shorter than a millisecond is
/// rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(value_type = String, example = "1h30m")]
pub struct Duration(u64);

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a duration such as 90s, 30m or 1h30m")]
pub struct InvalidDuration(String);

impl Duration {
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds)
    }

    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1000)
    }

    pub fn as_millis(self) -> u64 {
        self.0
    }
}

impl From<Duration> for std::time::Duration {
    fn from(duration: Duration) -> Self {
        Self::from_millis(duration.0)
    }
}

impl FromStr for Duration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidDuration(text.chars().take(64).collect());
        if text == "0" {
            return Ok(Self(0));
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        let mut total: f64 = 0.0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
            let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
            rest = &rest[digits..];
            let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
            total += number
                * match &rest[..unit] {
                    "ns" => 0.000_001,
                    "us" | "µs" | "μs" => 0.001,
                    "ms" => 1.0,
                    "s" => 1_000.0,
                    "m" => 60_000.0,
                    "h" => 3_600_000.0,
                    _ => return Err(invalid()),
                };
            rest = &rest[unit..];
        }
        // A century is longer than anything here may last, and far from where f64 loses milliseconds.
        if text.trim_start_matches('+').is_empty() || !total.is_finite() || total > 3.2e12 {
            return Err(invalid());
        }
        Ok(Self(total.round() as u64))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes, seconds, milliseconds) = (self.0 / 3_600_000, self.0 / 60_000 % 60, self.0 / 1000 % 60, self.0 % 1000);
        if self.0 == 0 {
            return formatter.write_str("0s");
        }
        for (amount, unit) in [(hours, "h"), (minutes, "m"), (seconds, "s"), (milliseconds, "ms")] {
            if amount > 0 {
                write!(formatter, "{amount}{unit}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn people_and_go_write_them_alike() {
        for (text, milliseconds) in [
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("1.5h", 5_400_000),
            ("0", 0),
            ("0s", 0),
            ("+5m", 300_000),
            ("1500us", 2),
            ("3µs", 0),
        ] {
            assert_eq!(text.parse::<Duration>().unwrap().as_millis(), milliseconds, "{text}");
        }
        for text in ["", "5", "s", "+", "-1s", "1d", "1 h", "1h-", "..s", "99999999999999h"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_duration_survives_its_text(milliseconds in 0u64..3_000_000_000_000) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(duration.to_string().parse::<Duration>().unwrap(), duration);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<Duration>();
        }
    }
}
