//! Encoders other than the crate's own, wherever there are any.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use crate::{NAME, at_every_cut, gone, known};

/// Every character that somebody escapes.
const ODD: &str = "p$s\"w'o\\r&d<1>/+% ;`#é";
const TOKEN: &str = "ghp_0aZ9bY8cX7dW6eV5fU4";
const LINES: &str = "-----BEGIN KEY-----\nMIIEvQIBADAN/gkq+kiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQC7\n-----END KEY-----";

#[test]
fn as_it_is() {
    for value in [ODD, TOKEN, LINES, "sixfix", "\u{1F511}klein"] {
        gone(value.as_bytes(), value.as_bytes(), "as it is");
    }
    gone(b"\xff\xfe\x00\x01binary\x80\n\x81", b"\xff\xfe\x00\x01binary\x80\n\x81", "no text");
}

#[test]
fn base64_at_every_place_in_something_longer() {
    for value in [TOKEN.as_bytes(), ODD.as_bytes(), b"\xff\xff\xfe\x00?>~\xfb\xef"] {
        let known = known(&[value]);
        for before in 0..4 {
            for after in 0..4 {
                let whole = [&b"user:name"[..before], value, &b"zzz"[..after]].concat();
                for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
                    let text = engine.encode(&whole);
                    // The digits that say something of the neighbours too are left alone; those after the last one say nothing at all.
                    let (start, end) = ((before * 8).div_ceil(6), (before + value.len()) * 8 / 6);
                    let end = if after == 0 { text.len() } else { end };
                    let expected = [&text[..start], NAME, &text[end..]].concat();
                    at_every_cut(&known, text.as_bytes(), expected.as_bytes(), "base64");
                }
            }
        }
    }
}

#[test]
fn base64_in_lines_in_urls_and_in_documents() {
    let value = b"\xfb\xef\xbe\xff\xff\xfe0123456789012345678901234567890123456789abcdefghijklm";
    let text = STANDARD.encode(value);
    assert!(text.contains('+') && text.contains('/'));
    gone(value, text.as_bytes(), "in one line");
    for column in [1, 19, 64, 76] {
        for between in ["\n", "\r\n"] {
            let lines: Vec<&str> = text.as_bytes().chunks(column).map(|line| std::str::from_utf8(line).unwrap()).collect();
            gone(value, lines.join(between).as_bytes(), "in lines");
        }
    }
    for between in ["\\n", "\\r\\n", " "] {
        for column in [64, 76] {
            let lines: Vec<&str> = text.as_bytes().chunks(column).map(|line| std::str::from_utf8(line).unwrap()).collect();
            gone(value, lines.join(between).as_bytes(), "in lines that are escaped");
        }
    }
    gone(value, text.replace('+', "%2B").replace('/', "%2F").as_bytes(), "in a URL");
    gone(value, text.replace('/', "\\/").as_bytes(), "in a document");
}

#[test]
fn hexadecimal_and_base32() {
    let hex: String = TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect();
    gone(TOKEN.as_bytes(), hex.as_bytes(), "hexadecimal");
    gone(TOKEN.as_bytes(), hex.to_uppercase().as_bytes(), "hexadecimal in capitals");
    // Of RFC 4648, and what coreutils print.
    gone(b"foobar", b"MZXW6YTBOI======", "base32");
    gone(b"foobar", b"MZXW6YTBOI", "base32 without padding");
}

#[test]
fn strings_of_json() {
    for value in [ODD, LINES, "tab\tand \u{8}\u{c}\u{1}more", "\u{1F511}schlüssel/ß"] {
        let quoted = serde_json::to_string(value).unwrap();
        let inner = &quoted[1..quoted.len() - 1];
        gone(value.as_bytes(), inner.as_bytes(), "JSON");
        let twice = serde_json::to_string(inner).unwrap();
        gone(value.as_bytes(), &twice.as_bytes()[1..twice.len() - 1], "JSON in JSON");
        gone(value.as_bytes(), inner.replace('/', "\\/").as_bytes(), "JSON as PHP writes it");
    }
    // Only ASCII, as Python writes it, and for HTML, as Go does.
    gone("schlüssel-\u{1F511}".as_bytes(), b"schl\\u00fcssel-\\ud83d\\udd11", "JSON in ASCII");
    gone("schlüssel-\u{1F511}".as_bytes(), b"schl\\u00FCssel-\\uD83D\\uDD11", "JSON in ASCII with capitals");
    gone(b"a<b>c&d\"e", b"a\\u003cb\\u003ec\\u0026d\\\"e", "JSON for HTML");
}

#[test]
fn uris() {
    // encodeURIComponent, encodeURI, a form, and the standard with small letters.
    gone(b"a b/c?d&e=f'g(h)*!~", b"a%20b%2Fc%3Fd%26e%3Df'g(h)*!~", "encodeURIComponent");
    gone(b"a b/c?d&e=f'g(h)*!~", b"a%20b/c?d&e=f'g(h)*!~", "encodeURI");
    gone(b"a b/c?d&e=f'g(h)*!~", b"a+b%2Fc%3Fd%26e%3Df%27g%28h%29*%21%7E", "a form");
    gone(b"a b/c?d&e=f", b"a%20b%2fc%3fd%26e%3df", "small letters");
    gone("grün gelb".as_bytes(), b"gr%C3%BCn%20gelb", "UTF-8");
    gone(b"one line\ntwo lines", b"one%20line%0Atwo%20lines", "line breaks");
}

