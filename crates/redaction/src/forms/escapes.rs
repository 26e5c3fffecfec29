//! Escapes that put something else in place of single characters: JSON, XML and HTML, URIs.

/// Each byte as `escape` writes it.
pub fn each(text: &[u8], mut escape: impl FnMut(u8, &mut Vec<u8>)) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len() + 16);
    for byte in text {
        escape(*byte, &mut escaped);
    }
    escaped
}

/// Strings of JSON, without the quotes around them.
pub fn json(text: &[u8], found: &mut Vec<Vec<u8>>) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let has = |characters: &str| text.contains(|character| characters.contains(character));
    let either = |which: bool| if which { &[false, true][..] } else { &[false] };
    let markups: Vec<&str> = ["<>&", "<>&'", "<>&'\""].into_iter().filter(|markup| has(markup)).chain([""]).collect();
    let units = !text.is_ascii() || markups.len() > 1 || text.contains(|character| character < ' ');
    if !(units || has("\"\\/")) {
        return;
    }
    for upper in either(units) {
        for slash in either(has("/")) {
            for ascii in either(!text.is_ascii()) {
                for markup in &markups {
                    let once = json_string(text, *upper, *slash, *ascii, markup);
                    if markup.is_empty() {
                        found.push(json_string(&once, *upper, *slash, *ascii, markup).into_bytes());
                    }
                    found.push(once.into_bytes());
                }
            }
        }
    }
}

fn json_string(text: &str, upper: bool, slash: bool, ascii: bool, markup: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            special if markup.contains(special) => unit(special as u16, upper, &mut escaped),
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '/' if slash => escaped.push_str("\\/"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\u{8}' => escaped.push_str("\\b"),
            '\u{c}' => escaped.push_str("\\f"),
            control if control < ' ' => unit(control as u16, upper, &mut escaped),
            other if ascii && !other.is_ascii() => {
                for part in other.encode_utf16(&mut [0; 2]) {
                    unit(*part, upper, &mut escaped);
                }
            }
            other => escaped.push(other),
        }
    }
    escaped
}

fn unit(unit: u16, upper: bool, escaped: &mut String) {
    escaped.push_str(&if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") });
}

/// Text and attributes of XML and HTML: `& < > " '`, as each of the usual escapers writes them.
pub fn xml(text: &[u8], found: &mut Vec<Vec<u8>>) {
    const ESCAPERS: [[&str; 5]; 9] = [
        ["&amp;", "&lt;", "&gt;", "\"", "'"],
        ["&amp;", "&lt;", "&gt;", "&quot;", "'"],
        ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"],
        ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"],
        ["&amp;", "&lt;", "&gt;", "&quot;", "&#x27;"],
        ["&amp;", "&lt;", "&gt;", "&#34;", "&#39;"],
        ["&#38;", "&#60;", "&#62;", "&#34;", "&#39;"],
        ["&#x26;", "&#x3c;", "&#x3e;", "&#x22;", "&#x27;"],
        ["&#x26;", "&#x3C;", "&#x3E;", "&#x22;", "&#x27;"],
    ];
    let special = |set: &[u8]| text.iter().any(|byte| set.contains(byte));
    let escapers = if special(b"&<>\"'") { &ESCAPERS[..] } else { &ESCAPERS[..1] };
    // An attribute may not hold a line break as it is.
    let lines = [None, Some("&#10;"), Some("&#xA;"), Some("&#xa;")];
    for line in &lines[..if special(b"\n") { 4 } else { 1 }] {
        for [and, less, greater, double, single] in escapers {
            found.push(each(text, |byte, escaped| match (byte, line) {
                (b'&', _) => escaped.extend(and.bytes()),
                (b'<', _) => escaped.extend(less.bytes()),
                (b'>', _) => escaped.extend(greater.bytes()),
                (b'"', _) => escaped.extend(double.bytes()),
                (b'\'', _) => escaped.extend(single.bytes()),
                (b'\n', Some(line)) => escaped.extend(line.bytes()),
                _ => escaped.push(byte),
            }));
        }
    }
}

/// Percent encoding. What is kept as it is differs: the standard's unreserved characters, those of JavaScript's `encodeURIComponent` and
/// `encodeURI`, of forms, and of paths.
pub fn uri(text: &[u8], found: &mut Vec<Vec<u8>>) {
    let special = |set: &[u8]| text.iter().any(|byte| set.contains(byte));
    if text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
        return;
    }
    for kept in ["-_.~", "-_.~!'()*", "-_.~!'()*;,/?:@&=+$#", "-_.*", "-_.", "-_.~/", "-_.~/:@!$&'()*+,;="] {
        for space in if special(b" ") { &["%20", "+"][..] } else { &["%20"] } {
            for digits in [b"0123456789abcdef", b"0123456789ABCDEF"] {
                found.push(each(text, |byte, escaped| {
                    if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
                        escaped.push(byte);
                    } else if byte == b' ' {
                        escaped.extend(space.bytes());
                    } else {
                        escaped.extend([b'%', digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]);
                    }
                }));
            }
        }
    }
}
