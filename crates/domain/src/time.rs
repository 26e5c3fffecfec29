//! A point in time, in microseconds since the epoch, shown as RFC 3339 in UTC.
//!
//! The one module that knows jiff.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-05-04T10:00:00.000000Z")]
pub struct Timestamp(i64);

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an RFC 3339 time such as 2026-05-04T10:00:00Z")]
pub struct InvalidTimestamp(String);

impl Timestamp {
    pub const EPOCH: Self = Self(0);
    /// The last microsecond of the year 9999: what RFC 3339 can still write.
    const LATEST: i64 = 253_402_300_799_999_999;

    pub fn from_microseconds(microseconds: i64) -> Self {
        Self(microseconds.clamp(-62_135_596_800_000_000, Self::LATEST))
    }

    pub fn microseconds(self) -> i64 {
        self.0
    }

    pub fn plus(self, duration: Duration) -> Self {
        let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self::from_microseconds(self.0.saturating_add(microseconds))
    }

    pub fn minus(self, duration: Duration) -> Self {
        let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self::from_microseconds(self.0.saturating_sub(microseconds))
    }

    /// As people read it in a sentence: no fraction of a second.
    pub fn to_the_second(self) -> String {
        let text = self.to_string();
        text.split_once('.').map_or(text.clone(), |(seconds, _)| format!("{seconds}Z"))
    }

    /// As HTTP writes it in `Date`: `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn from_http_date(text: &str) -> Option<Self> {
        let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        Some(Self::from_microseconds(parsed.as_microsecond()))
    }

    /// How long after `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(timestamp) => write!(formatter, "{timestamp:.6}"),
            Err(_) => Err(fmt::Error),
        }
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed: jiff::Timestamp = text.parse().map_err(|_| InvalidTimestamp(text.to_owned()))?;
        let microseconds = parsed.as_microsecond();
        if microseconds > Self::LATEST {
            return Err(InvalidTimestamp(text.to_owned()));
        }
        Ok(Self(microseconds))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_its_text() {
        let time: Timestamp = "2026-05-04T10:00:00.123456Z".parse().unwrap();
        assert_eq!(time.to_string(), "2026-05-04T10:00:00.123456Z");
        assert_eq!(time.to_the_second(), "2026-05-04T10:00:00Z");
        assert_eq!(time.plus(Duration::from_secs(1)).since(time), Duration::from_secs(1));
        assert_eq!(time.since(time.plus(Duration::from_secs(1))), Duration::ZERO);
        assert_eq!("2026-05-04T12:00:00+02:00".parse::<Timestamp>().unwrap().to_string(), "2026-05-04T10:00:00.000000Z");
    }

    #[test]
    fn a_date_of_http_is_read() {
        let time = Timestamp::from_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(time.to_the_second(), "1994-11-06T08:49:37Z");
        assert!(Timestamp::from_http_date("yesterday").is_none() && Timestamp::from_http_date("").is_none());
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "yesterday", "2026-05-04", "2026-05-04T10:00:00", "2026-13-01T00:00:00Z"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }
}
