//! Output as it comes.

use std::time::{Duration, Instant};

use stead_client::{Heard, Request};
use stead_domain::principal::Role;
use stead_domain::process::OutputStream;
use tokio::task::JoinSet;

use crate::house::House;

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_hears_every_byte_once_also_when_the_server_comes_back() {
    let mut house = House::open().await;
    let (client, environment) = (house.client(), house.environment().await);
    let id = house.run(environment, &["sleep"]).await;
    let mut follow = client.follow_logs(environment, id, 0, None);
    house.place().print(id, OutputStream::Stdout, "größe".as_bytes());
    let first = follow.next().await.unwrap().unwrap();
    assert_eq!(first, Heard::Output { stream: OutputStream::Stdout, offset: 0, bytes: "größe".as_bytes().into() });
    house.place().leave_gap(id, 10);
    house.place().print(id, OutputStream::Stderr, &[0xff]);
    assert_eq!(follow.next().await.unwrap(), Some(Heard::Gap { from: 7, to: 17 }));
    assert_eq!(follow.next().await.unwrap(), Some(Heard::Output { stream: OutputStream::Stderr, offset: 17, bytes: vec![0xff].into() }));

    let begun = Instant::now();
    house.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "a server that ends does not wait for who follows");
    house.place().print(id, OutputStream::Stdout, b"meanwhile");
    house.place().exit(id, 3);
    house.start().await;
    assert_eq!(
        follow.next().await.unwrap(),
        Some(Heard::Output { stream: OutputStream::Stdout, offset: 18, bytes: b"meanwhile"[..].into() })
    );
    assert!(matches!(follow.next().await.unwrap(), Some(Heard::Exit(exit)) if exit.code == Some(3)));
    assert_eq!((follow.next().await.unwrap(), follow.offset()), (None, 27));
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_themselves_can_be_followed_and_events_resumed() {
    let mut house = House::open().await;
    let (client, environment) = (house.client(), house.environment().await);
    let id = house.run(environment, &["sleep"]).await;
    let path = client.project_path(&format!("/environments/{environment}/processes/{id}/logs"));
    let follow = client.request(Request::get(format!("{path}?follow=true")));
    let printing = async {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(30)).await;
            house.place().print(id, OutputStream::Stdout, b"tick ");
        }
        house.place().exit(id, 0);
    };
    let (reply, ()) = tokio::join!(follow, printing);
    assert_eq!(&reply.unwrap().body[..], b"tick tick tick tick tick ");

    let events = Request::get(format!("{path}?follow=true")).header("accept", "text/event-stream").unwrap();
    let reply = client.request(events.clone().header("last-event-id", "20").unwrap()).await.unwrap();
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    let expected = "id: 25\nevent: output\ndata: {\"stream\":\"stdout\",\"offset\":20,\"data\":\"tick \",\"encoding\":\"utf-8\"}\n\nid: 25\nevent: exit\ndata: {";
    assert!(text.starts_with(expected), "{text}");
    assert!(client.request(events.header("last-event-id", "x").unwrap()).await.is_err());
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_members_who_follow_can_make_a_process_wait() {
    let mut house = House::open().await;
    let (client, environment) = (house.client(), house.environment().await);
    let id = house.run(environment, &["print", "words"]).await;
    let path = client.project_path(&format!("/environments/{environment}/processes/{id}/logs"));
    let ask = async |key: &str, query: &str| house.client_as(Some(key)).send(Request::get(format!("{path}?{query}"))).await.unwrap();
    let (viewer, member) = (house.key(Role::Viewer).await, house.key(Role::Member).await);
    assert_eq!(ask(&viewer, "follow=true&hold=true").await.status, 403);
    assert_eq!(&ask(&viewer, "follow=true").await.body[..], b"words");
    assert_eq!(&ask(&member, "follow=true&hold=true").await.body[..], b"words");
    assert_eq!(ask(&member, "hold=true").await.status, 400);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_is_let_go_when_the_server_ends() {
    let mut house = House::open().await;
    let (client, environment) = (house.client(), house.environment().await);
    let id = house.run(environment, &["sleep"]).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { client.wait_for_process(environment, id, Duration::from_secs(60)).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    house.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(tasks.join_next().await.unwrap().unwrap().unwrap().exit.is_none());
}
