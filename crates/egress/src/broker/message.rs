//! Heads of messages, made anew: what belonged to one connection does not reach the other.

use http::header::{
    ACCEPT_ENCODING, ALT_SVC, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, SEC_WEBSOCKET_EXTENSIONS, TE, TRANSFER_ENCODING,
    UPGRADE,
};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};

use super::secrets::Broker;
use crate::host::Host;
use crate::reason::Reason;
use crate::sniff::Expected;

const OF_ONE_CONNECTION: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-connection"),
    TRANSFER_ENCODING,
];

/// Whether a request is for the host that was decided, wherever it says so.
pub fn check_authority(parts: &Parts, expected: &Expected, plain: bool) -> Result<(), Reason> {
    if parts.method == Method::CONNECT {
        return Err(Reason::HostMismatch);
    }
    if parts.uri.scheme().is_some_and(|scheme| *scheme != if plain { Scheme::HTTP } else { Scheme::HTTPS }) {
        return Err(Reason::HostMismatch);
    }
    let mut hosts = parts.headers.get_all(HOST).iter();
    let (host, another) = (hosts.next(), hosts.next().is_some());
    if another {
        return Err(Reason::HostMissing);
    }
    let host = host.map(|host| host.to_str().map_err(|_| Reason::HostMismatch)).transpose()?;
    let authority = parts.uri.authority().map(Authority::as_str);
    if host.is_none() && authority.is_none() {
        return Err(Reason::HostMissing);
    }
    for named in [host, authority].into_iter().flatten() {
        let (host, port) = Host::parse_authority(named).map_err(|_| Reason::HostMismatch)?;
        if host != expected.host || port.unwrap_or(default_port(plain)) != expected.port {
            return Err(Reason::HostMismatch);
        }
    }
    Ok(())
}

fn default_port(plain: bool) -> u16 {
    if plain { 80 } else { 443 }
}

/// What another protocol is asked for with; not HTTP/2, whose requests would not be read here.
pub fn asked_upgrade(parts: &Parts) -> Option<HeaderValue> {
    let asks = parts.headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let asks = asks.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
    let upgrade = parts.headers.get(UPGRADE).filter(|_| asks && parts.version == Version::HTTP_11)?;
    let http = upgrade.as_bytes().to_ascii_lowercase();
    (!http.windows(2).any(|window| window == b"h2")).then(|| upgrade.clone())
}

/// A request as its server is to have it.
pub fn prepare_request(parts: &mut Parts, expected: &Expected, plain: bool, version: Version) -> Result<(), Reason> {
    let trailers = parts.headers.get_all(TE).iter().any(|value| value.as_bytes().eq_ignore_ascii_case(b"trailers"));
    drop_connection_headers(&mut parts.headers);
    // Lengths are told by the body itself. Whoever expects to be told to go on is told so by the relay.
    for name in [CONTENT_LENGTH, EXPECT, TE, UPGRADE, HOST, SEC_WEBSOCKET_EXTENSIONS] {
        parts.headers.remove(name);
    }
    // What is compressed cannot be looked into.
    parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let authority = match (&expected.host, expected.port) {
        (Host::Address(std::net::IpAddr::V6(six)), port) if port == default_port(plain) => format!("[{six}]"),
        (Host::Address(std::net::IpAddr::V6(six)), port) => format!("[{six}]:{port}"),
        (host, port) if port == default_port(plain) => host.to_string(),
        (host, port) => format!("{host}:{port}"),
    };
    let target = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let malformed = |_| Reason::MalformedRequest;
    if version == Version::HTTP_2 {
        let scheme = if plain { Scheme::HTTP } else { Scheme::HTTPS };
        let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(target);
        parts.uri = uri.build().map_err(malformed)?;
        if trailers {
            parts.headers.insert(TE, HeaderValue::from_static("trailers"));
        }
    } else {
        parts.uri = Uri::builder().path_and_query(target).build().map_err(malformed)?;
        parts.headers.insert(HOST, HeaderValue::try_from(authority).map_err(|_| Reason::MalformedRequest)?);
        if trailers {
            parts.headers.insert(TE, HeaderValue::from_static("trailers"));
            parts.headers.insert(CONNECTION, HeaderValue::from_static("TE"));
        }
    }
    parts.version = version;
    Ok(())
}

/// A reply as the place is to have it.
pub fn prepare_reply(headers: &mut HeaderMap, broker: &Broker, empty: bool) -> Result<(), Reason> {
    let coded = |name: HeaderName, plain: &str| {
        headers.get_all(name).iter().any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(plain.as_bytes()))
    };
    // Nothing can be found in it, and so it is not let in.
    if !empty && (coded(CONTENT_ENCODING, "identity") || coded(TRANSFER_ENCODING, "chunked")) {
        return Err(Reason::EncodedReply);
    }
    drop_connection_headers(headers);
    headers.remove(UPGRADE);
    // HTTP/3 would go around the relay, without any value.
    headers.remove(ALT_SVC);
    redact_headers(headers, broker);
    Ok(())
}

fn drop_connection_headers(headers: &mut HeaderMap) {
    let listed: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in listed.iter().chain(&OF_ONE_CONNECTION) {
        headers.remove(name);
    }
}

/// Values become placeholders. A field that is named like a value is left out.
pub fn redact_headers(headers: &mut HeaderMap, broker: &Broker) {
    let named: Vec<HeaderName> = headers.keys().filter(|name| broker.known_names.contains(name.as_str().as_bytes())).cloned().collect();
    for name in named {
        headers.remove(name);
    }
    for value in headers.values_mut() {
        if let std::borrow::Cow::Owned(redacted) = broker.known.redact(value.as_bytes()) {
            *value = HeaderValue::from_bytes(&redacted).unwrap_or_else(|_| HeaderValue::from_static(""));
        }
    }
}
