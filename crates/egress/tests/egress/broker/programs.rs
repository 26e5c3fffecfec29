//! Programs as they are, above all curl, which speaks HTTP/2.

use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::hosts::{Hosts, STANDS, VALUE, bound, seed};
use crate::support::{ENVIRONMENT, PROXY, is_root};

/// More than a window of HTTP/2.
const LONG: usize = 600 << 10;

type Seen = Arc<Mutex<Vec<(Version, String)>>>;

/// Answers with what it was asked, in three pieces and a trailer.
async fn echo(
    seen: Seen,
    request: Request<Incoming>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = hyper::Error>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let text = format!("{} {} {:?} {}", parts.method, parts.uri, parts.headers, String::from_utf8_lossy(&body));
    seen.lock().unwrap().push((parts.version, text.clone()));
    let mut trailers = HeaderMap::new();
    trailers.insert("x-last", HeaderValue::from_static(VALUE));
    let pieces = text.into_bytes().chunks(1001).map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect::<Vec<_>>();
    let frames = pieces.into_iter().chain([Ok(Frame::trailers(trailers))]);
    let mut reply = Response::new(StreamBody::new(futures::stream::iter(frames)));
    reply.headers_mut().insert("x-echo", HeaderValue::from_static(VALUE));
    reply.headers_mut().insert("alt-svc", HeaderValue::from_static("h3=\":443\""));
    Ok(reply)
}

async fn serve(hosts: &Hosts, protocols: &[&str]) -> Seen {
    let seen = Seen::default();
    let listener = tokio::net::TcpListener::bind((hosts.world.upstream, 443)).await.unwrap();
    let acceptor = TlsAcceptor::from(hosts.signer.config("api.example", protocols));
    let (tasks, kept) = (TaskTracker::new(), seen.clone());
    let inner = tasks.clone();
    tasks.spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { return };
            let (acceptor, seen) = (acceptor.clone(), kept.clone());
            inner.spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service_fn(move |request| echo(seen.clone(), request))).await;
            });
        }
    });
    seen
}

/// curl in the namespace, with the environment's authority and no other.
async fn curl(hosts: &Hosts, arguments: &[&str]) -> Output {
    let bundle = hosts.world.directory.path().join("authority.pem");
    let authority = stead_egress::authority::Authority::new(&seed(), ENVIRONMENT).unwrap();
    std::fs::write(&bundle, authority.certificate_pem()).unwrap();
    let mut command = Command::new("nsenter");
    command.args(["-t", &hosts.world.inside.pid().to_string(), "-n", "curl", "-sS", "--max-time", "30", "--cacert"]).arg(bundle);
    command.args(["--proxy", &format!("http://127.0.0.1:{PROXY}"), "-H", &format!("Authorization: Bearer {STANDS}")]).args(arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_on_both_sides() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = serve(&hosts, &["h2", "http/1.1"]).await;
    let body = format!("@{}", hosts.world.directory.path().join("body").display());
    std::fs::write(hosts.world.directory.path().join("body"), vec![b'b'; LONG]).unwrap();
    for (arguments, sent) in [
        (vec!["--http2", "-i", "https://api.example/a?b"], "GET https://api.example/a?b"),
        (vec!["--http2", "-i", "--data-binary", &body, "https://api.example/up"], "POST https://api.example/up"),
        (vec!["--http1.1", "-i", "https://api.example/one"], "GET /one"),
        (vec!["--http1.1", "-i", "--data-binary", &body, "https://api.example/up"], "POST /up"),
    ] {
        let reply = said(&curl(&hosts, &arguments).await);
        let version = if arguments[0] == "--http2" { Version::HTTP_2 } else { Version::HTTP_11 };
        let first = if version == Version::HTTP_2 { "HTTP/2 200" } else { "HTTP/1.1 200 OK" };
        assert!(reply.contains(first) && reply.contains(STANDS), "{}", &reply[..reply.len().min(2000)]);
        assert!(!reply.contains(VALUE) && !reply.to_lowercase().contains("alt-svc"), "{}", &reply[..reply.len().min(2000)]);
        let (seen, text) = seen.lock().unwrap().pop().unwrap();
        assert_eq!(seen, version, "what the host speaks is what the place speaks");
        assert!(text.starts_with(sent) && text.contains(VALUE), "{}", &text[..text.len().min(2000)]);
        assert_eq!(text.contains(&"b".repeat(LONG)), sent.starts_with("POST"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_speaks_only_http_1_is_spoken_to_so() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = serve(&hosts, &["http/1.1"]).await;
    for choice in ["--http2", "--http2-prior-knowledge", "--no-alpn"] {
        let reply = said(&curl(&hosts, &[choice, "https://api.example/"]).await);
        assert!(reply.contains(STANDS) && !reply.contains(VALUE), "{choice}: {reply}");
        assert_eq!(seen.lock().unwrap().pop().unwrap().0, Version::HTTP_11);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_streams_of_one_connection_and_another_host_among_them() {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new(vec![bound(&["api.example"])]).await;
    let seen = serve(&hosts, &["h2"]).await;
    let output = curl(&hosts, &["--http2", "--parallel", "--parallel-max", "50", "https://api.example/[1-200]"]).await;
    let reply = said(&output);
    assert!(output.status.success() && !reply.contains(VALUE), "{}", &reply[..reply.len().min(2000)]);
    assert_eq!(seen.lock().unwrap().iter().filter(|(_, text)| text.contains(VALUE)).count(), 200);
    let reply = said(&curl(&hosts, &["--http2", "-i", "-H", "Host: evil.example", "https://api.example/"]).await);
    assert!(reply.contains("HTTP/2 403") && reply.contains("stead-egress: host_mismatch"), "{reply}");
    assert_eq!(seen.lock().unwrap().len(), 200);
}
