//! A request on its way in: what is ours is taken out, and what we know is put in.

use std::net::SocketAddr;

use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, REFERER, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use stead_app::ports::TOKEN_PARAMETER;
use stead_domain::{Code, Error, Result};

use super::cookies;

/// What belongs to one connection and not to the message.
pub const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
];

/// Tokens of signed URLs in a query.
pub fn tokens(uri: &Uri) -> Vec<String> {
    let parts = uri.query().unwrap_or_default().split('&');
    parts
        .filter_map(|part| part.split_once('='))
        .filter(|(name, _)| *name == TOKEN_PARAMETER)
        .map(|(_, value)| value.to_owned())
        .take(2)
        .collect()
}

/// Path and query without a token.
pub fn target(uri: &Uri) -> String {
    let path = if uri.path().is_empty() { "/" } else { uri.path() };
    let Some(query) = uri.query() else { return path.to_owned() };
    let kept: Vec<&str> = query.split('&').filter(|part| part.split('=').next() != Some(TOKEN_PARAMETER)).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

/// What the connection is to become, if that is asked for. Another version of HTTP would go past everything here.
pub fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let is_asked = asks.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case("upgrade"));
    let wanted = headers.get(UPGRADE).filter(|_| is_asked)?;
    let text = wanted.to_str().ok()?.to_ascii_lowercase();
    let is_http = text.split(',').map(str::trim).any(|protocol| protocol.starts_with("h2") || protocol.starts_with("http"));
    (!is_http).then(|| wanted.clone())
}

/// The headers as the inside gets them. `host` is what the caller asked for, and `proto` how.
pub fn clean(headers: &mut HeaderMap, host: &str, secure: bool, peer: Option<SocketAddr>) -> Result<()> {
    let upgrade = upgrade(headers);
    let named: Vec<HeaderName> = connection_names(headers);
    let ours = |name: &HeaderName| {
        let text = name.as_str();
        text.starts_with("stead-") || text.starts_with("x-forwarded-") || text == "forwarded" || text == "x-real-ip"
    };
    let strange: Vec<HeaderName> = headers.keys().filter(|name| ours(name)).cloned().collect();
    for name in HOP_BY_HOP.iter().chain(&named).chain(&strange).chain(&[AUTHORIZATION, CONTENT_LENGTH, EXPECT, UPGRADE]) {
        headers.remove(name);
    }
    if headers
        .get(REFERER)
        .is_some_and(|from| from.as_bytes().windows(TOKEN_PARAMETER.len()).any(|part| part == TOKEN_PARAMETER.as_bytes()))
    {
        headers.remove(REFERER);
    }
    cookies::strip(headers);
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| Error::new(Code::BadRequest, "the host is no text"));
    headers.insert(HOST, value(host)?);
    headers.insert("x-forwarded-host", value(host)?);
    headers.insert("x-forwarded-proto", HeaderValue::from_static(if secure { "https" } else { "http" }));
    if let Some(peer) = peer {
        headers.insert("x-forwarded-for", value(&peer.ip().to_canonical().to_string())?);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, upgrade);
    }
    Ok(())
}

/// Headers that `Connection` names belong to the connection, too.
pub fn connection_names(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse::<HeaderName>().ok());
    // Nobody takes the host out of a request by naming it.
    names.filter(|name| *name != HOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_token_is_found_and_taken_out_of_the_target() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        let asked = uri("/a?x=1&__stead_token=abc&y=%26__stead_token");
        assert_eq!(tokens(&asked), ["abc"]);
        assert_eq!(target(&asked), "/a?x=1&y=%26__stead_token");
        assert_eq!(target(&uri("/a?__stead_token=abc")), "/a");
        assert_eq!(target(&uri("http://host?__stead_token")), "/");
        assert_eq!(target(&uri("/a?")), "/a?");
    }

    #[test]
    fn nothing_that_is_ours_or_the_connections_goes_in() {
        let mut given = headers(&[
            ("host", "other"),
            ("authorization", "Bearer stk_1"),
            ("proxy-authorization", "x"),
            ("stead-anything", "x"),
            ("x-forwarded-for", "1.2.3.4"),
            ("forwarded", "for=1.2.3.4"),
            ("connection", "keep-alive, x-hop, host"),
            ("x-hop", "x"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("referer", "http://x/?__stead_token=abc"),
            ("cookie", "__stead_port=abc; mine=1"),
            ("x-mine", "1"),
        ]);
        clean(&mut given, "80-x.localhost", false, Some("[::ffff:127.0.0.1]:5".parse().unwrap())).unwrap();
        let mut left: Vec<(&str, &str)> = given.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            [
                ("cookie", "mine=1"),
                ("host", "80-x.localhost"),
                ("x-forwarded-for", "127.0.0.1"),
                ("x-forwarded-host", "80-x.localhost"),
                ("x-forwarded-proto", "http"),
                ("x-mine", "1")
            ]
        );
    }

    #[test]
    fn only_what_is_no_http_is_an_upgrade() {
        let asked = |upgrade| self::upgrade(&headers(&[("connection", "Upgrade"), ("upgrade", upgrade)])).is_some();
        assert!(asked("websocket") && asked("stead-tcp"));
        assert!(!asked("h2c") && !asked("websocket, h2c") && !asked("HTTP/2.0"));
        assert!(upgrade(&headers(&[("upgrade", "websocket")])).is_none());
    }
}
