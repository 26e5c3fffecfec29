//! Streams of any protocol, and what ends them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;

use stead_egress::journal::Decision;
use stead_egress::reason::Reason;

use crate::support::{ENVIRONMENT, World, connect, connect_to, exchange, is_root, policy, rest};

/// Answers each request head with its own first line, on one connection.
fn web(world: &World, port: u16) {
    world.server(port, |stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut stream, mut first, mut line) = (stream, String::new(), String::new());
        while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            if line == "\r\n" {
                let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{first}", first.len());
                first.clear();
            } else if first.is_empty() {
                first.clone_from(&line);
            }
            line.clear();
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_on_a_connection_must_name_its_host() {
    if !is_root() {
        return;
    }
    let world = World::new(policy(&["a.example"])).await;
    world.name("a.example", &[world.upstream.into()]);
    web(&world, 80);
    let request = |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let both = request("/one", "a.example") + &request("/two", "A.example:80");
    let reply = world
        .inside
        .run(move || {
            let mut stream = connect("a.example", 80);
            stream.write_all(both.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            rest(&mut stream)
        })
        .await;
    assert!(reply.contains("/one") && reply.contains("/two"), "{reply}");
    let fronting = request("/three", "a.example") + &request("/secret", "evil.example");
    let reply = world.inside.run(move || exchange(&mut connect("a.example", 80), &fronting)).await;
    assert!(!reply.contains("/secret"), "{reply}");
    world.refused("a.example", 80, Reason::HostMismatch).await;
    let absolute = "GET http://evil.example/secret HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let reply = world.inside.run(move || exchange(&mut connect("a.example", 80), absolute)).await;
    assert!(reply.starts_with("HTTP/1.1 403 Forbidden") && reply.contains("Stead-Egress: host_mismatch"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_may_speak_first_and_half_closed_streams_go_on() {
    if !is_root() {
        return;
    }
    let world = World::new(policy(&["a.example:2222"])).await;
    world.name("a.example", &[world.upstream.into()]);
    world.server(2222, |mut stream| {
        stream.write_all(b"SSH-2.0-server\r\n").unwrap();
        let said = rest(&mut stream);
        let _ = write!(stream, "{} bytes", said.len());
    });
    let reply = world
        .inside
        .run(|| {
            let mut stream = connect("a.example", 2222);
            let mut banner = [0; 16];
            stream.read_exact(&mut banner).unwrap();
            assert_eq!(&banner, b"SSH-2.0-server\r\n");
            stream.write_all(b"SSH-2.0-client\r\n").unwrap();
            // More than all buffers on the way.
            stream.write_all(&vec![7; 8 << 20]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            rest(&mut stream)
        })
        .await;
    assert_eq!(reply, format!("{} bytes", (8 << 20) + 16));
    // The late client is heard all the same.
    let hello = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let reply = world
        .inside
        .run(move || {
            let mut stream = connect("a.example", 2222);
            let mut banner = [0; 16];
            stream.read_exact(&mut banner).unwrap();
            exchange(&mut stream, hello)
        })
        .await;
    assert_eq!(reply, "");
    world.refused("a.example", 2222, Reason::HostMismatch).await;
}

fn echo(world: &World) {
    world.server(2222, |mut stream| {
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() {
            let _ = stream.write_all(&byte);
        }
    });
}

fn echoes(stream: &mut std::net::TcpStream) -> bool {
    let mut byte = [0];
    stream.write_all(b"\x01").is_ok() && stream.read_exact(&mut byte).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tighter_policy_closes_what_it_denies_and_nothing_else() {
    if !is_root() {
        return;
    }
    let mut world = World::new(policy(&["a.example:2222", "b.example:2222"])).await;
    world.name("a.example", &[world.upstream.into()]);
    world.name("b.example", &[world.upstream.into()]);
    echo(&world);
    let (mut a, mut b) = world.inside.run(|| (connect("a.example", 2222), connect("b.example", 2222))).await;
    assert!(echoes(&mut a) && echoes(&mut b));
    world.client.update(ENVIRONMENT, policy(&["b.example:2222"])).await.unwrap();
    assert_eq!(tokio::task::spawn_blocking(move || rest(&mut a)).await.unwrap(), "");
    assert!(echoes(&mut b));
    world.refused("a.example", 2222, Reason::PolicyChanged).await;
    // The operator takes the address back.
    let mut tighter = policy(&["b.example:2222"]);
    tighter.reachable.clear();
    world.client.update(ENVIRONMENT, tighter).await.unwrap();
    assert_eq!(tokio::task::spawn_blocking(move || rest(&mut b)).await.unwrap(), "");
    world.refused("b.example", 2222, Reason::PolicyChanged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_outlive_the_server_and_end_with_the_environment() {
    if !is_root() {
        return;
    }
    let mut world = World::new(policy(&["a.example:2222"])).await;
    world.name("a.example", &[world.upstream.into()]);
    echo(&world);
    let mut stream = world.inside.run(|| connect("a.example", 2222)).await;
    assert!(echoes(&mut stream));
    // A server that is started again finds everything as it was.
    world.client = stead_egress::control::Client::connect(&world.directory.path().join("relay")).await.unwrap();
    let listed = world.client.list().await.unwrap();
    assert_eq!((listed.len(), listed[0].environment.as_str(), listed[0].connections), (1, ENVIRONMENT, 1));
    assert_eq!(listed[0].policy, policy(&["a.example:2222"]));
    assert!(echoes(&mut stream));
    world.client.remove(ENVIRONMENT).await.unwrap();
    assert!(!echoes(&mut stream));
    let entries = world.journal(|entries| entries.iter().any(|entry| entry.decision == Decision::Closed)).await;
    assert_eq!(entries.last().unwrap().reason, Some(Reason::EnvironmentRemoved));
    assert!(world.inside.run(|| connect_to("198.18.0.1:2222".parse().unwrap())).await.is_err(), "the listeners are closed too");
    assert!(world.client.remove(ENVIRONMENT).await.is_err());
    // And again, as after a sleep.
    world.add(policy(&["a.example:2222"]), &[2222]).await;
    assert!(world.inside.run(|| echoes(&mut connect("a.example", 2222))).await);
    world.end().await;
    assert!(world.inside.run(|| connect_to("198.18.0.1:2222".parse().unwrap())).await.is_err(), "without a relay nothing gets out");
}
