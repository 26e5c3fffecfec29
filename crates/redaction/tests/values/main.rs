//! What is taken out, seen from outside: every encoding that values are known to leak in, cut at every byte.

mod encodings;
mod parts;
mod streams;
mod weak;

use stead_redaction::{Known, Redactor, Value};

pub const NAME: &str = "***TOKEN***";

pub fn known(values: &[&[u8]]) -> Known {
    Known::new(values.iter().map(|bytes| Value { replacement: NAME, bytes }))
}

/// What comes out of a stream in these pieces.
pub fn streamed(known: &Known, pieces: &[&[u8]]) -> Vec<u8> {
    let (mut redactor, mut out) = (Redactor::new(known.clone()), Vec::new());
    for piece in pieces {
        redactor.push(piece, &mut out);
        assert!(redactor.held() <= known.longest(), "more is held back than the longest pattern");
    }
    redactor.finish(&mut out);
    out
}

/// Whole, in two pieces cut at every byte, in single bytes, and in three pieces where it is short.
pub fn at_every_cut(known: &Known, text: &[u8], expected: &[u8], what: &str) {
    let same = |out: &[u8], how: &str| {
        assert!(
            out == expected,
            "{what}, {how}:\n   {:?}\nbecame\n   {:?}\nand not\n   {:?}",
            String::from_utf8_lossy(text),
            String::from_utf8_lossy(out),
            String::from_utf8_lossy(expected)
        );
    };
    same(&known.redact(text), "whole");
    for cut in 0..=text.len() {
        let (one, other) = text.split_at(cut);
        same(&streamed(known, &[one, other]), &format!("cut at {cut}"));
        if text.len() <= 90 {
            for next in 0..=other.len() {
                same(&streamed(known, &[one, &other[..next], &other[next..]]), &format!("cut at {cut} and {next} after"));
            }
        }
    }
    same(&streamed(known, &text.chunks(1).collect::<Vec<_>>()), "byte by byte");
}

/// One text in which a value stands in a form of its own, between other things.
pub fn gone(value: &[u8], written: &[u8], what: &str) {
    let known = known(&[value]);
    let text = [b"before ", written, b" after\n"].concat();
    at_every_cut(&known, &text, format!("before {NAME} after\n").as_bytes(), what);
}
