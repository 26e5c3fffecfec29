//! The sockets that the server listens on.

use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use stead_api::Listener;
use stead_domain::{Code, Error, Result};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

use super::configuration::{Configuration, PortsListen};

/// Where the server listens when nobody says otherwise.
const USUAL: &str = "127.0.0.1:7070";
const USUAL_FOR_PORTS: &str = "127.0.0.1:7071";

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

/// Binds the address of the API.
pub async fn bind_tcp(configuration: &Configuration) -> Result<(TcpListener, SocketAddr)> {
    bind(configuration, configuration.listen.as_deref(), USUAL, "--listen").await
}

/// Binds the address where ports of environments are served, if they are.
pub async fn bind_ports(configuration: &Configuration) -> Result<Option<(TcpListener, SocketAddr)>> {
    let asked = match &configuration.ports_listen {
        PortsListen::Off => return Ok(None),
        PortsListen::Usual => None,
        PortsListen::At(address) => Some(address.as_str()),
    };
    bind(configuration, asked, USUAL_FOR_PORTS, "--ports-listen").await.map(Some)
}

/// The address that was asked for; without one the usual, or a free one when that is taken.
async fn bind(configuration: &Configuration, wanted: Option<&str>, usual: &str, option: &str) -> Result<(TcpListener, SocketAddr)> {
    let asked = wanted.unwrap_or(usual);
    let refused = |error: &std::io::Error| {
        Error::new(Code::LocalFile, format!("{asked} cannot be listened on: {error}"))
            .suggestion(format!("choose another {option} address; port 0 picks a free one"))
    };
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(asked).await.map_err(|error| refused(&error))?.collect();
    for address in &addresses {
        configuration.check_exposure(*address)?;
    }
    let bound = match TcpListener::bind(&*addresses).await {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && wanted.is_none() => TcpListener::bind("127.0.0.1:0").await,
        bound => bound,
    };
    let listener = bound.map_err(|error| refused(&error))?;
    let address = listener.local_addr().map_err(|error| refused(&error))?;
    Ok((listener, address))
}

/// The file of a unix socket that this process bound.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// Removes the file, unless another one has taken its place.
    pub fn remove(self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Binds the unix socket, in place of one that a server before us left. What else lies there stays: the path is whatever was asked for, and
/// the lock on the data directory says nothing about it.
pub fn bind_unix(path: &Path) -> Result<(Listener, SocketFile)> {
    let failed = |error: std::io::Error| super::directory::cannot_write(path, &error);
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(metadata) if metadata.file_type().is_socket() => remove_dead(path)?,
        Ok(_) => {
            return Err(Error::new(Code::LocalFile, format!("{} is not a socket, and stays as it is", path.display()))
                .suggestion("choose another --socket, or move that file away"));
        }
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let metadata = std::fs::symlink_metadata(path).map_err(failed)?;
    Ok((Listener::Unix(listener), SocketFile { path: path.to_owned(), identity: (metadata.dev(), metadata.ino()) }))
}

/// Removes a socket that nobody listens on.
fn remove_dead(path: &Path) -> Result<()> {
    let failed = |error: Errno| super::directory::cannot_write(path, &error.into());
    // Without waiting: a server that is too busy to accept is still one.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path).map_err(failed)?) {
        Ok(()) | Err(Errno::AGAIN) => Err(Error::new(Code::StoreInUse, format!("another process listens on {}", path.display()))
            .suggestion("end it, or choose another --socket")),
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::CONNREFUSED) => match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(super::directory::cannot_write(path, &error)),
            _ => Ok(()),
        },
        // Of another kind, or not ours to connect to: somebody may well listen on it.
        Err(error) => Err(failed(error)),
    }
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener as Other, UnixStream};

    use super::*;

    #[tokio::test]
    async fn a_socket_that_a_server_left_is_replaced_and_goes_with_us() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("socket");
        drop(Other::bind(&path).unwrap());
        let (listener, file) = bind_unix(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(listener);
        file.remove();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_that_somebody_listens_on_is_left_alone() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("socket");
        let other = Other::bind(&path).unwrap();
        let error = bind_unix(&path).err().unwrap();
        assert_eq!(error.code(), Code::StoreInUse);
        assert!(error.suggested().is_some() && error.message().contains("socket"));
        other.accept().unwrap();
        UnixStream::connect(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _datagrams = UnixDatagram::bind(&path).unwrap();
        assert!(bind_unix(&path).is_err());
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_named_and_kept() {
        let directory = tempfile::TempDir::new().unwrap();
        let (file, link, folder) = (directory.path().join("notes"), directory.path().join("link"), directory.path().join("folder"));
        std::fs::write(&file, "kept").unwrap();
        std::os::unix::fs::symlink("notes", &link).unwrap();
        std::fs::create_dir(&folder).unwrap();
        for path in [&file, &link, &folder] {
            let error = bind_unix(path).err().unwrap();
            assert_eq!(error.code(), Code::LocalFile);
            assert!(error.message().contains(&path.display().to_string()), "{error}");
            assert!(std::fs::symlink_metadata(path).is_ok());
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), "kept");
    }

    #[tokio::test]
    async fn what_took_the_place_of_our_socket_stays() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("socket");
        let (_listener, file) = bind_unix(&path).unwrap();
        // Kept under another name, so that its inode is not given to the next file.
        std::fs::rename(&path, directory.path().join("before")).unwrap();
        let _other = Other::bind(&path).unwrap();
        file.remove();
        UnixStream::connect(&path).unwrap();
    }
}
