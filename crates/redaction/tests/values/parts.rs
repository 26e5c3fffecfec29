//! What of a value is a secret by itself.

use crate::{NAME, at_every_cut, gone, known};

const DOCUMENT: &str = r#"{"type": "service_account", "number": 123456789012, "inner": {"key": "line-one-of-it\nline-two-of-it\n", "url": "https://u:p4ssw0rd@example.org/"}, "list": ["first-entry"], "short": "abc"}"#;

#[test]
fn the_strings_of_a_document_however_it_is_laid_out() {
    let known = known(&[DOCUMENT.as_bytes()]);
    let text = "{\n    \"key\": \"line-one-of-it\\nline-two-of-it\\n\",\n    \"list\": [ \"first-entry\" ],\n    \"short\": \"abc\",\n    \"number\": 123456789012\n}\n";
    let expected = format!(
        "{{\n    \"key\": \"{NAME}\\n\",\n    \"list\": [ \"{NAME}\" ],\n    \"short\": \"abc\",\n    \"number\": 123456789012\n}}\n"
    );
    at_every_cut(&known, text.as_bytes(), expected.as_bytes(), "a document");
    // Braces, names and what is short stay.
    assert_eq!(known.redact(b"{ } [ ] \"key\" abc\n"), &b"{ } [ ] \"key\" abc\n"[..]);
    gone(DOCUMENT.as_bytes(), b"line-two-of-it", "a line of a string of a document");
    gone(DOCUMENT.as_bytes(), b"p4ssw0rd", "a password in a URL in a document");
}

#[test]
fn the_password_of_a_url_as_it_stands_there_and_as_it_is_used() {
    let url = b"postgres://app:p%40ss%2Fw0rd@db.example.org/app";
    gone(url, b"p%40ss%2Fw0rd", "encoded");
    gone(url, b"p@ss/w0rd", "decoded");
    gone(b"https://0123456789abcdef@example.org/x.git", b"0123456789abcdef", "a token that is the user");
    assert_eq!(known(&[url]).redact(b"db.example.org/app"), &b"db.example.org/app"[..]);
}

#[test]
fn an_empty_or_short_line_is_nothing_by_itself() {
    let known = known(&[b"first-line-of-it\n\nx\n}\n----------\nlast-line-of-it\n"]);
    let text = b"a\n\nx\n}\n----------\n {}";
    assert_eq!(known.redact(text), &text[..]);
    assert_eq!(known.redact(b"last-line-of-it"), NAME.as_bytes());
}
