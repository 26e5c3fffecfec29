//! Random values in random texts, cut at random.

use super::reference::Reference;
use super::{Dice, rounds};
use crate::known::patterns;
use crate::{Detector, Known, Redactor, Value};

const ALPHABETS: [&[u8]; 6] =
    [b"abcd", b"abcd\n", b"ab\"'\\&<$ /+", b"abcdefghijklmnopqrstuvwxyz0123456789", b"a=%-_.\r\nxyz", b"\x00\xff\xc3\xa4\n\r\"{}:"];

struct Case {
    values: Vec<Vec<u8>>,
    names: Vec<String>,
    text: Vec<u8>,
}

impl Case {
    fn new(dice: &mut Dice) -> Self {
        let alphabet = dice.of(&ALPHABETS);
        let mut values: Vec<Vec<u8>> = Vec::new();
        for index in 0..1 + dice.below(4) {
            let most = [250, 14, 14, 14, 14, 14, 14, 14][dice.below(8)];
            let length = 6 + dice.below(most);
            let value = match dice.below(4) {
                // The beginning, or the end and more, of the one before.
                0 if index > 0 => values[index - 1][..values[index - 1].len().div_ceil(2)].to_vec(),
                1 if index > 0 => [&values[index - 1][values[index - 1].len() / 2..], &dice.bytes(alphabet, length)[..]].concat(),
                _ => dice.bytes(alphabet, length),
            };
            values.push(value);
        }
        let names = (0..values.len())
            .map(|index| match dice.below(6) {
                // A name may hold a value.
                0 => format!("<{}>", String::from_utf8_lossy(&values[dice.below(index + 1)])),
                1 => String::new(),
                _ => format!("[{index}]"),
            })
            .collect();
        let mut case = Self { values, names, text: Vec::new() };
        case.write(dice, alphabet);
        case
    }

    fn values(&self) -> Vec<Value<'_>> {
        let all = self.values.iter().zip(&self.names).map(|(bytes, name)| Value { replacement: name, bytes });
        all.filter(|value| !Known::is_weak(value.bytes)).collect()
    }

    /// Whole forms, beginnings and ends of them, broken into lines, and anything.
    fn write(&mut self, dice: &mut Dice, alphabet: &[u8]) {
        let forms = patterns(&self.values());
        for _ in 0..dice.below(12) {
            let form = if forms.is_empty() { &b"nothing"[..] } else { &forms[dice.below(forms.len())].bytes };
            let part = match dice.below(6) {
                0 => &form[..dice.below(form.len() + 1)],
                1 => &form[dice.below(form.len())..],
                _ => form,
            };
            let breaks = dice.below(4) == 0;
            for byte in part {
                self.text.push(*byte);
                if breaks && dice.below(8) == 0 {
                    self.text.extend_from_slice(dice.of(&[&b"\n"[..], b"\r\n", b"\n\n\n", b"\r"]));
                }
            }
            let length = dice.below(4);
            self.text.extend(dice.bytes(alphabet, length));
            if dice.below(5) == 0 {
                self.text.extend(dice.bytes(b"\n\r", 3));
            }
        }
    }

    fn pieces(&self, dice: &mut Dice) -> Vec<Vec<u8>> {
        let most = [1, 3, 17, 200, 100_000][dice.below(5)];
        let (mut pieces, mut rest) = (Vec::new(), &self.text[..]);
        while !rest.is_empty() {
            let (piece, more) = rest.split_at((1 + dice.below(most)).min(rest.len()));
            pieces.push(piece.to_vec());
            rest = more;
        }
        pieces
    }
}

