//! Cookies: ours, which go no further, and those from inside, which stay with their own host.

use std::time::Duration;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

/// Under https nobody but this very host can set one of this name.
const SECURE: &str = "__Host-stead-port";
const PLAIN: &str = "__stead_port";

fn is_ours(name: &str) -> bool {
    let name = name.trim();
    // Browsers compare prefixes without regard to case, and so do we.
    name.eq_ignore_ascii_case(SECURE) || name.eq_ignore_ascii_case(PLAIN)
}

fn pairs(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let sent = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    sent.flat_map(|value| value.split(';')).map(str::trim).filter(|pair| !pair.is_empty())
}

/// What our cookies hold. There may be several: a neighbour under the same domain can set one of the same name, which is none of ours.
pub fn tokens(headers: &HeaderMap, secure: bool) -> Vec<String> {
    let name = if secure { SECURE } else { PLAIN };
    pairs(headers)
        .filter_map(|pair| pair.split_once('='))
        .filter(|(known, _)| known.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .take(8)
        .collect()
}

/// What is left for the inside.
pub fn strip(headers: &mut HeaderMap) {
    if !headers.contains_key(COOKIE) {
        return;
    }
    let left: Vec<&str> = pairs(headers).filter(|pair| !is_ours(pair.split_once('=').map_or(*pair, |(name, _)| name))).collect();
    let left = HeaderValue::from_str(&left.join("; "));
    headers.remove(COOKIE);
    if let Some(left) = left.ok().filter(|left| !left.is_empty()) {
        headers.insert(COOKIE, left);
    }
}

/// The cookie that stands for a signed URL: for this host alone, and out of reach of its pages.
pub fn ours(token: &str, life: Duration, secure: bool) -> String {
    let (name, more) = if secure { (SECURE, "; Secure") } else { (PLAIN, "") };
    format!("{name}={token}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{more}", life.as_secs())
}

/// A cookie from inside as it may be set: for no other host. None when it would be one of ours.
pub fn confine(cookie: &str) -> Option<String> {
    let mut parts = cookie.split(';');
    let first = parts.next()?;
    let name = first.split_once('=').map_or(first, |(name, _)| name);
    // One without a name comes back as its value alone, and that could be the name of ours.
    if is_ours(name) || name.trim().is_empty() {
        return None;
    }
    let is_domain = |part: &&str| part.split('=').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("domain"));
    let kept: Vec<&str> = std::iter::once(first).chain(parts.filter(|part| !is_domain(part))).collect();
    Some(kept.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(COOKIE, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn our_cookies_are_read_and_go_no_further() {
        let mut headers = sent(&["a=1; __stead_port=one; b=2", "__stead_port=two;__Host-stead-port=three; __STEAD_PORT=x"]);
        assert_eq!(tokens(&headers, false), ["one", "two"]);
        assert_eq!(tokens(&headers, true), ["three"]);
        strip(&mut headers);
        assert_eq!(headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2"]);
        let mut headers = sent(&["__stead_port=one"]);
        strip(&mut headers);
        assert!(!headers.contains_key(COOKIE));
    }

    #[test]
    fn what_is_set_inside_stays_with_its_host() {
        assert_eq!(confine("a=1; Domain=.localhost; Path=/").as_deref(), Some("a=1; Path=/"));
        assert_eq!(confine("a=1; domain = example.org;HttpOnly; DOMAIN").as_deref(), Some("a=1;HttpOnly"));
        assert_eq!(confine("domain=1; Path=/").as_deref(), Some("domain=1; Path=/"), "a cookie may be called so");
        for ours in ["__stead_port=x; Path=/", "__Host-stead-port=x", " __STEAD_port =x", "__stead_port"] {
            assert_eq!(confine(ours), None, "{ours}");
        }
    }
}
