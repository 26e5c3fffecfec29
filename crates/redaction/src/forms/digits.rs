//! Base64, base32 and hexadecimal: bits in digits. Where a value stands in the middle of something, the digits that it shares with its
//! neighbours say nothing certain; only those that are its alone are looked for.

use super::Stands;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX_LOWER: &[u8; 16] = b"0123456789abcdef";
const HEX_UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Columns at which encoders break lines: PEM and MIME.
const COLUMNS: [usize; 2] = [64, 76];

/// Every such form of a text. In the middle of a longer one, those are left out that only the whole of something has.
pub fn all(text: &[u8], stands: Stands) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for alphabet in [STANDARD, URL_SAFE] {
        for before in 0..3 {
            let from = found.len();
            shifted(text, before, 6, 4, alphabet, stands, &mut found);
            if stands == Stands::Alone {
                let forms = found[from..].to_vec();
                forms.iter().for_each(|form| within_others(form, &mut found));
                if let (0, Some(whole)) = (before, forms.last()) {
                    wrapped(whole, &mut found);
                }
            }
        }
    }
    for before in 0..5 {
        shifted(text, before, 5, 8, BASE32, stands, &mut found);
    }
    for alphabet in [HEX_LOWER, HEX_UPPER] {
        shifted(text, 0, 4, 2, alphabet, stands, &mut found);
    }
    found
}

/// The digits of a text that follows `before` other bytes: with something after it, and at the end, without and with padding to `group`.
fn shifted(text: &[u8], before: usize, width: usize, group: usize, alphabet: &[u8], stands: Stands, found: &mut Vec<Vec<u8>>) {
    let (start, end) = (before * 8, (before + text.len()) * 8);
    let byte = |index: usize| index.checked_sub(before).and_then(|index| text.get(index)).copied().unwrap_or_default();
    let digit = |place: usize| {
        let bit = place * width;
        let bits = u16::from_be_bytes([byte(bit / 8), byte(bit / 8 + 1)]);
        alphabet[usize::from(bits << (bit % 8) >> (16 - width))]
    };
    let mut digits: Vec<u8> = Vec::with_capacity(end / width + group);
    digits.extend((start.div_ceil(width)..end / width).map(digit));
    found.push(digits.clone());
    if stands == Stands::Before {
        return;
    }
    if !end.is_multiple_of(width) {
        digits.push(digit(end / width));
        found.push(digits.clone());
    }
    let count = end.div_ceil(width);
    if !count.is_multiple_of(group) {
        digits.resize(digits.len() + group - count % group, b'=');
        found.push(digits);
    }
}

/// Base64 inside a URL or a JSON string, where its two odd digits are escaped.
fn within_others(form: &[u8], found: &mut Vec<Vec<u8>>) {
    if !form.iter().any(|byte| matches!(byte, b'+' | b'/')) {
        return;
    }
    for (plus, slash) in [("%2B", "%2F"), ("%2b", "%2f"), ("+", "\\/")] {
        let mut escaped = Vec::with_capacity(form.len() + 8);
        for byte in form {
            match byte {
                b'+' => escaped.extend(plus.bytes()),
                b'/' => escaped.extend(slash.bytes()),
                other => escaped.push(*other),
            }
        }
        found.push(escaped);
    }
}

/// Real line breaks in between are never looked at; what else stands for them is known only where a value was encoded by itself.
fn wrapped(whole: &[u8], found: &mut Vec<Vec<u8>>) {
    for column in COLUMNS.into_iter().filter(|column| whole.len() > *column) {
        for between in ["\\n", "\\r\\n", " "] {
            found.push(whole.chunks(column).collect::<Vec<_>>().join(between.as_bytes()));
        }
    }
}
