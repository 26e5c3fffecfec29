//! How fast values are taken out of a stream: fifty secrets of the usual shapes, texts of the usual kinds, and texts that are as bad as they
//! can be. One core, beside a plain copy of the same bytes and a search for one byte in them.

mod samples;

use std::io::Write;
use std::time::Instant;

use serde::Serialize;
use stead_redaction::{Known, Redactor, Value};

use crate::report::Goal;

const SECRETS: usize = 50;
/// What a steward reads at once.
const PIECE: usize = 64 << 10;
const WANTED: f64 = 500.0;

#[derive(Serialize)]
pub struct Redaction {
    secrets: usize,
    streams: Vec<Stream>,
    made: Vec<Made>,
    goals: Vec<Goal>,
}

/// One kind of text, in megabytes a second; the best of some runs.
#[derive(Serialize)]
struct Stream {
    text: &'static str,
    redacted: f64,
    copied: f64,
    /// For one byte that is not there.
    searched: f64,
    found: u64,
}

/// What is done once, when a process with other secrets starts.
#[derive(Serialize)]
struct Made {
    values: String,
    milliseconds: f64,
    bytes: usize,
}

impl Redaction {
    pub fn measure(quick: bool) -> Self {
        let (size, runs) = if quick { (4 << 20, 3) } else { (64 << 20, 9) };
        let secrets = samples::secrets(SECRETS);
        let known = known(&secrets);
        let mut streams: Vec<Stream> = samples::texts(size).iter().map(|(name, text)| stream(name, text, &known, runs)).collect();
        let goals = streams
            .iter()
            .map(|stream| Goal::at_least(format!("redaction of {} with {SECRETS} secrets", stream.text), WANTED, " MB/s", stream.redacted))
            .collect();
        streams.extend(samples::worst(&secrets, size / 8).iter().map(|(name, text)| stream(name, text, &known, runs.min(3))));
        let dice = &mut samples::Dice::new(9);
        let key = |dice: &mut samples::Dice, digits| samples::pem(dice, digits);
        let made = vec![
            made(format!("{SECRETS} of the usual shapes"), &secrets),
            made("1 token".to_owned(), &secrets[..1]),
            made("1 key of 4 KiB".to_owned(), &[key(dice, 3900)]),
            made("50 keys of 4 KiB".to_owned(), &(0..50).map(|_| key(dice, 3900)).collect::<Vec<_>>()),
            made("1 key of 64 KiB".to_owned(), &[key(dice, 63_000)]),
        ];
        Self { secrets: SECRETS, streams, made, goals }
    }

    pub fn table(&self) {
        let mut out = std::io::stderr().lock();
        let mut line = |text: String| writeln!(out, "{text}").unwrap();
        line(format!("\n{:<44}{:>14}{:>12}{:>14}{:>10}", "redaction, MB/s on one core", "redacted", "copied", "searched", "found"));
        for one in &self.streams {
            line(format!("{:<44}{:>14.0}{:>12.0}{:>14.0}{:>10}", one.text, one.redacted, one.copied, one.searched, one.found));
        }
        line(format!("\n{:<44}{:>14}{:>12}", "made once", "ms", "KiB"));
        for one in &self.made {
            line(format!("{:<44}{:>14.2}{:>12}", one.values, one.milliseconds, one.bytes >> 10));
        }
        line(String::new());
        self.goals.iter().for_each(|goal| line(goal.line()));
    }
}

fn known(secrets: &[String]) -> Known {
    Known::new(secrets.iter().map(|secret| Value { replacement: "***NAME***", bytes: secret.as_bytes() }))
}

fn made(values: String, secrets: &[String]) -> Made {
    let started = Instant::now();
    let known = known(secrets);
    Made { values, milliseconds: started.elapsed().as_secs_f64() * 1000.0, bytes: known.size() }
}

fn stream(text: &'static str, bytes: &[u8], known: &Known, runs: usize) -> Stream {
    let (mut out, mut found) = (Vec::with_capacity(2 * PIECE), 0);
    let redacted = best(bytes.len(), runs, || {
        let mut redactor = Redactor::new(known.clone());
        for piece in bytes.chunks(PIECE) {
            out.clear();
            redactor.push(piece, &mut out);
            std::hint::black_box(&out);
        }
        found = redactor.found();
    });
    let copied = best(bytes.len(), runs, || {
        for piece in bytes.chunks(PIECE) {
            out.clear();
            out.extend_from_slice(piece);
            std::hint::black_box(&out);
        }
    });
    let searched = best(bytes.len(), runs, || {
        // Nothing that is measured is text that holds it, but for random bytes; there every hit is passed over.
        std::hint::black_box(memchr::memchr_iter(0x07, bytes).count());
    });
    Stream { text, redacted, copied, searched, found }
}

/// In megabytes a second.
fn best(bytes: usize, runs: usize, mut run: impl FnMut()) -> f64 {
    let mut shortest = f64::MAX;
    for _ in 0..runs {
        let started = Instant::now();
        run();
        shortest = shortest.min(started.elapsed().as_secs_f64());
    }
    bytes as f64 / shortest / 1e6
}
