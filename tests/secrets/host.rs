//! A host on loopback that answers only who shows the value: a page, a repository, an index of Python packages, a registry of npm's.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

pub const VALUE: &str = "correct-horse-battery-staple-0123456789";

/// What is served, by path.
pub type Files = BTreeMap<String, (&'static str, Vec<u8>)>;

pub struct Host {
    /// As the machine calls itself: programs inside do not know it, and have to ask.
    pub name: String,
    pub port: u16,
    /// The first lines of all requests that showed the value.
    pub seen: Arc<Mutex<Vec<String>>>,
    /// What does not show it is refused, and kept here.
    pub refused: Arc<Mutex<Vec<String>>>,
}

/// A name that leads to loopback and is not `localhost`, which every place has for itself.
pub fn own_name() -> Option<(String, IpAddr)> {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let candidates = [own, "ip6-localhost".to_owned(), "localhost.localdomain".to_owned()];
    candidates.into_iter().filter(|name| !name.is_empty() && name != "localhost").find_map(|name| {
        let mut found = (name.as_str(), 0).to_socket_addrs().ok()?.map(|address: SocketAddr| address.ip());
        let address = found.next().filter(IpAddr::is_loopback)?;
        found.all(|address| address.is_loopback()).then_some((name, address))
    })
}

impl Host {
    /// Its authority's certificate is written to `roots`.
    pub fn start(name: &str, address: IpAddr, roots: &Path, files: impl FnOnce(u16) -> Files) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        std::fs::write(roots, pem(&certificate)).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![own.der().clone()], key).unwrap());
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, refused) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let shared = Arc::new((files(port), seen.clone(), refused.clone()));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, shared) = (config.clone(), shared.clone());
                std::thread::spawn(move || serve(stream, config, &shared.0, &shared.1, &shared.2));
            }
        });
        Self { name: name.to_owned(), port, seen, refused }
    }
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, files: &Files, seen: &Mutex<Vec<String>>, refused: &Mutex<Vec<String>>) {
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    loop {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let first = head.lines().next().unwrap_or_default().to_owned();
        let path = first.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
        let authorization = head.lines().find(|line| line.to_lowercase().starts_with("authorization:")).unwrap_or_default().to_owned();
        let shown = authorization.contains(VALUE) || basic(&authorization).contains(VALUE);
        let (status, kind, body) = if !shown {
            refused.lock().unwrap().push(head);
            ("401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"", "text/plain", b"who are you?".to_vec())
        } else {
            seen.lock().unwrap().push(first.clone());
            match files.get(&path) {
                Some((kind, body)) => ("200 OK", *kind, body.clone()),
                None if path == "/echo" => ("200 OK", "text/plain", authorization.into_bytes()),
                None => ("404 Not Found", "text/plain", b"nothing".to_vec()),
            }
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
        let body = if first.starts_with("HEAD") { &[][..] } else { &body };
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
}

fn basic(authorization: &str) -> String {
    use base64::Engine;
    let encoded = authorization.split_whitespace().nth(2).unwrap_or_default();
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default();
    String::from_utf8_lossy(&decoded).into_owned()
}

fn pem(der: &[u8]) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// A repository as a server without git shows it, below `/repository.git`.
pub fn repository(scratch: &Path) -> Files {
    let script = "git init -q -b main work && cd work && echo hello >file && git add file && \
        git -c user.name=a -c user.email=a@b commit -qm one && cd .. && git clone -q --bare work bare && cd bare && git update-server-info";
    assert!(Command::new("sh").args(["-c", script]).current_dir(scratch).status().unwrap().success());
    let mut files = Files::new();
    let mut next = vec![scratch.join("bare")];
    while let Some(directory) = next.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            if entry.path().is_dir() {
                next.push(entry.path());
                continue;
            }
            let path = entry.path().strip_prefix(scratch.join("bare")).unwrap().display().to_string();
            files.insert(format!("/repository.git/{path}"), ("application/octet-stream", std::fs::read(entry.path()).unwrap()));
        }
    }
    files
}

/// A Python package of one file, and the page of an index that names it.
pub fn wheel(scratch: &Path) -> Files {
    let script = "import zipfile\n\
        made = zipfile.ZipFile('stead_probe-1.0-py3-none-any.whl', 'w')\n\
        made.writestr('stead_probe.py', 'WORD = \"hello\"\\n')\n\
        made.writestr('stead_probe-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: stead-probe\\nVersion: 1.0\\n')\n\
        made.writestr('stead_probe-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        made.writestr('stead_probe-1.0.dist-info/RECORD', '')\n\
        made.close()\n";
    assert!(Command::new("python3").args(["-c", script]).current_dir(scratch).status().unwrap().success());
    let name = "stead_probe-1.0-py3-none-any.whl";
    let bytes = std::fs::read(scratch.join(name)).unwrap();
    let page = format!("<!DOCTYPE html><html><body><a href=\"/files/{name}\">{name}</a></body></html>");
    Files::from([
        ("/simple/stead-probe/".to_owned(), ("text/html", page.into_bytes())),
        (format!("/files/{name}"), ("application/zip", bytes)),
    ])
}

/// A package of npm's, and what its registry says of it.
pub fn package(scratch: &Path, url: &str) -> Files {
    let script = "mkdir package && echo '{\"name\":\"stead-probe\",\"version\":\"1.0.0\",\"main\":\"m.js\"}' >package/package.json && \
        echo 'module.exports = \"hello\";' >package/m.js && tar czf probe.tgz package";
    assert!(Command::new("sh").args(["-c", script]).current_dir(scratch).status().unwrap().success());
    let version =
        serde_json::json!({"name": "stead-probe", "version": "1.0.0", "main": "m.js", "dist": {"tarball": format!("{url}/npm/probe.tgz")}});
    let all = serde_json::json!({"name": "stead-probe", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}});
    Files::from([
        ("/npm/stead-probe".to_owned(), ("application/json", all.to_string().into_bytes())),
        ("/npm/probe.tgz".to_owned(), ("application/octet-stream", std::fs::read(scratch.join("probe.tgz")).unwrap())),
    ])
}
