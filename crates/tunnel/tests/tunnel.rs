//! Real sockets, joined.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests fail loudly")]

use std::time::Duration;

use bytes::Bytes;
use stead_tunnel::{End, join};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinHandle;

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

fn joined(left: impl Into<End>, early: &'static [u8], right: impl Into<End>) -> JoinHandle<std::io::Result<()>> {
    let (left, right) = (left.into(), right.into());
    tokio::spawn(async move { join((left, Bytes::from_static(early)), (right, Bytes::new())).await })
}

fn noise(length: usize, seed: u32) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect()
}

/// Sends a lot both ways at once, ends one direction first, and hears the rest of the other.
async fn carries(mut client: impl stead_tunnel::Stream, inner: TcpStream, early: &[u8]) {
    let (up, down) = (noise(5_000_000, 1), noise(7_000_000, 2));
    let (expected, answer) = ([early, &up].concat(), down.clone());
    let served = tokio::spawn(async move {
        let mut inner = inner;
        let (mut reader, mut writer) = inner.split();
        let mut got = Vec::new();
        let half = answer.len() / 2;
        let (heard, said) = tokio::join!(reader.read_to_end(&mut got), writer.write_all(&answer[..half]));
        heard.unwrap();
        said.unwrap();
        // Only now, after the other side has ended its half.
        writer.write_all(&answer[half..]).await.unwrap();
        writer.shutdown().await.unwrap();
        assert!(got == expected);
    });
    let mut got = Vec::new();
    let (mut reader, mut writer) = tokio::io::split(&mut client);
    let sends = async {
        writer.write_all(&up).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let (_, heard) = tokio::join!(sends, reader.read_to_end(&mut got));
    heard.unwrap();
    assert!(got == down);
    served.await.unwrap();
}

#[tokio::test]
async fn bytes_and_ends_go_through_both_ways_whatever_is_joined() {
    let ((client, left), (right, inner)) = (connected().await, connected().await);
    let tunnel = joined(left, b"early", right);
    carries(client, inner, b"early").await;
    tunnel.await.unwrap().unwrap();

    let ((client, left), (right, inner)) = (UnixStream::pair().unwrap(), connected().await);
    let tunnel = joined(left, b"", right);
    carries(client, inner, b"").await;
    tunnel.await.unwrap().unwrap();

    let ((client, left), (right, inner)) = (tokio::io::duplex(10_000), connected().await);
    let tunnel = joined(End::Other(Box::new(left)), b"early", right);
    carries(client, inner, b"early").await;
    tunnel.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_end_that_is_gone_ends_the_other() {
    // A client that closes altogether, while what it spoke to says nothing and never ends by itself.
    let ((client, left), (right, mut inner)) = (UnixStream::pair().unwrap(), connected().await);
    let tunnel = joined(left, b"", right);
    drop(client);
    assert!(tunnel.await.unwrap().is_err());
    assert_eq!(inner.read(&mut [0]).await.unwrap_or(0), 0);

    // One that is reset.
    let ((client, left), (right, mut inner)) = (connected().await, connected().await);
    let tunnel = joined(left, b"", right);
    client.set_zero_linger().unwrap();
    drop(client);
    assert!(tunnel.await.unwrap().is_err());
    assert_eq!(inner.read(&mut [0]).await.unwrap_or(0), 0);

    // Something inside that is killed.
    let ((mut client, left), (right, inner)) = (connected().await, connected().await);
    let tunnel = joined(left, b"", right);
    inner.set_zero_linger().unwrap();
    drop(inner);
    assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(tunnel.await.unwrap().is_err());
}

#[tokio::test]
async fn who_takes_nothing_holds_up_who_sends() {
    let ((mut client, left), (right, mut inner)) = (connected().await, connected().await);
    let _tunnel = joined(left, b"", right);
    // Nobody reads inside: what fits into the sockets and the pipe is taken, and no more.
    let piece = noise(1 << 20, 3);
    let mut taken = 0;
    while tokio::time::timeout(Duration::from_millis(500), client.write_all(&piece)).await.is_ok() {
        taken += piece.len();
        assert!(taken < 200 << 20, "it is kept somewhere");
    }
    let mut got = vec![0; taken];
    inner.read_exact(&mut got).await.unwrap();
    assert!(got[..piece.len()] == piece);
}
