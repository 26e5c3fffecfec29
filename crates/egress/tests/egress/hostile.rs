//! Floods, long heads and slow beginnings are bounded, and say what they are.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use stead_egress::limits::Limits;
use stead_egress::reason::Reason;

use crate::support::{PROXY, World, ask, connect, connect_to, is_root, policy, rest};

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded_and_come_back() {
    if !is_root() {
        return;
    }
    let limits = Limits { connections: 40, ..Limits::default() };
    let world = World::with_limits(policy(&["a.example"]), limits).await;
    world.name("a.example", &[world.upstream.into()]);
    world.server(80, |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    });
    let streams: Vec<TcpStream> = world
        .inside
        .run(|| {
            let address = ask("a.example", 1).1.unwrap();
            (0..400).map(|_| connect_to((address, 80).into()).unwrap()).collect()
        })
        .await;
    let entries = world.journal(|entries| entries.iter().any(|entry| entry.reason == Some(Reason::TooManyConnections))).await;
    assert!(entries.len() < 20, "a flood does not flood the journal: {}", entries.len());
    let dropped = tokio::task::spawn_blocking(move || drop(streams));
    dropped.await.unwrap();
    let reply = async || {
        world
            .inside
            .run(|| {
                let mut stream = connect("a.example", 80);
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
                rest(&mut stream)
            })
            .await
    };
    for _ in 0..100 {
        if reply().await.starts_with("HTTP/1.1 204") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the places of closed connections are not free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_endless_beginnings_are_cut() {
    if !is_root() {
        return;
    }
    let limits = Limits { beginning: Duration::from_millis(300), ..Limits::default() };
    let world = World::with_limits(policy(&["a.example"]), limits).await;
    let send = async |proxy: bool, text: String| {
        world
            .inside
            .run(move || {
                let mut stream = if proxy { connect_to(([127, 0, 0, 1], PROXY).into()).unwrap() } else { connect("a.example", 80) };
                let _ = stream.write_all(text.as_bytes());
                rest(&mut stream)
            })
            .await
    };
    for proxy in [false, true] {
        let reply = send(proxy, "GET / HTTP/1.1\r\nHost: a.ex".to_owned()).await;
        assert!(reply.starts_with("HTTP/1.1 408"), "{reply}");
        let _ = send(proxy, format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(1 << 20))).await;
    }
    assert_eq!(send(false, "\u{16}\u{3}\u{1}".to_owned()).await.len(), 7, "an alert");
    assert_eq!(send(false, String::new()).await, "");
    world.refused("a.example", 80, Reason::SlowStart).await;
    world.refused("a.example", 80, Reason::HeadTooLong).await;
    world.refused("proxy", 0, Reason::SlowStart).await;
    world.refused("proxy", 0, Reason::HeadTooLong).await;
}
