//! Base64, base32 and hexadecimal: bits in digits. Where a value stands in the middle of something, the digits that it shares with its
//! neighbours say nothing certain; only those that are its alone are looked for.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX_LOWER: &[u8; 16] = b"0123456789abcdef";
const HEX_UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Columns at which encoders break lines: PEM and MIME.
const COLUMNS: [usize; 2] = [64, 76];

/// Every such form of a text.
pub fn all(text: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for alphabet in [STANDARD, URL_SAFE] {
        for before in 0..3 {
            let from = found.len();
            shifted(text, before, 6, 4, alphabet, &mut found);
            for form in found[from..].to_vec() {
                within_others(&form, &mut found);
            }
            if before == 0 {
                let whole = found[from..].iter().max_by_key(|form| form.len()).cloned().unwrap_or_default();
                wrapped(&whole, &mut found);
            }
        }
    }
    for before in 0..5 {
        shifted(text, before, 5, 8, BASE32, &mut found);
    }
    for alphabet in [HEX_LOWER, HEX_UPPER] {
        shifted(text, 0, 4, 2, alphabet, &mut found);
    }
    found
}

/// The digits of a text that follows `before` other bytes: with something after it, and at the end, without and with padding to `group`.
fn shifted(text: &[u8], before: usize, width: usize, group: usize, alphabet: &[u8], found: &mut Vec<Vec<u8>>) {
    let (start, end) = (before * 8, (before + text.len()) * 8);
    let bit = |index: usize| {
        let Some(byte) = index.checked_sub(start).and_then(|index| text.get(index / 8)) else { return 0 };
        usize::from(byte >> (7 - index % 8)) & 1
    };
    let digit = |place: usize| alphabet[(place * width..(place + 1) * width).fold(0, |digit, index| digit << 1 | bit(index))];
    let mut digits: Vec<u8> = (start.div_ceil(width)..end / width).map(digit).collect();
    found.push(digits.clone());
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
