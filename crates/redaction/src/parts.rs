//! What of a value is secret by itself: a program that was given a document prints a line of it, and one that was given a URL its password.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::forms::Stands;
use crate::known::SHORTEST;

/// The shortest line of a text, and string of a document, that is looked for by itself. Shorter ones are words of ordinary logs.
pub const SHORTEST_PART: usize = 8;
/// A user in a URL without a password is a token if it is as long as one.
const SHORTEST_USER: usize = 16;
/// Parts of parts: a document in a document, with a key of many lines, one of which holds a URL.
const DEPTH: usize = 4;

/// What is longer than a line is looked for in pieces of this length: what is held back, and how many forms there are, stays small however
/// long a value is. A line of base64 with its line break fits.
const PIECE: usize = 80;
/// How much of the next piece belongs to one: where two are found one after the other, whatever the encoding, they overlap and are one.
const OVERLAP: usize = 8;
/// Lines shorter than this are taken together.
const SHORTEST_LINE: usize = 16;

/// A text in pieces, each with the beginning of the next. They begin where lines do, as the lines by themselves.
pub fn pieces(text: &[u8]) -> Vec<(&[u8], Stands)> {
    if text.len() <= PIECE + OVERLAP {
        return vec![(text, Stands::Alone)];
    }
    // A character is not cut.
    let whole = |at: usize| (at..at + 4).find(|at| text.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80)).unwrap_or(at).min(text.len());
    let (mut pieces, mut from) = (Vec::new(), 0);
    while text.len() - from > PIECE + OVERLAP {
        let line = text[from + SHORTEST_LINE..from + PIECE].iter().position(|byte| *byte == b'\n');
        let next = whole(line.map_or(from + PIECE, |at| from + SHORTEST_LINE + at + 1));
        pieces.push((&text[from..whole(next + OVERLAP)], Stands::Before));
        from = next;
    }
    pieces.push((&text[whole(from.min(text.len() - 4 * OVERLAP))..], Stands::Last));
    pieces.retain(|(piece, _)| tells(piece));
    pieces
}

/// The value itself, without what stands around it, and then its parts.
pub fn all(value: &[u8]) -> Vec<Vec<u8>> {
    let mut found = vec![bare(value).to_vec()];
    let mut seen: HashSet<Vec<u8>> = found.iter().cloned().collect();
    let mut from = 0;
    for _ in 0..DEPTH {
        let until = found.len();
        for index in from..until {
            let parts = of(&found[index]);
            found.extend(parts.into_iter().filter(|part| seen.insert(part.clone())));
        }
        from = until;
    }
    found
}

/// Without white space and quotes around it, which are no part of the secret and get lost on the way; unless they are most of it.
pub fn bare(value: &[u8]) -> &[u8] {
    let trimmed = value.trim_ascii();
    match trimmed {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] | [b'`', inner @ .., b'`'] if inner.trim_ascii().len() >= SHORTEST => {
            inner.trim_ascii()
        }
        _ => trimmed,
    }
}

fn of(text: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    match document(text) {
        Some(document) => strings(&document, &mut parts),
        None if text.contains(&b'\n') => {
            parts.extend(text.split(|byte| *byte == b'\n').map(bare).filter(|line| tells(line)).map(<[u8]>::to_vec));
        }
        None => {
            parts.extend(credentials(text));
            parts.extend(around_ampersands(text));
        }
    }
    parts
}

fn document(text: &[u8]) -> Option<Json> {
    matches!(text.first(), Some(b'{' | b'[')).then(|| serde_json::from_slice(text).ok())?
}

/// Strings are printed as they are however a document is laid out; its braces, names and numbers say nothing.
fn strings(document: &Json, parts: &mut Vec<Vec<u8>>) {
    match document {
        Json::String(text) => {
            let text = bare(text.as_bytes());
            if tells(text) {
                parts.push(text.to_vec());
            }
        }
        Json::Array(items) => items.iter().for_each(|item| strings(item, parts)),
        Json::Object(fields) => fields.values().for_each(|field| strings(field, parts)),
        _ => {}
    }
}

/// Whether seeing it says anything: not the first and last line of a key, rulers, brackets, or what is shorter than a secret.
fn tells(part: &[u8]) -> bool {
    let distinct: HashSet<u8> = part.iter().copied().filter(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii()).collect();
    let is_boundary = part.starts_with(b"-----") && part.ends_with(b"-----");
    part.len() >= SHORTEST_PART && distinct.len() >= 4 && !is_boundary
}

/// `scheme://user:password@host`: the password as it stands there, and as it is used.
fn credentials(text: &[u8]) -> Vec<Vec<u8>> {
    let Some(start) = text.windows(3).position(|window| window == b"://") else { return Vec::new() };
    let rest = &text[start + 3..];
    let authority = rest.split(|byte| matches!(byte, b'/' | b'?' | b'#')).next().unwrap_or_default();
    let at = |text: &[u8]| text.iter().rposition(|byte| *byte == b'@');
    // A password with a slash that nobody encoded is still one.
    let Some(end) = at(authority).or_else(|| at(rest)) else { return Vec::new() };
    let (secret, shortest) = match rest[..end].iter().position(|byte| *byte == b':') {
        Some(colon) => (&rest[colon + 1..end], SHORTEST),
        None => (&rest[..end], SHORTEST_USER),
    };
    [secret.to_vec(), percent_decoded(secret)].into_iter().filter(|secret| secret.len() >= shortest).collect()
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let digit = |index: usize| text.get(index).and_then(|byte| char::from(*byte).to_digit(16)).and_then(|digit| u8::try_from(digit).ok());
    let (mut decoded, mut index) = (Vec::with_capacity(text.len()), 0);
    while index < text.len() {
        match (text[index], digit(index + 1), digit(index + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(high << 4 | low);
                index += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                index += 1;
            }
        }
    }
    decoded
}

/// PowerShell reports a command that failed in two pieces, with colours between them: up to the last `&`, or to `&+` and one character on.
fn around_ampersands(text: &[u8]) -> Vec<Vec<u8>> {
    let plus = text.windows(2).position(|window| window == b"&+").map(|index| (index + 2, index + 3));
    let Some((head, tail)) = plus.or_else(|| text.iter().rposition(|byte| *byte == b'&').map(|index| (index + 1, index + 1))) else {
        return Vec::new();
    };
    [&text[..head], text.get(tail..).unwrap_or_default()]
        .into_iter()
        .filter(|part| part.len() >= SHORTEST_PART)
        .map(<[u8]>::to_vec)
        .collect()
}
