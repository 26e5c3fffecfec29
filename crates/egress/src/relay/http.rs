//! Plain HTTP/1 on its way out: every request of a connection is checked, not only the first.

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;

use super::stream::{Inbound, Interrupted, Outbound, pass, pump};
use crate::reason::Reason;
use crate::sniff::http::{self, Body, Head};

/// A line of a chunked body: a size with its extensions, or a trailer.
const LONGEST_LINE: usize = 8 * 1024;

/// Requests one after the other, until the client ends or another protocol begins.
///
/// `switched` tells whether the first reply was "101": then the rest is no HTTP any more.
pub async fn requests<R, W>(
    inbound: &mut Inbound<R>,
    outbound: &mut Outbound<'_, W>,
    check: impl Fn(&Head) -> Result<(), Reason>,
    switched: oneshot::Receiver<bool>,
) -> Result<(), Interrupted>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    // A reply can only be matched to a request while it is the first; programs that want a WebSocket open a connection for it.
    let mut first = Some(switched);
    while let Some(head) = next_head(inbound).await? {
        check(&head)?;
        outbound.write(&inbound.buffer[..head.length]).await?;
        inbound.buffer.advance(head.length);
        body(inbound, outbound, head.body).await?;
        if let Some(switched) = first.take()
            && head.upgrade
            && switched.await.unwrap_or(false)
        {
            return pump(inbound, outbound).await;
        }
    }
    outbound.writer.shutdown().await?;
    Ok(())
}

/// `None` at the end of the stream.
pub async fn next_head<R: AsyncRead + Unpin>(inbound: &mut Inbound<R>) -> Result<Option<Head>, Interrupted> {
    loop {
        if let Some(head) = http::parse(&inbound.buffer)? {
            return Ok(Some(head));
        }
        if !inbound.fill().await? {
            let nothing = inbound.buffer.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
            return if nothing { Ok(None) } else { Err(Interrupted::Broken) };
        }
    }
}

pub async fn body<R, W>(inbound: &mut Inbound<R>, outbound: &mut Outbound<'_, W>, body: Body) -> Result<(), Interrupted>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    match body {
        Body::None => return Ok(()),
        Body::Length(length) => return pass(inbound, outbound, length).await,
        Body::Chunked => {}
    }
    loop {
        let length = line(inbound).await?;
        let size = chunk_size(&inbound.buffer[..length - 2])?;
        pass(inbound, outbound, length as u64).await?;
        if size == 0 {
            break;
        }
        pass(inbound, outbound, size).await?;
        if line(inbound).await? != 2 {
            return Err(Reason::MalformedRequest.into());
        }
        pass(inbound, outbound, 2).await?;
    }
    loop {
        let length = line(inbound).await?;
        pass(inbound, outbound, length as u64).await?;
        if length == 2 {
            return Ok(());
        }
    }
}

/// The length of the next line, with its CRLF.
async fn line<R: AsyncRead + Unpin>(inbound: &mut Inbound<R>) -> Result<usize, Interrupted> {
    loop {
        if let Some(at) = inbound.buffer.iter().take(LONGEST_LINE).position(|&byte| byte == b'\n') {
            let whole =
                at > 0 && inbound.buffer[at - 1] == b'\r' && !inbound.buffer[..at - 1].iter().any(|&byte| matches!(byte, b'\r' | 0));
            return if whole { Ok(at + 1) } else { Err(Reason::MalformedRequest.into()) };
        }
        if inbound.buffer.len() >= LONGEST_LINE {
            return Err(Reason::MalformedRequest.into());
        }
        if !inbound.fill().await? {
            return Err(Interrupted::Broken);
        }
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, Reason> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if !(1..=15).contains(&digits) || !matches!(line.get(digits), None | Some(b';')) {
        return Err(Reason::MalformedRequest);
    }
    str::from_utf8(&line[..digits]).ok().and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(Reason::MalformedRequest)
}

/// Replies, unchanged; tells what the first of them was.
pub async fn replies<R, W>(
    inbound: &mut Inbound<R>,
    outbound: &mut Outbound<'_, W>,
    switched: oneshot::Sender<bool>,
) -> Result<(), Interrupted>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut seen = 0;
    let decided = loop {
        if let Some(decided) = is_switch(&inbound.buffer) {
            break decided;
        }
        if inbound.buffer.len() > http::LONGEST_HEAD || !inbound.fill().await? {
            break false;
        }
        // What was looked at goes on at once, and stays for the next look.
        outbound.write(&inbound.buffer[seen..]).await?;
        seen = inbound.buffer.len();
    };
    outbound.write(&inbound.buffer[seen..]).await?;
    inbound.buffer.clear();
    let _ = switched.send(decided);
    pump(inbound, outbound).await
}