#[test]
fn xml_and_html() {
    let value = b"a&b<c>d\"e'f";
    gone(value, b"a&amp;b&lt;c&gt;d\"e'f", "text");
    gone(value, b"a&amp;b&lt;c&gt;d&quot;e&apos;f", "XML");
    gone(value, b"a&amp;b&lt;c&gt;d&quot;e&#39;f", "HTML");
    gone(value, b"a&amp;b&lt;c&gt;d&quot;e&#x27;f", "Python's");
    gone(value, b"a&amp;b&lt;c&gt;d&#34;e&#39;f", "Go's");
    gone(b"one line\ntwo lines", b"one line&#10;two lines", "an attribute");
}

#[test]
fn shells() {
    let value = b"it's $HOME `x` \"q\" \\ a&b!";
    gone(value, br#"it'\''s $HOME `x` "q" \ a&b!"#, "single quotes");
    gone(value, br#"it'"'"'s $HOME `x` "q" \ a&b!"#, "shlex.quote");
    gone(value, br#"it's \$HOME \`x\` \"q\" \\ a&b!"#, "double quotes");
    gone(value, br#"it\'s\ \$HOME\ \`x\`\ \"q\"\ \\\ a\&b\!"#, "printf %q");
    gone(value, b"it''s $HOME `x` \"q\" \\ a&b!", "doubled, as in expressions, SQL and PowerShell");
    gone(b"say \"hi\" now", b"say \\\"hi\\\" now", "a command line");
    gone(b"say \"hi\" $now", b"say `\"hi`\" `$now", "PowerShell");
    gone(b"one\ntwo-lines", br"one\ntwo-lines", "$'…'");
    gone(LINES.as_bytes(), LINES.replace('\n', " ").as_bytes(), "set -x, with spaces for line breaks");
    gone("schlüssel".as_bytes(), br"schl\303\274ssel", "bash, in the C locale");
    gone("schlüssel".as_bytes(), br"schl\xc3\xbcssel", "a literal of bytes");
}

#[test]
fn powershell_reports_a_value_in_two_pieces() {
    let value = b"first-half-of-it&second-half-of-it";
    gone(value, b"first-half-of-it&", "up to the ampersand");
    gone(value, b"second-half-of-it", "from there on");
    gone(b"first-half-of-it&+Xsecond-half", b"first-half-of-it&+", "up to one after it");
}

#[test]
fn without_the_quotes_and_the_space_around_it() {
    for around in ["\"", "'", "`", " ", "\n", " \" "] {
        let mirrored: String = around.chars().rev().collect();
        gone(format!("{around}{TOKEN}{mirrored}").as_bytes(), TOKEN.as_bytes(), "trimmed");
    }
}

#[test]
fn a_value_of_many_lines_whatever_the_line_breaks_are_written_as() {
    for between in ["\n", "\r\n", "\n\n", " ", "\\n", "\\r\\n", "\\\\n", "%0A", "%0D%0A"] {
        let text = LINES.replace('\n', between);
        let text = if between.starts_with('%') { text.replace(' ', "%20").replace('/', "%2F").replace('+', "%2B") } else { text };
        gone(LINES.as_bytes(), text.as_bytes(), between);
    }
    // Its lines by themselves.
    gone(LINES.as_bytes(), b"MIIEvQIBADAN/gkq+kiG9w0BAQEF", "a line");
}

#[test]
fn a_value_of_kilobytes_is_one_in_every_encoding() {
    let mut lines = String::from("-----BEGIN PRIVATE KEY-----\n");
    let mut state = 7_u64;
    for line in 0..50 {
        for _ in 0..if line == 49 { 11 } else { 64 } {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            lines.push(char::from(digits[(state >> 58) as usize]));
        }
        lines.push('\n');
    }
    lines.push_str("-----END PRIVATE KEY-----\n");
    let known = known(&[lines.as_bytes()]);
    let bare = lines.trim();
    let json = serde_json::to_string(bare).unwrap();
    let encoded = STANDARD.encode(bare);
    let in_lines = encoded.as_bytes().chunks(76).collect::<Vec<_>>().join(&b'\n');
    let hex: String = bare.bytes().map(|byte| format!("{byte:02x}")).collect();
    let written: [(&[u8], &str); 9] = [
        (bare.as_bytes(), "as it is"),
        (&json.as_bytes()[1..json.len() - 1], "JSON"),
        (&bare.replace('\n', "\r\n").into_bytes(), "other line breaks"),
        (&bare.replace('\n', " ").into_bytes(), "spaces"),
        (encoded.as_bytes(), "base64"),
        (&URL_SAFE_NO_PAD.encode(bare).into_bytes(), "base64 for URLs"),
        (&in_lines, "base64 in lines"),
        (hex.as_bytes(), "hexadecimal"),
        (&bare.replace('/', "%2F").replace('+', "%2B").replace('\n', "%0A").replace(' ', "%20").into_bytes(), "a URI"),
    ];
    for (written, what) in written {
        let text = [b"before ", written, b" after"].concat();
        let expected = format!("before {NAME} after");
        for size in [1, 2, 61, 1024, text.len()] {
            let out = crate::streamed(&known, &text.chunks(size).collect::<Vec<_>>());
            assert_eq!(String::from_utf8_lossy(&out), expected, "{what} in pieces of {size}");
        }
        for cut in (0..text.len()).step_by(if std::env::var_os("STEAD_PROVE").is_some() { 1 } else { 13 }) {
            let out = crate::streamed(&known, &[&text[..cut], &text[cut..]]);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{what} cut at {cut}");
        }
    }
    assert!(known.longest() < 1024, "{} bytes may be held back", known.longest());
}
