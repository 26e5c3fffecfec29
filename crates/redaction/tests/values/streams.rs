//! Several values, ends of streams, and who only looks.

use stead_redaction::{Detector, Known, Redactor, Value};

use crate::{NAME, at_every_cut, known, streamed};

fn named(values: &[(&str, &str)]) -> Known {
    Known::new(values.iter().map(|(replacement, value)| Value { replacement, bytes: value.as_bytes() }))
}

#[test]
fn values_that_overlap_leave_nothing_of_either() {
    let known = named(&[("[1]", "abcdefgh"), ("[2]", "efghijkl"), ("[3]", "abcdef-long")]);
    for (text, expected) in [
        ("abcdefghijkl", "[1]"),
        ("efghijklabcdefgh", "[2][1]"),
        ("abcdefabcdefgh", "abcdef[1]"),
        ("abcdef-longer", "[3]er"),
        ("abcdef-lon", "abcdef-lon"),
        ("abcdefgefghijkl", "abcdefg[2]"),
    ] {
        at_every_cut(&known, text.as_bytes(), expected.as_bytes(), "overlapping");
    }
}

#[test]
fn of_two_that_begin_together_the_longer_counts_where_it_is_whole() {
    let known = named(&[("[short]", "prefix-1"), ("[long]", "prefix-1-and-more")]);
    for (text, expected) in
        [("prefix-1-and-more", "[long]"), ("prefix-1-and-mor", "[short]-and-mor"), ("prefix-1", "[short]"), ("prefix-", "prefix-")]
    {
        at_every_cut(&known, text.as_bytes(), expected.as_bytes(), "one the beginning of the other");
    }
}

#[test]
fn a_replacement_that_holds_a_value_stays_as_it_is() {
    let known = named(&[("***SECRET***", "SECRET"), ("***OTHER***", "another-value")]);
    let once = known.redact(b"SECRET and another-value").into_owned();
    assert_eq!(once, b"***SECRET*** and ***OTHER***");
    at_every_cut(&known, &once, &once, "a second time");
}

#[test]
fn of_two_values_that_are_the_same_the_first_gives_the_name() {
    assert_eq!(named(&[("[1]", "the-same"), ("[2]", "the-same")]).redact(b"the-same"), &b"[1]"[..]);
}

#[test]
fn a_stream_that_ends_in_the_middle_of_a_value_shows_what_there_was() {
    let known = known(&[b"correct-horse-battery"]);
    assert_eq!(streamed(&known, &[b"a corr", b"ect-horse"]), b"a correct-horse");
    // And the next one begins anew.
    let (mut redactor, mut out) = (Redactor::new(known), Vec::new());
    redactor.push(b"correct-horse", &mut out);
    redactor.finish(&mut out);
    redactor.push(b"-battery", &mut out);
    redactor.finish(&mut out);
    assert_eq!((out, redactor.found()), (b"correct-horse-battery".to_vec(), 0));
}

#[test]
fn what_holds_nothing_passes_at_once_and_is_not_copied() {
    let known = known(&[b"correct-horse-battery"]);
    let (mut redactor, mut out) = (Redactor::new(known), Vec::new());
    let text = b"$ make test\nall is well\n".repeat(3000);
    let clean = redactor.pass(&text, &mut out);
    assert!(out.is_empty() && clean.as_ptr() == text.as_ptr() && clean.len() == text.len());
    assert_eq!(redactor.held(), 0);
}

#[test]
fn what_was_shown_early_is_still_the_beginning_of_a_value() {
    let known = known(&[b"correct-horse-battery"]);
    let (mut redactor, mut out) = (Redactor::new(known), Vec::new());
    redactor.push(b"> cor", &mut out);
    redactor.release(8, &mut out);
    assert_eq!((&out[..], redactor.held()), (&b"> cor"[..], 0));
    redactor.push(b"rect-hor", &mut out);
    redactor.release(8, &mut out);
    assert_eq!(out, b"> cor", "more than eight bytes would be shown");
    redactor.push(b"se-battery.", &mut out);
    assert_eq!((String::from_utf8(out).unwrap(), redactor.found()), (format!("> cor{NAME}."), 1));
}

#[test]
fn a_detector_says_whether_bytes_hold_a_value_wherever_they_are_cut() {
    let known = known(&[b"correct-horse-battery", b"horse-fly"]);
    for (text, holds) in [
        (&b"a correct-horse-battery b"[..], true),
        (b"Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5", true),
        (b"correct-horse-fly", true),
        (b"correct-horse\n-battery", true),
        (b"correct-horse-batter", false),
        (b"", false),
    ] {
        assert_eq!(known.contains(text), holds);
        for cut in 0..=text.len() {
            let mut detector = Detector::new(known.clone());
            detector.push(&text[..cut]);
            assert_eq!(detector.push(&text[cut..]), holds, "{:?} cut at {cut}", String::from_utf8_lossy(text));
            // It stays so.
            assert_eq!(detector.push(b"anything else"), holds);
        }
    }
}

#[test]
fn nothing_is_told_of_a_value_by_what_is_printed_for_debugging() {
    let known = known(&[b"correct-horse-battery"]);
    let mut redactor = Redactor::new(known.clone());
    redactor.push(b"correct-horse", &mut Vec::new());
    let value = Value { replacement: NAME, bytes: b"correct-horse-battery" };
    let told = format!("{known:?} {redactor:?} {:?} {value:?}", Detector::new(known.clone()));
    assert!(!told.contains("horse"), "{told}");
}
