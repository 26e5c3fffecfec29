//! Where the requests of a connection begin and end, watched beside whoever reads them.
//!
//! A request that tells its length in two ways is one request to whoever believes the first and two to whoever believes the second. hyper
//! believes `Transfer-Encoding` and takes `Content-Length` out before anybody sees it, so both are looked for in the bytes themselves. The
//! heads are read by the parser that hyper uses, so that both see the same; a connection that cannot be followed any further is taken for
//! one that lies.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use httparse::{EMPTY_HEADER, Status};
use stead_domain::{Code, Error};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// As many headers and bytes of a head as the sockets take.
const HEADERS: usize = 100;
const HEAD_BYTES: usize = 64 << 10;
const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Whether something came over a connection whose end can be seen in two ways. Nothing that comes after it is believed.
#[derive(Clone, Debug, Default)]
pub struct Framing(Arc<AtomicBool>);

impl Framing {
    /// Marks a request of a connection that lied about its lengths.
    pub fn mark<B>(&self, request: &mut Request<B>) {
        if self.0.load(Ordering::Relaxed) {
            request.extensions_mut().insert(Ambiguous);
        }
    }

    /// Has such a connection end with this response.
    pub fn close<B>(&self, response: &mut Response<B>) {
        if self.0.load(Ordering::Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Ambiguous;

/// Refuses what [`Framing`] has marked.
pub fn check<B>(request: &Request<B>) -> stead_domain::Result<()> {
    match request.extensions().get::<Ambiguous>() {
        Some(Ambiguous) => Err(Error::new(Code::BadRequest, "`Content-Length` and `Transfer-Encoding` contradict each other")
            .suggestion("send one of them, once, over a new connection")),
        None => Ok(()),
    }
}

/// A stream whose requests are watched while they are read.
pub struct Framed<T> {
    inner: T,
    watch: Watch,
    framing: Framing,
}

impl<T> Framed<T> {
    pub fn new(inner: T, framing: Framing) -> Self {
        Self { inner, watch: Watch::Head { held: Vec::new(), is_first: true }, framing }
    }

    pub fn into_inner(self) -> T {
        self.inner
    }
}

enum Watch {
    /// What has come of a head.
    Head { held: Vec<u8>, is_first: bool },
    /// So much of a body is still to come.
    Body(u64),
    /// The length of a piece, as far as it was read.
    Size { value: u64, digits: u32, is_over: bool },
    /// The rest of a piece, with the end of its line.
    Piece(u64),
    /// After the last piece; how much of a line was seen.
    Trailer(usize),
    /// No more is to be seen: HTTP/2, which frames everything once, or nothing that can be followed.
    Over,
}

/// What a head says of what comes after it, and whether it says it twice.
struct Told {
    next: Watch,
    twice: bool,
}

impl Watch {
    fn head() -> Self {
        Self::Head { held: Vec::new(), is_first: false }
    }

    fn size() -> Self {
        Self::Size { value: 0, digits: 0, is_over: false }
    }

    /// Follows what has come. True when something in it can be understood in two ways, or not at all.
    fn follow(&mut self, mut bytes: &[u8]) -> bool {
        let mut twice = false;
        while !bytes.is_empty() {
            match self {
                Self::Over => break,
                Self::Body(left) | Self::Piece(left) => {
                    let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    bytes = &bytes[taken..];
                    *left -= taken as u64;
                    if *left == 0 {
                        *self = if matches!(self, Self::Body(_)) { Self::head() } else { Self::size() };
                    }
                }
                Self::Head { held, is_first } => {
                    let before = held.len();
                    let taken = bytes.len().min(HEAD_BYTES + 1 - before);
                    held.extend_from_slice(&bytes[..taken]);
                    match head(held, *is_first) {
                        Ok(None) if held.len() <= HEAD_BYTES => bytes = &bytes[taken..],
                        Ok(Some((length, told))) => {
                            bytes = &bytes[length - before..];
                            twice |= told.twice;
                            *self = told.next;
                        }
                        Ok(None) | Err(()) => {
                            *self = Self::Over;
                            return true;
                        }
                    }
                }
                Self::Size { .. } | Self::Trailer(_) => {
                    let (byte, rest) = (bytes[0], &bytes[1..]);
                    bytes = rest;
                    match self.line_byte(byte) {
                        Some(next) => *self = next,
                        None => {
                            *self = Self::Over;
                            return true;
                        }
                    }
                }
            }
        }
        twice
    }

    /// A byte of a line between the pieces of a body; none when it makes no sense there.
    fn line_byte(&self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Size { digits: 0, .. }, b'\n') => None,
            (Self::Size { value: 0, .. }, b'\n') => Some(Self::Trailer(0)),
            (Self::Size { value, .. }, b'\n') => value.checked_add(2).map(Self::Piece),
            (Self::Size { value, digits, is_over: false }, byte) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16)?;
                let value = value.checked_mul(16)?.checked_add(u64::from(digit))?;
                Some(Self::Size { value, digits: digits.saturating_add(1), is_over: false })
            }
            (Self::Size { value, digits, .. }, _) => Some(Self::Size { value: *value, digits: *digits, is_over: true }),
            (Self::Trailer(0), b'\n') => Some(Self::head()),
            (Self::Trailer(_), b'\n') => Some(Self::Trailer(0)),
            (Self::Trailer(seen), b'\r') => Some(Self::Trailer(*seen)),
            (Self::Trailer(seen), _) => Some(Self::Trailer(seen.saturating_add(1))),
            _ => None,
        }
    }
}