#[test]
fn whatever_is_cut_wherever_comes_out_as_the_whole_does() {
    let mut replaced = 0;
    for seed in 0..rounds(600) {
        let dice = &mut Dice::new(seed);
        let case = Case::new(dice);
        let values = case.values();
        let known = Known::new(values.iter().copied());
        let replacements: Vec<String> = values.iter().map(|value| value.replacement.to_owned()).collect();
        let all = known.looked_for(&values);
        let (expected, count) = Reference { patterns: &all, replacements: &replacements, run: known.run() }.redact(&case.text);
        replaced += count;

        let whole = known.redact(&case.text);
        let shown = || (String::from_utf8_lossy(&case.text).into_owned(), String::from_utf8_lossy(&whole).into_owned());
        assert_eq!(whole, &expected[..], "seed {seed}: {:?}", shown());
        assert_eq!(known.contains(&case.text), count > 0, "seed {seed}");

        let (mut pushed, mut passed) = (Redactor::new(known.clone()), Redactor::new(known.clone()));
        let mut detector = Detector::new(known.clone());
        let (mut out, mut through, mut given) = (Vec::new(), Vec::new(), 0);
        for piece in case.pieces(dice) {
            pushed.push(&piece, &mut out);
            let clean = passed.pass(&piece, &mut through);
            through.extend_from_slice(clean);
            assert_eq!(out, through, "seed {seed}");
            given += piece.len();
            assert!(pushed.held() <= known.longest(), "seed {seed}: {} held of {}", pushed.held(), known.longest());
            assert!(expected.starts_with(&out), "seed {seed}: what went out is not what is to come out");
            assert_eq!(detector.push(&piece), known.contains(&case.text[..given]), "seed {seed} at {given}");
        }
        pushed.finish(&mut out);
        passed.finish(&mut through);
        assert!(out == expected && through == expected, "seed {seed}: {:?}", shown());
        assert_eq!((pushed.found(), passed.found(), pushed.held()), (count, count, 0), "seed {seed}");
    }
    assert!(replaced > rounds(600), "hardly anything was found: {replaced}");
}

#[test]
fn what_is_released_early_shows_no_more_of_a_value_than_allowed() {
    for seed in 0..rounds(300) {
        let dice = &mut Dice::new(seed);
        let value = dice.bytes(b"abcdefghijklmnopqrstuvwxyz", 12);
        let known = Known::new([Value { replacement: "[x]", bytes: &value }]);
        let text = [&b"=="[..], &value, b"==", &value[..5], b"--"].concat();
        let (mut redactor, mut out, at_most) = (Redactor::new(known), Vec::new(), dice.below(8));
        let mut rest = &text[..];
        while !rest.is_empty() {
            let (piece, more) = rest.split_at((1 + dice.below(3)).min(rest.len()));
            redactor.push(piece, &mut out);
            redactor.release(at_most, &mut out);
            rest = more;
        }
        redactor.finish(&mut out);
        let out = String::from_utf8(out).unwrap();
        let shown = out.strip_prefix("==").and_then(|rest| rest.split_once("[x]==")).unwrap_or_else(|| panic!("seed {seed}: {out}"));
        assert!(shown.0.len() <= at_most && value.starts_with(shown.0.as_bytes()), "seed {seed}: {out}");
        assert_eq!(shown.1.as_bytes(), [&value[..5], b"--"].concat(), "seed {seed}");
    }
}

#[test]
fn what_is_learned_in_the_middle_is_found_in_what_is_held_back_and_after() {
    let [long, other] = [&b"correct-horse-battery"[..], b"horse-staple"];
    let (old, new) = (Value { replacement: "[1]", bytes: long }, Value { replacement: "[2]", bytes: other });
    let text = b"correct-horse-battery correct-horse-staple.";
    // Up to there nothing of the new value has gone out: what precedes it is held back for the old one.
    for cut in 0..=text.len() - 8 {
        let (mut redactor, mut out) = (Redactor::new(Known::new([old])), Vec::new());
        redactor.push(&text[..cut], &mut out);
        redactor.learn(Known::new([old, new]), &mut out);
        redactor.push(&text[cut..], &mut out);
        redactor.finish(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "[1] correct-[2].", "at {cut}");
        assert_eq!(redactor.found(), 2, "at {cut}");
    }
}
