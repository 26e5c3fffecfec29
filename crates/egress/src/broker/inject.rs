//! The one place where a placeholder becomes a value. Everywhere else it stays what it is: hostile code would send it to where it can read
//! what was sent.

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use zeroize::Zeroizing;

use super::secrets::{Place, Secret};
use super::text::Scheme;
use crate::reason::Reason;

const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&ALPHABET, GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent));
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Puts values into the head of a request; says whose.
pub fn inject<'a>(secrets: impl Iterator<Item = &'a Secret>, parts: &mut Parts) -> Result<Vec<&'a str>, Reason> {
    let mut used = Vec::new();
    for secret in secrets {
        let injected = match &secret.place {
            Place::Header { name, scheme } => in_headers(&mut parts.headers, name, *scheme, secret)?,
            Place::Query(parameter) => in_query(&mut parts.uri, parameter, secret)?,
        };
        if injected {
            used.push(secret.name.as_str());
        }
    }
    Ok(used)
}

fn in_headers(headers: &mut HeaderMap, name: &HeaderName, scheme: Option<Scheme>, secret: &Secret) -> Result<bool, Reason> {
    let mut injected = false;
    let http::header::Entry::Occupied(mut values) = headers.entry(name) else { return Ok(false) };
    for value in values.iter_mut() {
        if let Some(replaced) = in_header(value.as_bytes(), scheme, secret) {
            // Line breaks and other control characters are none of a header's.
            *value = HeaderValue::from_bytes(&replaced).map_err(|_| Reason::UnusableValue)?;
            value.set_sensitive(true);
            injected = true;
        }
    }
    Ok(injected)
}

fn in_header(value: &[u8], scheme: Option<Scheme>, secret: &Secret) -> Option<Zeroizing<Vec<u8>>> {
    match scheme {
        Some(Scheme::Raw) => replace(value, secret),
        Some(Scheme::Bearer) => after_word(value, b"bearer").and_then(|from| replace_from(value, from, secret)),
        Some(Scheme::Basic) => after_word(value, b"basic").and_then(|from| in_basic(value, from, secret)),
        // What a client makes of a token is its own affair: git says `Basic`, others `Bearer` or `token`.
        None => match after_word(value, b"basic") {
            Some(from) => in_basic(value, from, secret),
            None => replace(value, secret),
        },
    }
}

/// Where what follows a scheme's name begins.
fn after_word(value: &[u8], word: &[u8]) -> Option<usize> {
    let named = value.len() > word.len() && value[..word.len()].eq_ignore_ascii_case(word) && value[word.len()] == b' ';
    named.then(|| value[word.len()..].iter().take_while(|byte| **byte == b' ').count() + word.len())
}

fn in_basic(value: &[u8], from: usize, secret: &Secret) -> Option<Zeroizing<Vec<u8>>> {
    let decoded = Zeroizing::new(LENIENT.decode(value[from..].trim_ascii()).ok()?);
    let replaced = replace(&decoded, secret)?;
    Some(Zeroizing::new([&value[..from], STANDARD.encode(&*replaced).as_bytes()].concat()))
}

fn replace_from(value: &[u8], from: usize, secret: &Secret) -> Option<Zeroizing<Vec<u8>>> {
    let replaced = replace(&value[from..], secret)?;
    Some(Zeroizing::new([&value[..from], &replaced].concat()))
}

fn replace(bytes: &[u8], secret: &Secret) -> Option<Zeroizing<Vec<u8>>> {
    let placeholder = secret.placeholder.as_bytes();
    let (mut out, mut rest, mut found) = (Zeroizing::new(Vec::new()), bytes, false);
    while let Some(at) = rest.windows(placeholder.len()).position(|window| window == placeholder) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(secret.value.bytes());
        (rest, found) = (&rest[at + placeholder.len()..], true);
    }
    out.extend_from_slice(rest);
    found.then_some(out)
}

