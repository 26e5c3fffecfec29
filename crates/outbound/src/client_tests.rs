//! Against servers on loopback that answer as they are told.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{JoinHandle, spawn};

use base64::Engine;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;

const SMALL: Limits = Limits { time: Duration::from_secs(20), bytes: 64 };

/// Answers one request with these bytes, and gives what was asked.
fn answering(reply: Vec<u8>) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = head_of(&mut stream);
        let _ = stream.write_all(&reply);
        head
    });
    (address, asked)
}

fn head_of(stream: &mut impl Read) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn get(address: &str) -> Request<Bytes> {
    Request::get(address).header("X-Vault-Token", "s.hidden").body(Bytes::new()).unwrap()
}

fn client(limits: Limits) -> Client {
    Client::new(None, limits).unwrap()
}

fn failure(outcome: Result<Reply, OutboundError>) -> OutboundError {
    match outcome {
        Ok(reply) => panic!("answered {}", reply.status),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_reply_comes_back_as_it_is() {
    let (address, asked) = answering(b"HTTP/1.1 404 Not Found\r\nX-Kind: none\r\nContent-Length: 5\r\n\r\nempty".to_vec());
    let reply = client(SMALL).send(get(&format!("{address}/v1/a%20b?x=1"))).await.unwrap();
    assert_eq!((reply.status, reply.body.as_slice(), reply.headers["x-kind"].to_str().unwrap()), (404, &b"empty"[..], "none"));
    let asked = asked.join().unwrap().to_lowercase();
    assert!(asked.starts_with("get /v1/a%20b?x=1 http/1.1\r\n"), "{asked}");
    assert!(asked.contains(&format!("host: {}\r\n", address.trim_start_matches("http://"))), "{asked}");
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let (elsewhere, nobody) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec());
    let redirect = format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {elsewhere}/\r\nContent-Length: 0\r\n\r\n");
    let (address, _asked) = answering(redirect.into_bytes());
    assert_eq!(client(SMALL).send(get(&address)).await.unwrap().status, 307);
    assert!(!nobody.is_finished(), "the credential went to another host");
}

#[tokio::test]
async fn what_is_too_much_is_not_taken() {
    let long = "x".repeat(65);
    let counted = format!("HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n{long}");
    let chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n41\r\n{long}\r\n0\r\n\r\n");
    for reply in [counted, chunked] {
        let (address, _asked) = answering(reply.into_bytes());
        assert!(matches!(failure(client(SMALL).send(get(&address)).await), OutboundError::TooLarge { limit: 64, .. }));
    }
    let (address, _asked) = answering(format!("HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n{}", "x".repeat(64)).into_bytes());
    assert_eq!(client(SMALL).send(get(&address)).await.unwrap().body.len(), 64);
}

#[tokio::test]
async fn nobody_is_waited_for_without_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let limits = Limits { time: Duration::from_millis(50), bytes: 64 };
    assert!(matches!(failure(client(limits).send(get(&address)).await), OutboundError::Late { .. }));
}

#[tokio::test]
async fn an_error_tells_the_host_and_nothing_else() {
    let (address, _asked) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf-of-a-value".to_vec());
    let cut_off = failure(client(SMALL).send(get(&format!("{address}/secret/path?token=hidden"))).await);
    let (gone, _) = answering(Vec::new());
    let gone = gone.replace("127.0.0.1", "127.0.0.2");
    let unreachable = failure(client(SMALL).send(get(&format!("{gone}/secret/path?token=hidden"))).await);
    assert!(matches!((&cut_off, &unreachable), (OutboundError::Interrupted { .. }, OutboundError::Unreachable { .. })));
    for error in [cut_off, unreachable] {
        let told = format!("{error} {error:?}");
        assert!(told.contains("http://127.0.0."), "{told}");
        assert!(!told.contains("hidden") && !told.contains("path") && !told.contains("half"), "{told}");
    }
}

#[tokio::test]
async fn only_plain_addresses_are_taken() {
    for wrong in ["ftp://host/", "/only/a/path", "https://user:password@host/"] {
        let error = failure(client(SMALL).send(get(wrong)).await);
        assert!(matches!(error, OutboundError::Address(_)) && !error.to_string().contains("password"), "{error}");
    }
}

#[tokio::test]
async fn a_certificate_is_trusted_when_its_file_is_given() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(made.cert.der().to_vec())], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}/", listener.local_addr().unwrap());
    spawn(move || {
        for stream in listener.incoming() {
            let mut connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = stream.unwrap();
            let mut tls = rustls::Stream::new(&mut connection, &mut stream);
            let mut some = [0; 1024];
            if tls.read(&mut some).is_ok() {
                let _ = tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        }
    });
    assert!(matches!(failure(client(SMALL).send(get(&address)).await), OutboundError::Untrusted { .. }));
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("ca.pem");
    let pem = base64::engine::general_purpose::STANDARD.encode(made.cert.der());
    std::fs::write(&path, format!("-----BEGIN CERTIFICATE-----\n{pem}\n-----END CERTIFICATE-----\n")).unwrap();
    let trusting = Client::new(Some(&path), SMALL).unwrap();
    assert_eq!(trusting.send(get(&address)).await.unwrap().body.as_slice(), b"ok");
    std::fs::write(&path, "nothing").unwrap();
    assert!(matches!(Client::new(Some(&path), SMALL), Err(OutboundError::Certificates { .. })));
}
