//! Text from elsewhere, made harmless for a terminal.

use std::borrow::Cow;

/// Control characters can move the cursor, change titles or answer for the user; those that turn the direction of text can make one name
/// look like another.
fn is_dangerous(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{061c}' | '\u{feff}')
}

/// On one line, for a table or a message.
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// One line of a file.
pub fn tabbed(text: &str) -> Cow<'_, str> {
    escape(text, |character| character == '\t')
}

/// Several lines, for bodies that are shown as they are.
pub fn block(text: &str) -> Cow<'_, str> {
    escape(text, |character| matches!(character, '\n' | '\t'))
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|character| is_dangerous(character) && !keep(character)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_dangerous(character) && !keep(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// JSON text whose strings hold nothing dangerous, with the same meaning. Only strings can hold such characters, and the writer of the
/// text has escaped those below U+0020 already.
pub fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if is_dangerous(character) && character != '\n' {
            safe.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            safe.push(character);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        assert_eq!(line("größe 日本"), "größe 日本");
        assert_eq!(line("\u{1b}[2Jx\n\ty\u{7f}\u{9b}1m"), r"\u{1b}[2Jx\n\ty\u{7f}\u{9b}1m");
        assert_eq!(line("a\u{202e}b"), r"a\u{202e}b");
        assert_eq!(block("a\n\tb\r\u{1b}"), "a\n\tb\\r\\u{1b}");
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = serde_json::json!({"a": "\u{9b}\u{7f}\u{202e}\u{1b}\n"});
        let text = json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.chars().any(|character| is_dangerous(character) && character != '\n'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
