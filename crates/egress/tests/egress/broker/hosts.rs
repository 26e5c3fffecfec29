//! Hosts with certificates of an authority that the relay's operator has added, and programs that trust only their environment's.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use stead_egress::authority::Authority;
use stead_egress::broker::{BrokerText, BrokeredText, Scheme, Seed, Value};
use stead_egress::limits::Limits;

use crate::support::{ENVIRONMENT, World, connect, policy};

pub const VALUE: &str = "correct-horse-battery/staple+1";
pub const STANDS: &str = "stp_00112233445566778899aabbccddeeff";

pub trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

pub fn seed() -> Seed {
    Seed::new([9; 32])
}

pub fn bound(hosts: &[&str]) -> BrokeredText {
    BrokeredText {
        name: "TOKEN".to_owned(),
        placeholder: STANDS.to_owned(),
        value: Value::new(VALUE.as_bytes().to_vec()),
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        header: None,
        scheme: None,
        query: None,
        body: false,
    }
}

pub fn text(secrets: Vec<BrokeredText>) -> BrokerText {
    BrokerText { authority: seed(), secrets }
}

/// `Basic`, as programs write it.
pub fn basic(text: &str) -> String {
    use base64::Engine;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text))
}

pub fn with_scheme(scheme: Scheme, hosts: &[&str]) -> BrokeredText {
    BrokeredText { scheme: Some(scheme), ..bound(hosts) }
}

/// Whoever signs the certificates of hosts.
pub struct Signer {
    issuer: Issuer<'static, KeyPair>,
    pub certificate: CertificateDer<'static>,
}

impl Signer {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    pub fn pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// The certificate and key of a host.
    pub fn host(&self, name: &str) -> (CertificateDer<'static>, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().der().clone(), key.serialize_der())
    }

    pub fn config(&self, name: &str, protocols: &[&str]) -> Arc<ServerConfig> {
        let (certificate, key) = self.host(name);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

pub fn pem(kind: &str, der: &[u8]) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<String> = text.as_bytes().chunks(64).map(|line| String::from_utf8(line.to_vec()).unwrap()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// A world with a relay that believes `signer`, where `api.example` is a broker host.
pub struct Hosts {
    pub world: World,
    pub signer: Signer,
}

impl Hosts {
    pub async fn new(secrets: Vec<BrokeredText>) -> Self {
        Self::with_limits(secrets, Limits::default()).await
    }

    pub async fn with_limits(secrets: Vec<BrokeredText>, limits: Limits) -> Self {
        let mut world = World::with_limits(policy(&["api.example", "api.example:2222", "other.example"]), limits).await;
        let signer = Signer::new();
        std::fs::write(world.directory.path().join("roots.pem"), signer.pem()).unwrap();
        for name in ["api.example", "other.example"] {
            world.name(name, &[world.upstream.into()]);
        }
        world.client.broker(ENVIRONMENT, text(secrets)).await.unwrap();
        Self { world, signer }
    }

    /// A TLS server that does `serve` with each connection.
    pub fn sealed(&self, name: &str, port: u16, serve: impl Fn(&mut dyn Wire) + Send + Sync + 'static) {
        sealed(self.world.upstream, port, self.signer.config(name, &["http/1.1"]), serve);
    }

    /// Answers every request with what it was, and keeps it.
    pub fn echo(&self, name: &str, port: u16) -> Arc<Mutex<Vec<String>>> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        self.sealed(name, port, move |stream| {
            while let Some(request) = request(stream) {
                kept.lock().unwrap().push(request.clone());
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.len());
                if stream.write_all((head + &request).as_bytes()).is_err() {
                    return;
                }
            }
        });
        seen
    }

    /// Says something to a host through TLS, and hears everything.
    pub async fn ask(&self, host: &'static str, port: u16, said: impl Into<Vec<u8>>) -> String {
        let said = said.into();
        self.world
            .inside
            .run(move || {
                let mut stream = seal(connect(host, port), host, &own_roots());
                let _ = stream.write_all(&said);
                let _ = stream.flush();
                crate::support::rest(&mut stream)
            })
            .await
    }
}

pub fn sealed(address: Ipv4Addr, port: u16, config: Arc<ServerConfig>, serve: impl Fn(&mut dyn Wire) + Send + Sync + 'static) {
    let listener = TcpListener::bind((address, port)).unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (serve, config) = (serve.clone(), config.clone());
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || {
                let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                serve(&mut stream);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
}

/// The certificate that the place has.
pub fn own_roots() -> RootCertStore {
    roots(Authority::new(&seed(), ENVIRONMENT).unwrap().certificate().clone())
}

pub fn roots(certificate: CertificateDer<'static>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    roots
}

pub fn seal(stream: TcpStream, host: &str, roots: &RootCertStore) -> StreamOwned<ClientConnection, TcpStream> {
    let config = client(roots);
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), ServerName::try_from(host.to_owned()).unwrap()).unwrap(), stream)
}

pub fn client(roots: &RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots.clone())
        .with_no_client_auth()
}

/// One request with its body; `None` when there is no other.
pub fn request(stream: &mut dyn Wire) -> Option<String> {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => text.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8_lossy(&text).to_lowercase();
    if let Some(length) = head.split("content-length: ").nth(1) {
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        text.extend(body);
    }
    if head.contains("transfer-encoding: chunked") {
        while !text.ends_with(b"0\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => text.push(byte[0]),
                _ => return None,
            }
        }
    }
    Some(String::from_utf8_lossy(&text).into_owned())
}
