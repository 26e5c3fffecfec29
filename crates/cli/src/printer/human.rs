//! Numbers and times as people read them.

use std::time::Duration;

use stead_domain::Timestamp;

/// A size with a binary unit.
pub fn bytes(size: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if size < 1024 {
        return format!("{size} B");
    }
    let mut amount = size as f64 / 1024.0;
    let mut unit = 0;
    // Rounded to one digit, 1023.96 would read 1024.0: the next unit says it better.
    while amount >= 1023.95 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// The two largest units of a duration; one where the other is nothing.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (first, second) = match seconds {
        0..60 => return format!("{seconds}s"),
        60..3600 => ((seconds / 60, 'm'), (seconds % 60, 's')),
        3600..86_400 => ((seconds / 3600, 'h'), (seconds / 60 % 60, 'm')),
        _ => ((seconds / 86_400, 'd'), (seconds / 3600 % 24, 'h')),
    };
    match second.0 {
        0 => format!("{}{}", first.0, first.1),
        _ => format!("{}{}{}{}", first.0, first.1, second.0, second.1),
    }
}

/// A short time, such as that of a processor.
pub fn milliseconds(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds}ms"),
        1000..60_000 => format!("{:.1}s", milliseconds as f64 / 1000.0),
        _ => duration(Duration::from_millis(milliseconds)),
    }
}

/// How long ago, as a table shows it.
pub fn age(now: Timestamp, then: Timestamp) -> String {
    let elapsed = duration(now.since(then));
    // One unit is enough for a column.
    let first = elapsed.find(|character: char| character.is_ascii_alphabetic()).map_or(elapsed.len(), |at| at + 1);
    elapsed[..first].to_owned()
}

/// A moment to the second, as a table shows it.
pub fn moment(at: Timestamp) -> String {
    at.to_the_second()
}

pub fn plural(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        for (size, text) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_048_575, "1.0 MiB"), (5 << 30, "5.0 GiB")] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn durations_have_two_units_and_ages_one() {
        for (seconds, long, short) in [
            (0, "0s", "0s"),
            (5, "5s", "5s"),
            (192, "3m12s", "3m"),
            (1800, "30m", "30m"),
            (3600, "1h", "1h"),
            (7260, "2h1m", "2h"),
            (86_400, "1d", "1d"),
            (200_000, "2d7h", "2d"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), long);
            assert_eq!(age(Timestamp::EPOCH.plus(Duration::from_secs(seconds)), Timestamp::EPOCH), short);
        }
    }
}
