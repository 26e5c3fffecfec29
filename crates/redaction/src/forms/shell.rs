//! How shells and languages write a value so that they read it again: quoted words, traces of `set -x`, `printf %q`, PowerShell, and the
//! literals of Python and C.

use super::escapes::each;

pub fn all(text: &[u8], found: &mut Vec<Vec<u8>>) {
    if text.iter().all(|byte| means_nothing(*byte)) {
        return;
    }
    let instead =
        |what: u8, with: &'static str| each(text, move |byte, out| if byte == what { out.extend(with.bytes()) } else { out.push(byte) });
    let before = |what: &'static [u8], mark: u8| {
        each(text, move |byte, out| {
            if what.contains(&byte) {
                out.push(mark);
            }
            out.push(byte);
        })
    };
    // Inside single quotes: sh and bash, dash, and whoever doubles them (PowerShell, SQL).
    found.extend(["'\\''", "'\"'\"'", "''"].map(|quote| instead(b'\'', quote)));
    // Inside double quotes: sh, with history, command lines of Windows; doubled, and PowerShell's.
    found.extend([&b"$`\"\\"[..], b"$`\"\\!", b"\"", b"\"\\"].map(|what| before(what, b'\\')));
    found.push(instead(b'"', "\"\""));
    found.extend([&b"`\"$"[..], b"`\"$'", b"`\""].map(|what| before(what, b'`')));
    // A word without quotes: every character that means something, by bash's list and by the strictest.
    found.push(before(b" \t!\"#$&'()*;<>?[\\]^`{|}~,", b'\\'));
    found.push(before(b" \t!\"#$&'()*;<>?[\\]^`{|}", b'\\'));
    found.push(each(text, |byte, out| {
        if byte.is_ascii() && !means_nothing(byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }));
    for quotes in [&b"'"[..], b"\"", b"'\"", b""] {
        for other in [Other::AsItIs, Other::Octal, Other::Hex] {
            found.push(literal(text, quotes, &other));
        }
    }
}

/// What no shell and no language ever escapes.
fn means_nothing(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./:@+=%".contains(&byte)
}

/// How bytes that are no visible ASCII are written in a literal.
enum Other {
    AsItIs,
    Octal,
    Hex,
}

/// `$'…'`, and the literals of most languages.
fn literal(text: &[u8], quotes: &[u8], other: &Other) -> Vec<u8> {
    each(text, |byte, out| match (byte, other) {
        (b'\\', _) => out.extend(b"\\\\"),
        (b'\n', _) => out.extend(b"\\n"),
        (b'\r', _) => out.extend(b"\\r"),
        (b'\t', _) => out.extend(b"\\t"),
        (quote, _) if quotes.contains(&quote) => out.extend([b'\\', quote]),
        (b'\x1b', Other::AsItIs) => out.extend(b"\\E"),
        (0..b' ' | 0x7f, Other::AsItIs | Other::Octal) | (0x80.., Other::Octal) => out.extend(format!("\\{byte:03o}").bytes()),
        (0..b' ' | 0x7f.., Other::Hex) => out.extend(format!("\\x{byte:02x}").bytes()),
        _ => out.push(byte),
    })
}
