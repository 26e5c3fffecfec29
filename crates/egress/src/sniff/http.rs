//! The head of an HTTP/1 request, read so strictly that no server can understand it otherwise.

use crate::host::Host;
use crate::reason::Reason;

/// Longer heads are refused; servers take 8 to 32 KiB.
pub const LONGEST_HEAD: usize = 64 * 1024;
const MOST_FIELDS: usize = 200;
const METHODS: [&[u8]; 9] = [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    None,
    Length(u64),
    Chunked,
}

/// What must be known of a request to let it pass.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// With the empty line at its end.
    pub length: usize,
    pub method: String,
    pub target: String,
    /// The `Host` field; only `CONNECT` can do without.
    pub authority: Option<String>,
    pub body: Body,
    /// Asks for another protocol on the same connection, and not for HTTP/2.
    pub upgrade: bool,
}

/// Whether these bytes begin an HTTP/1 request; `None` while it may still become one.
pub fn begins(bytes: &[u8]) -> Option<bool> {
    // Servers skip empty lines before a request, and some take any white space for a space: what they may read as a request is one here too.
    let bytes = &bytes[bytes.iter().take_while(|byte| is_white(**byte) || **byte == b'\n').count()..];
    let letters = bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)).count();
    match bytes.get(letters) {
        None if letters <= 64 => return None,
        Some(&byte) if is_white(byte) && (1..=64).contains(&letters) => {}
        _ => return Some(false),
    }
    let known = METHODS.iter().any(|method| bytes[..letters].eq_ignore_ascii_case(method)) || &bytes[..letters] == b"PRI";
    if known {
        return Some(true);
    }
    // An unknown word is a method if the line ends as request lines do.
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => Some(bytes[..end].windows(5).any(|window| window.eq_ignore_ascii_case(b"HTTP/"))),
        None if bytes.len() > LONGEST_HEAD || bytes[letters..].iter().any(|&byte| byte.is_ascii_control() && !is_white(byte)) => {
            Some(false)
        }
        None => None,
    }
}

fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

/// Whether this is HTTP/2 without TLS and without having been asked for.
pub fn is_http2(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PRI ")
}

/// `None` while the head is not whole.
pub fn parse(bytes: &[u8]) -> Result<Option<Head>, Reason> {
    let skipped = bytes.chunks_exact(2).take(2).take_while(|pair| pair == b"\r\n").count() * 2;
    let rest = &bytes[skipped..];
    let end = rest.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
    let seen = &rest[..end.unwrap_or(rest.len())];
    check_lines(seen)?;
    let Some(length) = end else {
        return if rest.len() >= LONGEST_HEAD { Err(Reason::HeadTooLong) } else { Ok(None) };
    };
    if length > LONGEST_HEAD {
        return Err(Reason::HeadTooLong);
    }
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(seen) {
        Ok(httparse::Status::Complete(parsed)) if parsed == length => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Reason::HeadTooLong),
        _ => return Err(Reason::MalformedRequest),
    }
    read(&request, skipped + length).map(Some)
}

/// Lines end in CRLF and nothing else does; no line goes on in the next one; no control character.
fn check_lines(head: &[u8]) -> Result<(), Reason> {
    for (at, &byte) in head.iter().enumerate() {
        let fine = match byte {
            b'\n' => at > 0 && head[at - 1] == b'\r' && !matches!(head.get(at + 1), Some(b' ' | b'\t')),
            b'\r' => matches!(head.get(at + 1), None | Some(b'\n')),
            b'\t' => true,
            0..=31 | 127 => false,
            _ => true,
        };
        if !fine {
            return Err(Reason::MalformedRequest);
        }
    }
    Ok(())
}

fn read(request: &httparse::Request<'_, '_>, length: usize) -> Result<Head, Reason> {
    let (Some(method), Some(target)) = (request.method, request.path) else { return Err(Reason::MalformedRequest) };
    let (mut hosts, mut lengths, mut codings, mut upgrades) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for field in request.headers.iter() {
        let list = match field.name.to_ascii_lowercase().as_str() {
            "host" => &mut hosts,
            "content-length" => &mut lengths,
            "transfer-encoding" => &mut codings,
            "upgrade" => &mut upgrades,
            _ => continue,
        };
        list.push(str::from_utf8(field.value).map_err(|_| Reason::MalformedRequest)?.trim());
    }
    let body = match (&codings[..], &lengths[..]) {
        ([], []) => Body::None,
        // Digits only: `+5`, `5, 5` and the like are read differently by different servers.
        ([], [length]) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
            Body::Length(length.parse().map_err(|_| Reason::MalformedRequest)?)
        }
        ([coding], []) if coding.eq_ignore_ascii_case("chunked") && request.version == Some(1) => Body::Chunked,
        _ => return Err(Reason::MalformedRequest),
    };
    let authority = match hosts[..] {
        [authority] => Some(authority.to_owned()),
        // Python sends none.
        [] if method == "CONNECT" => None,
        _ => return Err(Reason::HostMissing),
    };
    let upgrade = !upgrades.is_empty() && !upgrades.iter().any(|value| value.to_ascii_lowercase().contains("h2c"));
    Ok(Head { length, method: method.to_owned(), target: target.to_owned(), authority, body, upgrade })
}

