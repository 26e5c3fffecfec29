//! Who a request is from at GitHub: a token of their own, sent with it or kept by their browser.

use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use stead_domain::secret::SecretValue;
use stead_domain::{Code, Error};

use crate::State;

/// What a browser keeps of whoever signed in.
pub const SESSION: &str = "stead_github";
/// What it keeps while they are away to do so.
pub const LOGIN: &str = "stead_github_login";

const LONGEST_TOKEN: usize = 4096;

/// The token of `X-GitHub-Token`, or of the session. What is sent decides alone: a header that is no token is an error, not a session.
pub fn presented(headers: &HeaderMap, state: &State) -> Result<Option<SecretValue>, Error> {
    if let Some(value) = headers.get("x-github-token") {
        let text = value.as_bytes().trim_ascii();
        let is_token = (1..=LONGEST_TOKEN).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
        return match is_token {
            true => Ok(Some(SecretValue::new(text.to_vec()))),
            false => Err(Error::new(Code::BadRequest, "the header `X-GitHub-Token` is no token")
                .suggestion("send a token of your own at GitHub, or leave it out")),
        };
    }
    Ok(cookie(headers, SESSION).and_then(|kept| state.app.github_session(&kept)))
}

/// A cookie by its name. Of two of one name neither is believed: somebody else may have set the other.
pub fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut found = texts.flat_map(|text| text.split(';')).filter_map(|pair| {
        let (known, value) = pair.trim().split_once('=')?;
        (known == name).then(|| value.to_owned())
    });
    match (found.next(), found.next()) {
        (Some(value), None) => Some(value),
        _ => None,
    }
}

/// Has a browser keep something, or nothing any more. No script reads it, and no other site sends it along with what it asks for.
pub fn keep(headers: &mut HeaderMap, secure: bool, name: &str, value: &str, path: &str, seconds: u64) {
    let secure = if secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.append(SET_COOKIE, value);
    }
}

/// Whether the browser came over TLS, to this server or to what stands before it.
pub fn is_secure(headers: &HeaderMap, state: &State) -> bool {
    let before_us = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"));
    state.app.settings().address.starts_with("https://") || before_us
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_stands_once() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=1; stead_github=x; stead_github_login=y"));
        assert_eq!(cookie(&headers, SESSION).as_deref(), Some("x"));
        assert_eq!(cookie(&headers, LOGIN).as_deref(), Some("y"));
        assert_eq!(cookie(&headers, "none"), None);
        headers.append(COOKIE, HeaderValue::from_static("stead_github=z"));
        assert_eq!(cookie(&headers, SESSION), None);
    }

    #[test]
    fn no_script_and_no_other_site_has_it() {
        let mut headers = HeaderMap::new();
        keep(&mut headers, true, SESSION, "x", "/", 5);
        assert_eq!(headers[SET_COOKIE], "stead_github=x; Path=/; Max-Age=5; HttpOnly; SameSite=Lax; Secure");
    }
}