fn in_query(uri: &mut Uri, parameter: &str, secret: &Secret) -> Result<bool, Reason> {
    let Some(target) = uri.path_and_query() else { return Ok(false) };
    let Some(query) = target.query() else { return Ok(false) };
    let mut found = false;
    let pair = |pair: &str| {
        let Some((name, value)) = pair.split_once('=') else { return pair.to_owned() };
        let named = percent_decode_str(&name.replace('+', " ")).decode_utf8().is_ok_and(|name| name == parameter);
        if !named || !value.contains(&secret.placeholder) {
            return pair.to_owned();
        }
        found = true;
        let encoded = percent_encode(secret.value.bytes(), UNRESERVED).to_string();
        format!("{name}={}", value.replace(&secret.placeholder, &encoded))
    };
    let query: Vec<String> = query.split('&').map(pair).collect();
    if found {
        let replaced = format!("{}?{}", target.path(), query.join("&"));
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(replaced).map_err(|_| Reason::UnusableValue)?);
        *uri = Uri::from_parts(parts).map_err(|_| Reason::UnusableValue)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::super::secrets::tests::{broker, text};
    use super::super::text::BrokeredText;
    use super::*;
    use crate::host::Host;

    const STANDS: &str = "stp_oneoneoneone";

    /// What becomes of a request, with the values of its headers in order.
    fn injected(bound: BrokeredText, target: &str, headers: &[(&str, &str)]) -> Result<(String, Vec<String>, usize), Reason> {
        let broker = broker(vec![bound]).unwrap();
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let used = inject(broker.secrets(&Host::parse("api.example").unwrap(), 443, false), &mut parts)?.len();
        let values = parts.headers.values().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        Ok((parts.uri.to_string(), values, used))
    }

    fn one() -> BrokeredText {
        text("ONE", "correct horse/é", &["api.example"])
    }

    fn basic(text: &str) -> String {
        format!("Basic {}", STANDARD.encode(text))
    }

    #[test]
    fn headers() {
        let bearer = format!("Bearer {STANDS}");
        let filled = "Bearer correct horse/é";
        for (scheme, before, after) in [
            (None, bearer.clone(), filled.to_owned()),
            (None, format!("token {STANDS}"), "token correct horse/é".to_owned()),
            (None, basic(&format!("x:{STANDS}")), basic("x:correct horse/é")),
            (Some(Scheme::Bearer), format!("bearer  {STANDS}"), "bearer  correct horse/é".to_owned()),
            (Some(Scheme::Bearer), basic(&format!("x:{STANDS}")), basic(&format!("x:{STANDS}"))),
            (Some(Scheme::Bearer), format!("token {STANDS}"), format!("token {STANDS}")),
            (Some(Scheme::Basic), basic(&format!("{STANDS}:y")), basic("correct horse/é:y")),
            (Some(Scheme::Basic), basic(STANDS).trim_end_matches('=').to_owned(), basic("correct horse/é")),
            (Some(Scheme::Basic), bearer.clone(), bearer.clone()),
            (Some(Scheme::Basic), format!("Basic {STANDS}"), format!("Basic {STANDS}")),
            (Some(Scheme::Raw), format!("key={STANDS};{STANDS}"), "key=correct horse/é;correct horse/é".to_owned()),
            (Some(Scheme::Raw), "nothing".to_owned(), "nothing".to_owned()),
        ] {
            let bound = BrokeredText { scheme, ..one() };
            let (_, values, used) = injected(bound, "/", &[("Authorization", &before)]).unwrap();
            assert_eq!((&values[..], used), (&[after.clone()][..], usize::from(before != after)), "{scheme:?} {before}");
        }
    }

    #[test]
    fn nowhere_else() {
        let elsewhere = format!("/{STANDS}?key={STANDS}");
        let headers = [("x-api-key", STANDS), ("cookie", STANDS), ("referer", STANDS), ("proxy-authorization", STANDS)];
        let (target, values, used) = injected(one(), &elsewhere, &headers).unwrap();
        assert_eq!((target, used), (elsewhere.clone(), 0));
        assert!(values.iter().all(|value| value == STANDS));
        let own = BrokeredText { header: Some("X-Api-Key".to_owned()), ..one() };
        let (_, values, used) = injected(own, "/", &[("authorization", STANDS), ("x-api-key", STANDS)]).unwrap();
        assert_eq!((values, used), (vec![STANDS.to_owned(), "correct horse/é".to_owned()], 1));
    }

    #[test]
    fn queries() {
        let bound = || BrokeredText { query: Some("api key".to_owned()), ..one() };
        let before = format!("/p/{STANDS}?a={STANDS}&api%20key={STANDS}&api+key=x{STANDS}&{STANDS}=1&api%20key");
        let after =
            format!("/p/{STANDS}?a={STANDS}&api%20key=correct%20horse%2F%C3%A9&api+key=xcorrect%20horse%2F%C3%A9&{STANDS}=1&api%20key");
        assert_eq!(injected(bound(), &before, &[("authorization", STANDS)]).unwrap(), (after, vec![STANDS.to_owned()], 1));
        assert_eq!(injected(bound(), "/p", &[]).unwrap().2, 0);
        let absolute = injected(bound(), &format!("https://api.example/p?api%20key={STANDS}"), &[]).unwrap().0;
        assert_eq!(absolute, "https://api.example/p?api%20key=correct%20horse%2F%C3%A9");
    }

    #[test]
    fn a_value_with_a_line_break_adds_no_header() {
        for value in ["one\r\nx-evil: 1", "one\ntwo-two", "nul\0nul"] {
            let bound = text("ONE", value, &["api.example"]);
            assert_eq!(injected(bound.clone(), "/", &[("authorization", STANDS)]), Err(Reason::UnusableValue));
            let query = BrokeredText { query: Some("key".to_owned()), ..bound.clone() };
            let target = injected(query, &format!("/?key={STANDS}"), &[]).unwrap().0;
            assert!(!target.contains(['\r', '\n', '\0']), "{target}");
            let encoded = injected(bound, "/", &[("authorization", &basic(STANDS))]).unwrap().1;
            assert_eq!(encoded, [basic(value)]);
        }
    }
}
