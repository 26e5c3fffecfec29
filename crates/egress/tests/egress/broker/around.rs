//! Every way out, and what is none of the broker's business.

use std::io::{Read, Write};

use stead_egress::journal::Decision;
use stead_egress::reason::Reason;

use super::hosts::{Hosts, STANDS, VALUE, bound, own_roots, roots, seal, text};
use crate::support::{ENVIRONMENT, PROXY, connect, connect_to, is_root, rest};

fn get() -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: api.example\r\nAuthorization: Bearer {STANDS}\r\nConnection: close\r\n\r\n").into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn through_the_proxy_by_connect_and_by_socks() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = hosts.echo("api.example", 443);
    let socks = [&[5, 1, 0, 3, 11][..], b"api.example", &[1, 187]].concat();
    for (said, heard) in
        [(b"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n".to_vec(), 39), ([&[5, 1, 0][..], &socks].concat(), 12)]
    {
        let reply = hosts
            .world
            .inside
            .run(move || {
                let mut stream = connect_to(([127, 0, 0, 1], PROXY).into()).unwrap();
                stream.write_all(&said).unwrap();
                let mut answer = vec![0; heard];
                stream.read_exact(&mut answer).unwrap();
                let mut stream = seal(stream, "api.example", &own_roots());
                stream.write_all(&get()).unwrap();
                rest(&mut stream)
            })
            .await;
        assert!(reply.starts_with("HTTP/1.1 200 OK") && reply.contains(STANDS) && !reply.contains(VALUE), "{reply}");
        assert!(seen.lock().unwrap().pop().unwrap().contains(VALUE));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn through_the_device_that_has_every_port() {
    if !is_root() {
        return;
    }
    let mut world = crate::tun::world().await;
    let signer = super::hosts::Signer::new();
    std::fs::write(world.directory.path().join("roots.pem"), signer.pem()).unwrap();
    world.name("api.example", &[world.upstream.into()]);
    world.client.broker(ENVIRONMENT, text(vec![bound(&["api.example:8443"])])).await.unwrap();
    let hosts = Hosts { world, signer };
    let seen = hosts.echo("api.example", 8443);
    let reply = hosts
        .world
        .inside
        .run(|| {
            let address = crate::tun::look_up("api.example").unwrap();
            let mut stream = seal(connect_to((address, 8443).into()).unwrap(), "api.example", &own_roots());
            stream
                .write_all(&String::from_utf8(get()).unwrap().replace("Host: api.example", "Host: api.example:8443").into_bytes())
                .unwrap();
            rest(&mut stream)
        })
        .await;
    assert!(reply.starts_with("HTTP/1.1 200 OK") && !reply.contains(VALUE), "{reply}");
    let sent = seen.lock().unwrap().pop().unwrap();
    assert!(sent.contains(VALUE) && sent.contains("Host: api.example:8443\r\n"), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tls_only_where_the_port_is_written() {
    if !is_root() {
        return;
    }
    let mut hosts = Hosts::new(vec![bound(&["api.example:80", "api.example"])]).await;
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = seen.clone();
    hosts.world.server(80, move |mut stream| {
        if let Some(request) = super::hosts::request(&mut stream) {
            let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{request}", request.len());
            kept.lock().unwrap().push(request);
            stream.write_all(reply.as_bytes()).unwrap();
        }
    });
    let absolute = String::from_utf8(get()).unwrap().replace("GET /", "GET http://api.example/path?x");
    let ask = async |hosts: &Hosts, said: Vec<u8>, proxied: bool| {
        let said = said.clone();
        hosts
            .world
            .inside
            .run(move || {
                let mut stream = if proxied { connect_to(([127, 0, 0, 1], PROXY).into()).unwrap() } else { connect("api.example", 80) };
                stream.write_all(&said).unwrap();
                rest(&mut stream)
            })
            .await
    };
    for (said, proxied, target) in [(get(), false, "GET / "), (absolute.into_bytes(), true, "GET /path?x ")] {
        let reply = ask(&hosts, said, proxied).await;
        assert!(reply.starts_with("HTTP/1.1 200 OK") && reply.contains(STANDS) && !reply.contains(VALUE), "{reply}");
        let sent = seen.lock().unwrap().pop().unwrap();
        assert!(sent.starts_with(target) && sent.contains(VALUE), "{sent}");
    }
    // Without its port it is bound to TLS alone, and on port 80 nothing is brokered: the placeholder goes out as it is.
    hosts.world.client.broker(ENVIRONMENT, text(vec![bound(&["api.example"])])).await.unwrap();
    ask(&hosts, get(), false).await;
    let sent = seen.lock().unwrap().pop().unwrap();
    assert!(sent.contains(STANDS) && !sent.contains(VALUE), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_else_passes_untouched() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    hosts.sealed("other.example", 443, |stream| {
        let mut said = [0; 3];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"\0\xff\n", "no HTTP at all");
        stream.write_all(VALUE.as_bytes()).unwrap();
    });
    let certificate = hosts.signer.certificate.clone();
    let reply = hosts
        .world
        .inside
        .run(move || {
            // The host's own certificate: the environment's authority is not known to this program.
            let mut stream = seal(connect("other.example", 443), "other.example", &roots(certificate));
            stream.write_all(b"\0\xff\n").unwrap();
            rest(&mut stream)
        })
        .await;
    assert_eq!(reply, VALUE, "byte for byte");
    let journal = hosts.world.journal(|entries| entries.iter().any(|entry| entry.decision == Decision::Closed)).await;
    assert!(journal.iter().all(|entry| entry.decision != Decision::Brokered));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_must_be_who_it_says() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example", "api.example:2222"])]).await;
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let heard = seen.clone();
    // Another name, and another authority.
    hosts.sealed("wrong.example", 443, move |stream| {
        if super::hosts::request(stream).is_some() {
            heard.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let heard = seen.clone();
    super::hosts::sealed(hosts.world.upstream, 2222, super::hosts::Signer::new().config("api.example", &[]), move |stream| {
        if super::hosts::request(stream).is_some() {
            heard.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    for port in [443, 2222] {
        let said = String::from_utf8(get()).unwrap().replace("Host: api.example", &format!("Host: api.example:{port}"));
        let reply = hosts.ask("api.example", port, said).await;
        assert!(reply.starts_with("HTTP/1.1 502") && reply.to_lowercase().contains("stead-egress: certificate_untrusted"), "{reply}");
        hosts.world.refused("api.example", port, Reason::CertificateUntrusted).await;
    }
    assert_eq!(seen.load(std::sync::atomic::Ordering::SeqCst), 0, "nothing was said to it");
    // A program that does not know the authority gets nowhere, and the journal says why.
    let failed = hosts
        .world
        .inside
        .run(|| {
            let other = super::hosts::Signer::new().certificate;
            seal(connect("api.example", 443), "api.example", &roots(other)).write_all(&get()).is_err()
        })
        .await;
    assert!(failed);
    hosts.world.refused("api.example", 443, Reason::NotTrustedInside).await;
}