/// Whether the final status is "101"; `None` while it is not there yet.
fn is_switch(mut bytes: &[u8]) -> Option<bool> {
    loop {
        let status = bytes.get(..12)?;
        if !status.starts_with(b"HTTP/1.") {
            return Some(false);
        }
        match &status[9..] {
            b"101" => return Some(true),
            [b'1', ..] => bytes = &bytes[bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4..],
            _ => return Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    async fn forwarded(input: &str, switched: bool) -> (Result<(), Interrupted>, String) {
        let counter = AtomicU64::new(0);
        let mut inbound = Inbound::new(input.as_bytes());
        let mut outbound = Outbound { writer: Vec::new(), counter: &counter };
        let (sender, receiver) = oneshot::channel();
        sender.send(switched).unwrap();
        let check = |head: &Head| if head.authority.as_deref() == Some("a.example") { Ok(()) } else { Err(Reason::HostMismatch) };
        let outcome = requests(&mut inbound, &mut outbound, check, receiver).await;
        assert_eq!(counter.load(Ordering::Relaxed), outbound.writer.len() as u64);
        (outcome, String::from_utf8(outbound.writer).unwrap())
    }

    const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    const EVIL: &str = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";

    #[tokio::test]
    async fn every_request_is_checked() {
        let post = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 38\r\n\r\n".to_owned() + EVIL;
        let chunked = "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n26;x=y\r\n".to_owned()
            + EVIL
            + "\r\n0\r\nT: x\r\n\r\n";
        let fine = format!("{GET}{post}{chunked}{GET}");
        let (outcome, sent) = forwarded(&fine, false).await;
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(sent, fine, "a body may hold anything");
        for start in [GET, &post, &chunked] {
            let (outcome, sent) = forwarded(&format!("{start}{EVIL}"), false).await;
            assert!(matches!(outcome, Err(Interrupted::Refused(Reason::HostMismatch))), "{outcome:?}");
            assert_eq!(sent, start, "nothing of the second request leaves");
        }
    }

    #[tokio::test]
    async fn another_protocol_begins_only_when_the_server_agrees() {
        let upgrade = "GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\n\r\n";
        let (outcome, sent) = forwarded(&format!("{upgrade}\u{1}frames"), true).await;
        assert!(outcome.is_ok());
        assert!(sent.ends_with("\u{1}frames"));
        let (outcome, _) = forwarded(&format!("{upgrade}{EVIL}"), false).await;
        assert!(matches!(outcome, Err(Interrupted::Refused(Reason::HostMismatch))));
        let (outcome, _) = forwarded(&format!("{GET}{upgrade}{EVIL}"), true).await;
        assert!(matches!(outcome, Err(Interrupted::Refused(Reason::HostMismatch))), "not after an earlier request");
    }

    #[tokio::test]
    async fn doubtful_chunks_are_refused() {
        for chunks in [
            "x\r\n",
            "+5\r\nhello\r\n",
            "5 \r\nhello\r\n",
            "5\nhello\r\n",
            "1\r\nab\r\n",
            "ffffffffffffffff\r\n",
            "\r\n",
            "5\r\r\nhello\r\n",
        ] {
            let (outcome, _) =
                forwarded(&format!("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"), false).await;
            assert!(matches!(outcome, Err(Interrupted::Refused(Reason::MalformedRequest))), "{chunks:?}: {outcome:?}");
        }
    }

    #[test]
    fn statuses() {
        assert_eq!(is_switch(b"HTTP/1.1 10"), None);
        assert_eq!(is_switch(b"HTTP/1.1 101 Switching"), Some(true));
        assert_eq!(is_switch(b"HTTP/1.1 200 OK"), Some(false));
        assert_eq!(is_switch(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101"), Some(true));
        assert_eq!(is_switch(b"HTTP/1.1 100 Continue\r\n"), None);
        assert_eq!(is_switch(b"garbage garbage"), Some(false));
    }
}
