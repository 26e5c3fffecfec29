//! Programs that try to get at the value, or to get past the relay.

use std::io::{Read, Write};
use std::time::Duration;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use stead_egress::limits::Limits;
use stead_egress::reason::Reason;

use super::hosts::{Hosts, STANDS, VALUE, bound, client, own_roots};
use crate::support::{PROXY, connect, connect_to, is_root, rest};

fn bearer() -> String {
    format!("Authorization: Bearer {STANDS}\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_another_host_are_refused() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = hosts.echo("api.example", 443);
    for (head, code) in [
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n", "host_mismatch"),
        ("GET / HTTP/1.1\r\nHost: api.example:444\r\n", "host_mismatch"),
        ("GET / HTTP/1.1\r\nHost: other.example\r\n", "host_mismatch"),
        ("GET https://evil.example/ HTTP/1.1\r\nHost: api.example\r\n", "host_mismatch"),
        ("GET http://api.example/ HTTP/1.1\r\nHost: api.example\r\n", "host_mismatch"),
        ("GET / HTTP/1.1\r\nHost: api.example\r\nHost: api.example\r\n", "host_missing"),
        ("GET / HTTP/1.1\r\n", "host_missing"),
        ("GET / HTTP/1.1\r\nHost: api.example@evil.example\r\n", "host_mismatch"),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: api.example\r\n", "host_mismatch"),
    ] {
        let reply = hosts.ask("api.example", 443, format!("{head}{}Connection: close\r\n\r\n", bearer())).await;
        let lower = reply.to_lowercase();
        assert!(lower.starts_with("http/1.1 4") && lower.contains(&format!("stead-egress: {code}\r\n")), "{head}: {reply}");
    }
    assert!(seen.lock().unwrap().is_empty());
    hosts.world.refused("api.example", 443, Reason::HostMismatch).await;
}

/// Whatever two parsers could read differently reaches the host as one request, or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_smuggled() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = hosts.echo("api.example", 443);
    let smuggled = format!("GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n{}\r\n", bearer());
    let head = "POST /outer HTTP/1.1\r\nHost: api.example\r\n";
    for framing in [
        format!("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Content-Length: 0\r\nContent-Length: {}\r\n\r\n{smuggled}", smuggled.len()),
        format!("Content-Length: 0, {}\r\n\r\n{smuggled}", smuggled.len()),
        format!("Content-Length: +0\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: xchunked\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("X: y\r\n Transfer-Encoding: chunked\r\n\r\n{smuggled}"),
        format!("X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 3\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{smuggled}"),
        format!("Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n{smuggled}"),
        format!("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n{smuggled}"),
    ] {
        let reply = hosts.ask("api.example", 443, format!("{head}{framing}")).await;
        assert!(!reply.contains(VALUE), "{reply}");
        let seen: Vec<String> = std::mem::take(&mut *seen.lock().unwrap());
        for request in &seen {
            let lower = request.to_lowercase();
            assert!(request.starts_with("POST /outer "), "{framing:?} became {request:?}");
            assert!(!lower.contains("smuggled") || lower.split("\r\n\r\n").next().is_some_and(|head| !head.contains("smuggled")));
            let framed = lower.matches("content-length:").count() + lower.matches("transfer-encoding:").count();
            assert!(framed <= 1 && !request.contains(VALUE), "{framing:?} became {request:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_http_over_tls_is_refused() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = hosts.echo("api.example", 443);
    let plain = format!("GET / HTTP/1.1\r\nHost: api.example\r\n{}\r\n", bearer());
    for (said, reason) in [
        (plain.clone().into_bytes(), Reason::PlainHttp),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), Reason::NotHttp),
        (b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), Reason::NotHttp),
        (b"\x16\x03\x01\x00\x05hello".to_vec(), Reason::MalformedHello),
    ] {
        for proxied in [false, true] {
            let said = said.clone();
            let reply = hosts
                .world
                .inside
                .run(move || {
                    let mut stream = if proxied {
                        let mut stream = connect_to(([127, 0, 0, 1], PROXY).into()).unwrap();
                        stream.write_all(b"CONNECT api.example:443 HTTP/1.1\r\n\r\n").unwrap();
                        let mut answer = [0; 39];
                        stream.read_exact(&mut answer).unwrap();
                        stream
                    } else {
                        connect("api.example", 443)
                    };
                    stream.write_all(&said).unwrap();
                    rest(&mut stream)
                })
                .await;
            assert!(!reply.contains("200 OK") && !reply.contains(VALUE), "{reply}");
            hosts.world.refused("api.example", 443, reason).await;
        }
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_must_name_the_host() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = hosts.echo("api.example", 443);
    let ask = async |name: &'static str, sni: bool| {
        hosts
            .world
            .inside
            .run(move || {
                let mut config = client(&own_roots());
                config.enable_sni = sni;
                let connection = ClientConnection::new(config.into(), ServerName::try_from(name).unwrap()).unwrap();
                let mut stream = rustls::StreamOwned::new(connection, connect("api.example", 443));
                let said = format!("GET / HTTP/1.1\r\nHost: {name}\r\n{}Connection: close\r\n\r\n", bearer());
                let _ = stream.write_all(said.as_bytes());
                rest(&mut stream)
            })
            .await
    };
    assert_eq!(ask("other.example", true).await, "");
    hosts.world.refused("api.example", 443, Reason::ServerNameMismatch).await;
    // Without a name it is the host that was decided, and no other: its certificate says so.
    assert_eq!(ask("other.example", false).await, "");
    assert!(seen.lock().unwrap().is_empty());
    let reply = ask("api.example", false).await;
    assert!(reply.starts_with("HTTP/1.1 200 OK") && !reply.contains(VALUE), "{reply}");
    assert!(seen.lock().unwrap().pop().unwrap().contains(VALUE));
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_bounded_and_nobody_is_waited_for() {
    if !is_root() {
        return;
    }
    let limits = Limits { beginning: Duration::from_millis(200), ..Limits::default() };
    let hosts = Hosts::with_limits(vec![bound(&["api.example"])], limits).await;
    let seen = hosts.echo("api.example", 443);
    let head = "GET / HTTP/1.1\r\nHost: api.example\r\n";
    for long in [format!("{head}X: {}\r\n\r\n", "a".repeat(1 << 20)), format!("{head}{}\r\n", "X: y\r\n".repeat(5000))] {
        let reply = hosts.ask("api.example", 443, long).await;
        assert!(!reply.contains("200 OK"), "{reply}");
    }
    // A head that never ends, a handshake that never ends: the relay ends them.
    let reply = hosts.ask("api.example", 443, head).await;
    assert!(!reply.contains("200 OK"), "{reply}");
    let rest = hosts
        .world
        .inside
        .run(|| {
            let mut stream = connect("api.example", 443);
            stream.write_all(b"\x16\x03\x01").unwrap();
            rest(&mut stream)
        })
        .await;
    assert!(!rest.contains("200"), "{rest}");
    assert!(seen.lock().unwrap().is_empty());
    let fine = hosts.ask("api.example", 443, format!("{head}Connection: close\r\n\r\n")).await;
    assert!(fine.starts_with("HTTP/1.1 200 OK"), "{fine}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_with_line_breaks_is_never_a_header() {
    if !is_root() {
        return;
    }
    let value = stead_egress::broker::Value::new(b"first-line\r\nX-Injected: yes".to_vec());
    let hosts = Hosts::new(vec![stead_egress::broker::BrokeredText { value, ..bound(&["api.example"]) }]).await;
    let seen = hosts.echo("api.example", 443);
    let said = format!("GET / HTTP/1.1\r\nHost: api.example\r\n{}Connection: close\r\n\r\n", bearer());
    let reply = hosts.ask("api.example", 443, said).await;
    assert!(reply.to_lowercase().contains("stead-egress: unusable_value") && !reply.contains("Injected"), "{reply}");
    assert!(seen.lock().unwrap().is_empty());
}