/// How long the head is and what it says; none when more must come first.
fn head(held: &[u8], is_first: bool) -> Result<Option<(usize, Told)>, ()> {
    if is_first && HTTP_2.starts_with(&held[..held.len().min(HTTP_2.len())]) {
        return Ok((held.len() >= HTTP_2.len()).then_some((held.len(), Told { next: Watch::Over, twice: false })));
    }
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let Status::Complete(length) = request.parse(held).map_err(|_| ())? else { return Ok(None) };
    let named =
        |name: &'static str| request.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value);
    // Of several lengths hyper takes only those that are the same; others may take the first, or none.
    let (length_told, codings) = (named("content-length").next(), named("transfer-encoding").count());
    let twice = codings > 1 || (codings > 0 && length_told.is_some()) || named("content-length").count() > 1;
    // A line that ends without a carriage return is one line to some and two to others.
    let twice = twice || held[..length].iter().enumerate().any(|(at, byte)| *byte == b'\n' && (at == 0 || held[at - 1] != b'\r'));
    let next = match length_told {
        _ if codings > 0 => Watch::size(),
        None => Watch::head(),
        Some(length) => match std::str::from_utf8(length).ok().and_then(|text| text.trim().parse().ok()).ok_or(())? {
            0 => Watch::head(),
            left => Watch::Body(left),
        },
    };
    Ok(Some((length, Told { next, twice })))
}

impl<T: AsyncRead + Unpin> AsyncRead for Framed<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(context, buffer);
        if self.watch.follow(&buffer.filled()[before..]) {
            self.framing.0.store(true, Ordering::Relaxed);
        }
        outcome
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Framed<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a connection lies, however its bytes are cut.
    fn lies(sent: &str) -> bool {
        let whole = Watch::Head { held: Vec::new(), is_first: true }.follow(sent.as_bytes());
        for size in [1, 2, 3, 7, 64] {
            let mut watch = Watch::Head { held: Vec::new(), is_first: true };
            let cut = sent.as_bytes().chunks(size).any(|piece| watch.follow(piece));
            assert_eq!(cut, whole, "in pieces of {size}: {sent:?}");
        }
        whole
    }

    const PLAIN: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    const SIZED: &str = "POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\nhello\r\n\r\nGE";
    const PIECES: &str = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5;a=\"\r\nhello\r\n00\r\nX: Content-Length: 1\r\n\r\n";
    const BOTH: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n";

    #[test]
    fn two_lengths_are_seen_wherever_they_come_and_nothing_else_is() {
        let honest = [PLAIN, SIZED, PIECES];
        for first in honest {
            for second in honest {
                let sent = format!("{first}{second}{first}");
                assert!(!lies(&sent), "{sent}");
                assert!(lies(&format!("{sent}{BOTH}")), "{sent}");
            }
        }
        assert!(lies("POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"), "the other way around");
        assert!(lies("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"));
        assert!(lies("POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), "the same one twice");
        assert!(lies("GET / HTTP/1.1\r\nA: b\nTransfer-Encoding: chunked\r\n\r\n"), "a line that ends with half an end");
        // A body may hold anything.
        let inner = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{BOTH}{PLAIN}", BOTH.len());
        assert!(!lies(&inner));
        assert!(!lies(&format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{BOTH}\r\n0\r\n\r\n{PLAIN}", BOTH.len())));
    }

    #[test]
    fn what_cannot_be_followed_is_a_lie_and_another_version_is_left_alone() {
        assert!(!lies("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\u{12}\u{4}anything at all"));
        assert!(lies(&format!("{PLAIN}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")), "only at the beginning");
        assert!(lies("GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n"), "a header over two lines");
        assert!(lies("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"));
        assert!(lies("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"));
        assert!(lies("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\r\n"));
        assert!(lies(&format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(HEAD_BYTES))));
    }
}
