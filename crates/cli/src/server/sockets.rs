//! The sockets that the server listens on.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use stead_api::Listener;
use stead_domain::{Code, Error, Result};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

use super::configuration::Configuration;

/// Where the server listens when nobody says otherwise.
const USUAL: &str = "127.0.0.1:7070";

/// More connections to one socket wait to be accepted.
const CONNECTIONS: usize = 4096;
/// Open files that connections leave to everything else.
const OTHER_FILES: usize = 256;

/// How many connections each of so many sockets may have. The usual limit of 1024 open files is for programs that use `select`: this one
/// takes what it may.
pub fn connections(sockets: usize) -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let files = rustix::process::getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize);
    CONNECTIONS.min(files.saturating_sub(OTHER_FILES) / sockets.max(1)).max(8)
}

/// Binds the TCP address that was asked for; without one the usual, or a free one when that is taken.
pub async fn bind_tcp(configuration: &Configuration) -> Result<(TcpListener, SocketAddr)> {
    let asked = configuration.listen.as_deref().unwrap_or(USUAL);
    let refused = |error: &std::io::Error| {
        Error::new(Code::LocalFile, format!("{asked} cannot be listened on: {error}"))
            .suggestion("choose another --listen address; port 0 picks a free one")
    };
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(asked).await.map_err(|error| refused(&error))?.collect();
    for address in &addresses {
        configuration.check_exposure(*address)?;
    }
    let bound = match TcpListener::bind(&*addresses).await {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && configuration.listen.is_none() => {
            TcpListener::bind("127.0.0.1:0").await
        }
        bound => bound,
    };
    let listener = bound.map_err(|error| refused(&error))?;
    let address = listener.local_addr().map_err(|error| refused(&error))?;
    Ok((listener, address))
}

/// Binds the unix socket, in place of one that a server before us left. The caller holds the data directory's lock.
pub fn bind_unix(path: &Path) -> Result<Listener> {
    let failed = |error: std::io::Error| super::directory::cannot_write(path, &error);
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(Listener::Unix(listener))
}

pub fn load_tls(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        Error::new(Code::LocalFile, format!("{} cannot be used for TLS: {error}", path.display()))
            .suggestion("give a certificate chain and its key in PEM")
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(|certificates| certificates.collect::<std::result::Result<Vec<_>, _>>())
        .map_err(|error| wrong(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(certificate, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| wrong(key, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
