//! A response on its way out: what would reach beyond its own host is taken out of it.

use http::header::{ALT_SVC, CONNECTION, SET_COOKIE, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::cookies;
use super::request::{HOP_BY_HOP, connection_names};

/// What speaks for more than the host that says it: neighbours share the domain, and a browser's cookies with it.
const BEYOND: [HeaderName; 3] = [ALT_SVC, HeaderName::from_static("clear-site-data"), HeaderName::from_static("service-worker-allowed")];

/// `upgraded` keeps what says that the connection has become something else.
pub fn clean(headers: &mut HeaderMap, upgraded: bool) {
    let protocol = headers.get(UPGRADE).filter(|_| upgraded).cloned();
    let named = connection_names(headers);
    let ours: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with("stead-")).cloned().collect();
    for name in HOP_BY_HOP.iter().chain(&BEYOND).chain(&named).chain(&ours).chain(&[UPGRADE]) {
        headers.remove(name);
    }
    let cookies: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().cloned().collect();
    headers.remove(SET_COOKIE);
    for cookie in cookies {
        // What is no text cannot be looked at, and is left out.
        let confined = cookie.to_str().ok().and_then(cookies::confine).and_then(|cookie| HeaderValue::from_str(&cookie).ok());
        if let Some(confined) = confined {
            headers.append(SET_COOKIE, confined);
        }
    }
    if let Some(protocol) = protocol {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_beyond_the_host_does_not_come_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("stead-next-offset", "1"),
            ("alt-svc", "h2=\":1\""),
            ("clear-site-data", "\"cookies\""),
            ("set-cookie", "a=1; Domain=localhost"),
            ("set-cookie", "__stead_port=stolen"),
            ("set-cookie", "=__stead_port=stolen"),
            ("set-cookie", "b=2"),
            ("upgrade", "websocket"),
            ("access-control-allow-origin", "*"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        clean(&mut headers, false);
        let mut left: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        left.sort_unstable();
        assert_eq!(left, [("access-control-allow-origin", "*"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]);
    }
}
