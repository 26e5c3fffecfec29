//! Names: what is listed, what is looked up, and what a connection says about itself.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use stead_egress::journal::Decision;
use stead_egress::reason::Reason;

use crate::support::{World, answer, ask, connect, connect_to, exchange, is_root, policy, question, rest};

/// A TLS server for both names, and the roots that trust it.
fn tls(world: &World, port: u16) -> Arc<rustls::ClientConfig> {
    let issued = rcgen::generate_simple_self_signed(vec!["a.example".to_owned(), "b.example".to_owned()]).unwrap();
    let certificate: CertificateDer<'static> = issued.cert.der().clone();
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let server = Arc::new(server.with_no_client_auth().with_single_cert(vec![certificate.clone()], key).unwrap());
    world.server(port, move |mut stream| {
        let mut connection = rustls::ServerConnection::new(server.clone()).unwrap();
        let mut tls = rustls::Stream::new(&mut connection, &mut stream);
        let mut byte = [0; 5];
        if tls.read_exact(&mut byte).is_ok() {
            let _ = tls.write_all(&byte);
        }
    });
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(client.with_root_certificates(roots).with_no_client_auth())
}

fn handshake(client: Arc<rustls::ClientConfig>, server_name: &'static str, stream: &mut TcpStream) -> Result<String, String> {
    let mut connection = rustls::ClientConnection::new(client, ServerName::try_from(server_name).unwrap()).unwrap();
    let mut tls = rustls::Stream::new(&mut connection, stream);
    tls.write_all(b"hello").map_err(|error| error.to_string())?;
    let mut reply = [0; 5];
    tls.read_exact(&mut reply).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_passes_to_the_name_that_was_looked_up_and_to_no_other() {
    if !is_root() {
        return;
    }
    let world = World::new(policy(&["a.example", "b.example"])).await;
    world.name("a.example", &[world.upstream.into()]);
    world.name("b.example", &[world.upstream.into()]);
    let client = tls(&world, 443);
    let trusted = client.clone();
    assert_eq!(world.inside.run(move || handshake(trusted, "a.example", &mut connect("a.example", 443))).await, Ok("hello".to_owned()));
    let closed = world.journal(|entries| entries.iter().any(|entry| entry.decision == Decision::Closed)).await;
    let closed = closed.last().unwrap();
    assert!(closed.bytes_up > 100 && closed.bytes_down > 100, "{closed:?}");
    assert_eq!((closed.host.as_str(), closed.address), ("a.example", Some(world.upstream.into())));
    // Listed too, but not where this connection goes.
    let outcome = world.inside.run(move || handshake(client, "b.example", &mut connect("a.example", 443))).await;
    assert!(outcome.as_ref().is_err_and(|error| error.contains("AccessDenied")), "{outcome:?}");
    world.refused("a.example", 443, Reason::ServerNameMismatch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_not_listed_are_asked_of_nobody() {
    if !is_root() {
        return;
    }
    let world = World::new(policy(&["a.example", "*.wild.example"])).await;
    let answers = world
        .inside
        .run(|| {
            let over_tcp = {
                let mut stream = connect_to("127.0.0.1:53".parse().unwrap()).unwrap();
                let question = question("a.example", 1);
                stream.write_all(&[&(question.len() as u16).to_be_bytes(), &question[..]].concat()).unwrap();
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut reply).unwrap();
                answer(&reply)
            };
            [
                over_tcp,
                ask("a.example", 1),
                ask("secret-data.evil.example", 1),
                ask("wild.example", 1),
                ask("a.b.wild.example", 28),
                ask("a.example", 65),
            ]
        })
        .await;
    assert_eq!(answers[0], answers[1]);
    assert!(answers[1].1.is_some_and(|address| address.to_string().starts_with("198.1")));
    assert_eq!((answers[2], answers[3]), ((3, None), (3, None)));
    assert!(answers[4].1.is_some_and(|address| address.to_string().starts_with("fd53:")));
    assert_eq!(answers[5], (0, None), "no HTTPS record");
    world.refused("secret-data.evil.example", 53, Reason::NotListed).await;
    assert_eq!(world.resolver.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn literal_addresses_and_names_that_lead_inside_are_refused() {
    if !is_root() {
        return;
    }
    let world = World::new(policy(&["a.example", "metadata.example", "lan.example", "nowhere.example"])).await;
    world.name("metadata.example", &["169.254.169.254".parse().unwrap()]);
    world.name("lan.example", &["10.0.0.1".parse().unwrap(), "::ffff:192.168.0.1".parse().unwrap()]);
    world
        .inside
        .run(|| {
            for address in [
                "93.184.216.34:443",
                "[2606:4700::1111]:443",
                "169.254.169.254:80",
                "[::ffff:10.0.0.1]:80",
                "198.18.99.99:443",
                "127.0.0.1:80",
            ] {
                let mut stream = connect_to(address.parse().unwrap()).unwrap();
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
                assert_eq!(rest(&mut stream), "", "{address}");
            }
            for name in ["metadata.example", "lan.example", "nowhere.example"] {
                let reply = exchange(&mut connect(name, 80), &format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n"));
                assert!(reply.contains("stead: egress refused"), "{reply}");
            }
            // Ports without a listener.
            assert!(connect_to("9.9.9.9:25".parse().unwrap()).is_err());
            let quic = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let _ = quic.send_to(b"quic", "9.9.9.9:443");
        })
        .await;
    world.refused("93.184.216.34", 443, Reason::AddressNotListed).await;
    world.refused("2606:4700::1111", 443, Reason::AddressNotListed).await;
    world.refused("169.254.169.254", 80, Reason::MetadataAddress).await;
    world.refused("10.0.0.1", 80, Reason::NonPublicAddress).await;
    world.refused("198.18.99.99", 443, Reason::UnknownSyntheticAddress).await;
    world.refused("metadata.example", 80, Reason::MetadataAddress).await;
    world.refused("lan.example", 80, Reason::NonPublicAddress).await;
    world.refused("nowhere.example", 80, Reason::Unresolved).await;
    world.refused("9.9.9.9", 25, Reason::NoListener).await;
    world.refused("9.9.9.9", 443, Reason::NoListener).await;
}
