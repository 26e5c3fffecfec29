//! What would be found in everything is not looked for, and what is long takes bounded room.

use stead_redaction::{Known, Value};

use crate::{NAME, known, streamed};

#[test]
fn a_short_or_plain_value_is_not_looked_for() {
    for weak in [&b""[..], b"test", b"12345", b"  true \n", b"\n\n\n\n\n\n\n", b"----------", b"000000000000", b"abababababab"] {
        assert!(Known::is_weak(weak), "{:?}", String::from_utf8_lossy(weak));
        assert!(known(&[weak]).is_empty());
    }
    for value in [&b"sixfix"[..], b"123456", b"hunter2", b" secret\n"] {
        assert!(!Known::is_weak(value), "{:?}", String::from_utf8_lossy(value));
        assert_eq!(known(&[value]).redact(value.trim_ascii()), NAME.as_bytes());
    }
}

#[test]
fn a_short_value_is_not_seen_across_lines() {
    let known = known(&[b"foobar", b"a-longer-one-that-may-be-folded"]);
    assert_eq!(known.redact(b"foo\nbar"), &b"foo\nbar"[..]);
    assert_eq!(known.redact(b"a-longer-one-\nthat-may-be-folded"), NAME.as_bytes());
    assert_eq!(known.redact(b"a-longer-one-\n\n\nthat-may-be-folded"), &b"a-longer-one-\n\n\nthat-may-be-folded"[..]);
}

#[test]
fn nothing_to_look_for_changes_nothing() {
    let known = Known::default();
    assert!(known.is_empty() && known.longest() == 0);
    let text: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert_eq!(streamed(&known, &text.chunks(777).collect::<Vec<_>>()), text);
}

#[test]
fn what_values_take_and_what_is_held_back_is_bounded() {
    let odd = b"aB3$\"'\\&<>/+ %\n\xc3\xa4";
    for (count, length) in [(1, 16 << 10), (2, 4 << 10), (12, 200)] {
        let values: Vec<Vec<u8>> = (0..count)
            .map(|value: usize| (0..length).map(|at: usize| odd[(at * at + at / 7 + value * 31 + at * value) % odd.len()]).collect())
            .collect();
        let known = Known::new(values.iter().map(|bytes| Value { replacement: NAME, bytes }));
        let bytes = count * length;
        assert!(known.size() < bytes * 600 + (1 << 20), "{} bytes for {bytes}", known.size());
        assert!(known.longest() < 4 << 10, "{} may be held back", known.longest());
    }
}

/// The work for one byte does not grow with the stream, nor with the value: whatever the text is, it is gone through as often as a pattern
/// is long. What is measured is how much comes out; a test that took the square of it would never end.
#[test]
fn texts_that_are_nearly_values_are_gone_through() {
    let value: Vec<u8> = b"abcd".repeat(16 << 10);
    let known = known(&[&value[..(64 << 10) - 1]]);
    let text = b"abcd".repeat(64 << 10);
    let out = streamed(&known, &text.chunks(4096).collect::<Vec<_>>());
    assert!(out == NAME.as_bytes(), "{} bytes came out", out.len());
    let nearly: Vec<u8> = value[..28].iter().copied().chain([b'!']).collect::<Vec<_>>().repeat(4 << 10);
    assert!(streamed(&known, &nearly.chunks(4096).collect::<Vec<_>>()) == nearly, "what is no value has changed");
}
