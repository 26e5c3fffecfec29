//! What changes while connections are open.

use std::io::{Read, Write};

use stead_egress::broker::{BrokeredText, Value};
use stead_egress::control::{Client, ClientError, LAST, PROTOCOL};
use stead_egress::journal::Decision;
use stead_egress::reason::Reason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::hosts::{Hosts, STANDS, VALUE, bound, own_roots, seal, text};
use crate::support::{ENVIRONMENT, connect, is_root, policy, rest};

fn get() -> String {
    format!("GET / HTTP/1.1\r\nHost: api.example\r\nAuthorization: Bearer {STANDS}\r\n\r\n")
}

/// Reads one reply, whose length is told.
fn reply(stream: &mut impl Read) -> String {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
    }
    let head = String::from_utf8(text).unwrap();
    let length = head.to_lowercase().split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn new_values_are_used_at_once_and_what_is_taken_back_is_closed() {
    if !is_root() {
        return;
    }
    let mut hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = hosts.echo("api.example", 443);
    let mut stream = hosts
        .world
        .inside
        .run(|| {
            let mut stream = seal(connect("api.example", 443), "api.example", &own_roots());
            stream.write_all(get().as_bytes()).unwrap();
            reply(&mut stream);
            stream
        })
        .await;
    assert!(seen.lock().unwrap()[0].contains(VALUE));
    let rotated = BrokeredText { value: Value::new(b"another-value-now".to_vec()), ..bound(&["api.example"]) };
    hosts.world.client.broker(ENVIRONMENT, text(vec![rotated])).await.unwrap();
    let (mut stream, answer) = hosts
        .world
        .inside
        .run(move || {
            stream.write_all(get().replace("GET / ", &format!("GET /{VALUE} ")).as_bytes()).unwrap();
            let answer = reply(&mut stream);
            (stream, answer)
        })
        .await;
    assert!(seen.lock().unwrap()[1].contains("another-value-now"));
    assert!(!answer.contains(VALUE) && !answer.contains("another-value-now"), "the value of before is known too: {answer}");
    hosts.world.client.broker(ENVIRONMENT, text(vec![])).await.unwrap();
    let left = hosts.world.inside.run(move || rest(&mut stream)).await;
    assert_eq!(left, "");
    let closed = |entry: &stead_egress::journal::Entry| entry.decision == Decision::Closed && entry.reason == Some(Reason::BrokerChanged);
    hosts.world.journal(|entries| entries.iter().any(closed)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_policy_no_longer_allows_is_closed() {
    if !is_root() {
        return;
    }
    let mut hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    hosts.echo("api.example", 443);
    let mut stream = hosts
        .world
        .inside
        .run(|| {
            let mut stream = seal(connect("api.example", 443), "api.example", &own_roots());
            stream.write_all(get().as_bytes()).unwrap();
            reply(&mut stream);
            stream
        })
        .await;
    hosts.world.client.update(ENVIRONMENT, policy(&["other.example"])).await.unwrap();
    assert_eq!(hosts.world.inside.run(move || rest(&mut stream)).await, "");
    let closed = |entry: &stead_egress::journal::Entry| entry.decision == Decision::Closed && entry.reason == Some(Reason::PolicyChanged);
    hosts.world.journal(|entries| entries.iter().any(closed)).await;
}

/// A relay of the version before this one, which goes on for as long as an environment needs it.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_relay_says_that_it_cannot() {
    let directory = tempfile::tempdir().unwrap();
    let listener = tokio::net::UnixListener::bind(directory.path().join("relay.sock")).unwrap();
    let old = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        loop {
            let Ok(length) = stream.read_u32().await else { return };
            let mut body = vec![0; length as usize];
            stream.read_exact(&mut body).await.unwrap();
            let request: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_ne!(request["request"], "broker", "it is not even asked");
            let reply = if request["protocol"] == LAST {
                serde_json::json!({"reply": "hello", "protocol": LAST, "version": "0.1.0", "pid": 1})
            } else {
                serde_json::json!({"reply": "failed", "code": "protocol", "message": "the relay speaks protocol 1, not 2"})
            };
            let reply = reply.to_string();
            stream.write_u32(reply.len() as u32).await.unwrap();
            stream.write_all(reply.as_bytes()).await.unwrap();
        }
    };
    let asked = async {
        let mut client = Client::connect(directory.path()).await.unwrap();
        let refused = client.broker(ENVIRONMENT, text(vec![bound(&["api.example"])])).await;
        assert!(matches!(refused, Err(ClientError::TooOld)), "{refused:?}");
    };
    tokio::join!(old, asked);
    assert_eq!(PROTOCOL, LAST + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_brokered_changes_nothing() {
    if !is_root() {
        return;
    }
    let mut hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = hosts.echo("api.example", 443);
    let bad = BrokeredText { hosts: vec!["*".to_owned()], ..bound(&[]) };
    let refused = hosts.world.client.broker(ENVIRONMENT, text(vec![bad])).await.unwrap_err();
    assert!(matches!(&refused, ClientError::Refused { message, .. } if message.contains("TOKEN") && !message.contains(VALUE)), "{refused}");
    hosts.ask("api.example", 443, get().replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")).await;
    assert!(seen.lock().unwrap()[0].contains(VALUE));
}