impl Head {
    /// The host and port of every place that names one; they must agree.
    pub fn destination(&self) -> Result<(Host, Option<u16>), Reason> {
        let named = self.authority.as_deref().map(Host::parse_authority).transpose().map_err(|_| Reason::HostMismatch)?;
        if self.target.starts_with('/') || self.target == "*" {
            return named.ok_or(Reason::HostMissing);
        }
        let (authority, port) = if self.method == "CONNECT" {
            Host::parse_authority(&self.target).map_err(|_| Reason::MalformedRequest)?
        } else {
            let (scheme, rest) = self.target.split_once("://").ok_or(Reason::MalformedRequest)?;
            if !scheme.eq_ignore_ascii_case("http") {
                return Err(Reason::MalformedRequest);
            }
            Host::parse_authority(&rest[..authority_end(rest)]).map_err(|_| Reason::MalformedRequest)?
        };
        let default = if self.method == "CONNECT" { None } else { Some(80) };
        if named.is_some_and(|(host, named)| host != authority || named.is_some_and(|named| Some(named) != port.or(default))) {
            return Err(Reason::HostMismatch);
        }
        Ok((authority, port.or(default)))
    }
}

/// Where the authority ends in what follows `http://`.
pub fn authority_end(rest: &str) -> usize {
    rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(text: &str) -> Head {
        parse(text.as_bytes()).unwrap().unwrap()
    }

    fn refused(text: &str) -> Reason {
        match parse(text.as_bytes()) {
            Err(reason) => reason,
            Ok(head) => head.unwrap().destination().unwrap_err(),
        }
    }

    #[test]
    fn requests_are_recognised() {
        for text in [
            "GET / HTTP/1.1\r\n",
            "\r\nPOST /x",
            "get /",
            "PROPFIND /dav HTTP/1.1\n",
            "CONNECT a:1 HTTP/1.1",
            " GET\t/",
            "M-1 / http/1.1\n",
            "PRI * HTTP/2.0\r\n",
        ] {
            assert_eq!(begins(text.as_bytes()), Some(true), "{text}");
        }
        for text in ["", "GE", "PROPFIND /dav", "\r\n", "SSH"] {
            assert_eq!(begins(text.as_bytes()), None, "{text}");
        }
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "EHLO mail.example\r\n",
            "\0\0\0\x08\x04",
            "{\"a\": 1}",
            "0032git-upload-pack /x\0host=a\0",
            "PING\r\n",
        ] {
            assert_eq!(begins(text.as_bytes()), Some(false), "{text}");
        }
    }

    #[test]
    fn heads_and_bodies() {
        let get = head("GET / HTTP/1.1\r\nHost: A.example\r\n\r\nrest");
        assert_eq!((get.length, get.body, get.upgrade), (35, Body::None, false));
        assert_eq!(get.destination().unwrap(), (Host::parse("a.example").unwrap(), None));
        assert_eq!(head("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n").body, Body::Length(12));
        assert_eq!(head("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n").body, Body::Chunked);
        assert!(head("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n").upgrade);
        assert!(!head("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n").upgrade);
        assert_eq!(parse(b"GET / HTTP/1.1\r\nHost: a").unwrap(), None);
    }

    #[test]
    fn absolute_form_and_connect_name_the_same_host() {
        let absolute = head("GET http://A.example:8080/x?y HTTP/1.1\r\nHost: a.example:8080\r\n\r\n");
        assert_eq!(absolute.destination().unwrap(), (Host::parse("a.example").unwrap(), Some(8080)));
        let connect = head("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
        assert_eq!(connect.destination().unwrap(), (Host::parse("a.example").unwrap(), Some(443)));
        let bare = head("CONNECT a.example:443 HTTP/1.0\r\n\r\n");
        assert_eq!(bare.destination().unwrap(), (Host::parse("a.example").unwrap(), Some(443)));
        for text in [
            "GET http://evil.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "CONNECT evil.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
            "GET http://a.example:81/ HTTP/1.1\r\nHost: a.example:80\r\n\r\n",
        ] {
            assert_eq!(refused(text), Reason::HostMismatch, "{text}");
        }
        for text in
            ["GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n", "GET a HTTP/1.1\r\nHost: a\r\n\r\n"]
        {
            assert_eq!(refused(text), Reason::MalformedRequest, "{text}");
        }
    }

    #[test]
    fn tricks_are_refused() {
        for text in [
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\rHost: b\r\n\r\n",
            "GET /\r\n\r\n",
        ] {
            assert_eq!(refused(text), Reason::MalformedRequest, "{text:?}");
        }
        assert_eq!(refused("GET / HTTP/1.1\r\nA: b\r\n\r\n"), Reason::HostMissing);
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"), Reason::HostMissing);
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), Reason::HostMismatch);
        let long = format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(1 << 20));
        assert_eq!(parse(long.as_bytes()), Err(Reason::HeadTooLong));
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(MOST_FIELDS));
        assert_eq!(parse(many.as_bytes()), Err(Reason::HeadTooLong));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (begins(&bytes), parse(&bytes));
            let _ = parse(&[b"GET / HTTP/1.1\r\nHost: a\r\n", &bytes[..], b"\r\n\r\n"].concat());
        }

        // However a request is cut, what was undecided never becomes something else than the whole says.
        #[test]
        fn prefixes_agree(cut in 0usize..60) {
            let whole = b"PROPFIND /some/path HTTP/1.1\r\nHost: a.example\r\nX: y\r\n\r\n";
            let part = &whole[..cut.min(whole.len())];
            prop_assert!(begins(part).is_none_or(|begins| begins));
            prop_assert!(matches!(parse(part), Ok(None)) || part.len() == whole.len());
        }
    }
}
