//! The results as a picture: bars on a logarithmic scale, since containers take hundreds of times as long as a spawn.

use std::fmt::Write;

use super::report::Places;
use super::samples::Timing;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 150.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
const PLAIN: &str = r#"fill="black""#;
const BOLD: &str = r#"font-weight="bold""#;
/// The goals are a table.
const ALIGNED: &str = r#"font-family="monospace" font-size="11""#;

pub fn draw(places: &Places) -> String {
    let goals: Vec<String> = places.goals.iter().map(|goal| goal.line()).collect();
    let foot = format!(
        "{} cores, kernel {}, stead {}{}. Bars end at p50, the thin line at p99; the scale is logarithmic.",
        places.cores,
        places.kernel,
        places.version,
        if places.quick { ", quick run: only to see that it works" } else { "" }
    );
    chart(&places.timings, &goals, &foot)
}

fn chart(timings: &[Timing], goals: &[String], foot: &str) -> String {
    let shown: Vec<f64> = timings.iter().flat_map(|one| [one.p50_milliseconds, one.p99_milliseconds]).filter(|time| *time > 0.0).collect();
    let lowest = shown.iter().copied().fold(f64::INFINITY, f64::min).min(1.0) / 2.0;
    let highest = shown.iter().copied().fold(1.0, f64::max) * 1.1;
    let at = |time: f64| LEFT + (time.max(lowest) / lowest).ln() / (highest / lowest).ln() * (WIDTH - LEFT - RIGHT);
    let mut body = String::new();
    let mut top = 20.0;
    // Each group's lines stand together.
    for group in timings.chunk_by(|one, next| one.what == next.what) {
        let (what, first) = (group[0].what, group[0].contender);
        text(&mut body, 10.0, top + 12.0, BOLD, what);
        top += ROW;
        for one in group {
            let (middle, colour) = (top + BAR / 2.0, colour(one.contender, first));
            let (end, far) = (at(one.p50_milliseconds), at(one.p99_milliseconds));
            text(&mut body, 20.0, top + 13.0, PLAIN, one.contender);
            let _ = writeln!(
                body,
                r#"<rect x="{LEFT:.1}" y="{top:.1}" width="{:.1}" height="{BAR:.1}" fill="{colour}"/><line x1="{end:.1}" y1="{middle:.1}" x2="{far:.1}" y2="{middle:.1}" stroke="{colour}" stroke-width="2"/>"#,
                end - LEFT
            );
            let label = format!("{:.2} ms, {:.1}x", one.p50_milliseconds, one.times_native);
            text(&mut body, far.max(end) + 6.0, top + 13.0, PLAIN, &label);
            top += ROW;
        }
        top += ROW / 2.0;
    }
    for goal in goals {
        text(&mut body, 10.0, top + 12.0, ALIGNED, goal);
        top += 18.0;
    }
    text(&mut body, 10.0, top + 24.0, PLAIN, foot);
    let height = top + 40.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

fn colour(contender: &str, first: &str) -> &'static str {
    match contender {
        name if name == first => "#888888",
        name if name.starts_with("stead") => "#2266bb",
        _ => "#cc8833",
    }
}

fn text(body: &mut String, x: f64, y: f64, style: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(body, r#"<text x="{x:.1}" y="{y:.1}" {style} xml:space="preserve">{words}</text>"#);
}

#[cfg(test)]
mod tests {
    use super::super::race::{AWAKE, NEW};
    use super::*;

    /// Every tag that is opened is closed, in order, and nothing stands bare that would be markup.
    fn check(picture: &str) {
        let mut open = Vec::new();
        for part in picture.split('<').skip(1) {
            let (tag, rest) = part.split_once('>').unwrap();
            assert!(!rest.contains('>') && rest.split('&').skip(1).all(|entity| entity.contains(';')), "{part}");
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) => assert_eq!(open.pop(), Some(name)),
                (false, true) => assert_eq!(tag.matches('"').count() % 2, 0),
                (false, false) => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn a_picture_is_well_formed() {
        let timing = |contender, milliseconds: f64| Timing {
            what: if contender == "last" { AWAKE } else { NEW },
            contender,
            samples: 1,
            p50_milliseconds: milliseconds,
            p99_milliseconds: milliseconds * 2.0,
            times_native: 1.0,
            times_native_p99: 1.0,
        };
        let picture = chart(
            &[timing("native", 0.7), timing("stead", 3.0), timing("podman run", 150.0), timing("last", 1.0)],
            &["a < b & c".to_owned()],
            "foot",
        );
        check(&picture);
        assert!(picture.contains("a &lt; b &amp; c") && picture.contains("150.00 ms") && !picture.contains("NaN"));
        assert!([NEW, AWAKE].iter().all(|group| picture.matches(group).count() == 1));
        check(&chart(&[], &[], "none"));
        check(&chart(&[timing("native", 0.0)], &[], "zero"));
    }
}
