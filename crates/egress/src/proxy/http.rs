//! `CONNECT host:port`, and `GET http://host/…`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;

use crate::broker::{self, Requests};
use crate::environment::Environment;
use crate::reason::Reason;
use crate::relay::http::{body, next_head};
use crate::relay::stream::{Inbound, Interrupted, Outbound, Stream, pump};
use crate::relay::{carry, carry_with, open, refusal_page};
use crate::sniff::http::{Head, authority_end};
use crate::sniff::{Expected, Protocol};

type Reader = Inbound<ReadHalf<Box<dyn Stream>>>;
type Writer = WriteHalf<Box<dyn Stream>>;

pub async fn serve(environment: &Arc<Environment>, mut inbound: Reader, mut writer: Writer) {
    let head = match environment.beginning(next_head(&mut inbound)).await {
        Ok(Some(head)) => head,
        Ok(None) | Err(Interrupted::Broken | Interrupted::Ended(_)) => return,
        Err(Interrupted::Refused(reason)) => return refuse(environment, &mut writer, None, reason).await,
    };
    let expected = match destination(environment, &head) {
        Ok(expected) => expected,
        Err(reason) => return refuse(environment, &mut writer, None, reason).await,
    };
    let (upstream, address) = match open(environment, &expected).await {
        Ok(opened) => opened,
        Err(reason) => return refuse(environment, &mut writer, Some(&expected), reason).await,
    };
    if head.method == "CONNECT" {
        inbound.buffer.advance(head.length);
        if writer.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
            carry(environment, expected, (inbound, writer), upstream, address, None).await;
        }
        return;
    }
    if environment.is_brokered(&expected) {
        let opened = broker::Opened { stream: upstream, address };
        return broker::carry(environment, expected, (inbound, writer), opened, Requests::One).await;
    }
    let Ok(rewritten) = rewrite(&inbound.buffer[..head.length]) else {
        return refuse(environment, &mut writer, Some(&expected), Reason::MalformedRequest).await;
    };
    inbound.buffer.advance(head.length);
    // One request for one connection: the next one may be for another host.
    carry_with(environment, &expected, address, Protocol::Http, async |meter| {
        let (reader, upstream_writer) = upstream.into_split();
        let mut outbound = Outbound { writer: upstream_writer, counter: &meter.up };
        let mut back = (Inbound::new(reader), Outbound { writer, counter: &meter.down });
        let upward = async {
            outbound.write(&rewritten).await?;
            body(&mut inbound, &mut outbound, head.body).await
        };
        tokio::try_join!(upward, pump(&mut back.0, &mut back.1)).map(drop)
    })
    .await;
}

fn destination(environment: &Environment, head: &Head) -> Result<Expected, Reason> {
    if head.target.starts_with('/') || head.target == "*" {
        return Err(Reason::UnknownProxyRequest);
    }
    let (host, port) = head.destination()?;
    super::expected(environment, host, port.ok_or(Reason::UnknownProxyRequest)?)
}

/// The request as its server wants it: only the path, nothing that was meant for a proxy, and the connection ends with the reply.
fn rewrite(head: &[u8]) -> Result<Vec<u8>, Reason> {
    let text = str::from_utf8(head).map_err(|_| Reason::MalformedRequest)?;
    let mut lines = text.trim_start_matches("\r\n").split("\r\n").take_while(|line| !line.is_empty());
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Err(Reason::MalformedRequest);
    };
    let (_, rest) = target.split_once("://").ok_or(Reason::MalformedRequest)?;
    let path = match &rest[authority_end(rest)..] {
        path if path.starts_with('/') => path.to_owned(),
        path if path.is_empty() || path.starts_with('?') => format!("/{path}"),
        _ => return Err(Reason::MalformedRequest),
    };
    let mut rewritten = format!("{method} {path} {version}\r\n");
    for line in lines {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if !matches!(name.as_str(), "connection" | "proxy-connection" | "keep-alive" | "proxy-authorization" | "upgrade") {
            rewritten.push_str(line);
            rewritten.push_str("\r\n");
        }
    }
    rewritten.push_str("Connection: close\r\n\r\n");
    Ok(rewritten.into_bytes())
}

async fn refuse(environment: &Environment, writer: &mut Writer, expected: Option<&Expected>, reason: Reason) {
    let _ = timeout(Duration::from_secs(1), async {
        let _ = writer.write_all(&refusal_page(reason)).await;
        let _ = writer.shutdown().await;
    })
    .await;
    match expected {
        Some(expected) => environment.refuse(&expected.host, expected.port, Protocol::Http, reason).await,
        None => environment.refuse("proxy", 0, Protocol::Http, reason).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_rewritten_for_their_server() {
        let head = b"GET http://a.example:8080?x=1 HTTP/1.1\r\nHost: a.example:8080\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive\r\nProxy-Authorization: Basic x\r\nAccept: */*\r\n\r\n";
        let expected = "GET /?x=1 HTTP/1.1\r\nHost: a.example:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(rewrite(head).unwrap()).unwrap(), expected);
        assert!(rewrite(b"GET http://a.example\\@b/ HTTP/1.1\r\nHost: a.example\r\n\r\n").is_err());
    }
}
