//! Programs that use a proxy, with the same decisions.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use stead_egress::reason::Reason;

use crate::support::{PROXY, World, connect_to, exchange, is_root, policy, rest};

fn proxy() -> TcpStream {
    connect_to(([127, 0, 0, 1], PROXY).into()).unwrap()
}

/// Sends back what it was asked, and closes.
fn mirror(world: &World, port: u16) {
    world.server(port, |mut stream| {
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
            request.push(byte[0]);
        }
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", request.len());
        let _ = stream.write_all(&request);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_and_absolute_form() {
    if !is_root() {
        return;
    }
    let world = World::new(policy(&["a.example"])).await;
    world.name("a.example", &[world.upstream.into()]);
    world.name("evil.example", &[world.upstream.into()]);
    mirror(&world, 80);
    let ask = async |text: &'static str| world.inside.run(move || exchange(&mut proxy(), text)).await;
    let reply = ask("GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\nProxy-Authorization: Basic x\r\n\r\n").await;
    assert!(reply.ends_with("GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"), "{reply}");
    let reply = ask("CONNECT a.example:80 HTTP/1.0\r\n\r\nGET /y HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert!(reply.starts_with("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK") && reply.contains("GET /y"), "{reply}");
    for (text, code) in [
        ("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403 Forbidden"),
        ("GET http://evil.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "403 Forbidden"),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", "403 Forbidden"),
        ("CONNECT a.example:22 HTTP/1.1\r\nHost: a.example:22\r\n\r\n", "403 Forbidden"),
        ("CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 169.254.169.254:80\r\n\r\n", "403 Forbidden"),
        ("CONNECT 2852039166:80 HTTP/1.1\r\nHost: 2852039166:80\r\n\r\n", "403 Forbidden"),
        ("CONNECT a.example:80@evil.example:80 HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("CONNECT a.example:80\r\nHost: evil HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n", "400 Bad Request"),
        ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "400 Bad Request"),
        ("GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "400 Bad Request"),
    ] {
        let reply = ask(text).await;
        assert!(reply.starts_with(&format!("HTTP/1.1 {code}")), "{text:?}: {reply}");
    }
    // Through the tunnel, another host.
    let reply = ask("CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\nGET /secret HTTP/1.1\r\nHost: evil.example\r\n\r\n").await;
    assert!(!reply.contains("/secret"), "{reply}");
    world.refused("a.example", 80, Reason::HostMismatch).await;
    world.refused("evil.example", 443, Reason::NotListed).await;
    assert_eq!(world.resolver.asked.load(std::sync::atomic::Ordering::SeqCst), 3, "only what is listed was looked up");
}

#[tokio::test(flavor = "multi_thread")]
async fn socks() {
    if !is_root() {
        return;
    }
    let world = World::new(policy(&["a.example"])).await;
    world.name("a.example", &[world.upstream.into()]);
    mirror(&world, 80);
    let request = |name: &str, port: u16| [&[5, 1, 0, 5, 1, 0, 3, name.len() as u8][..], name.as_bytes(), &port.to_be_bytes()].concat();
    let tunnel = [request("A.example", 80), b"GET /z HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec()].concat();
    let talk = async |bytes: Vec<u8>| {
        world
            .inside
            .run(move || {
                let mut stream = proxy();
                stream.write_all(&bytes).unwrap();
                rest(&mut stream)
            })
            .await
    };
    let reply = talk(tunnel).await;
    assert!(reply.starts_with("\u{5}\0\u{5}\0") && reply.contains("GET /z"), "{reply:?}");
    for (bytes, code) in [
        (request("evil.example", 80), 2),
        (request("a.example", 22), 2),
        (request("127.0.0.1", 80), 2),
        (vec![5, 1, 0, 5, 1, 0, 1, 10, 0, 0, 1, 0, 80], 2),
        (vec![5, 1, 0, 5, 2, 0, 1, 10, 0, 0, 1, 0, 80], 7),
    ] {
        let reply = talk(bytes.clone()).await;
        assert_eq!(reply.as_bytes()[..4], [5, 0, 5, code], "{bytes:?}");
    }
    assert_eq!(talk(vec![5, 1, 2]).await.as_bytes()[..1], [5], "a user is not known here");
}

#[tokio::test(flavor = "multi_thread")]
async fn curl() {
    if !is_root() {
        return;
    }
    let world = World::new(policy(&["a.example"])).await;
    world.name("a.example", &[world.upstream.into()]);
    mirror(&world, 80);
    let pid = world.inside.pid().to_string();
    for (scheme, extra) in [("http", &[][..]), ("http", &["--proxytunnel"][..]), ("socks5h", &[][..])] {
        for (host, expected) in [("a.example", true), ("evil.example", false)] {
            let (proxy, url) = (format!("{scheme}://127.0.0.1:{PROXY}"), format!("http://{host}/path"));
            let mut command = Command::new("nsenter");
            command.args(["-t", &pid, "-n", "curl", "-sS", "--fail", "--max-time", "10", "-x", &proxy]).args(extra).arg(url);
            let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), expected, "{scheme} {extra:?} {host}: {text}");
            assert_eq!(text.contains("GET /path"), expected, "{text}");
        }
    }
}
