//! TLS towards both sides: as the host to the place, and as any careful client to the host.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, ServerName};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::io::Counted;
use crate::host::Host;
use crate::reason::Reason;
use tokio::net::TcpStream;

pub const HTTP_2: &[u8] = b"h2";
pub const HTTP_1: &[u8] = b"http/1.1";

/// Roots are read again after this, as a system's updates change them while the relay goes on.
const FRESH: Duration = Duration::from_secs(60 * 60);

/// Whom the relay believes that it is a host: the system's roots, and those that an operator has added.
pub struct Trust {
    more: Option<PathBuf>,
    loaded: Mutex<Option<(Instant, Arc<RootCertStore>)>>,
}

impl Trust {
    /// `more` is a file of certificates, as bundles are.
    pub fn new(more: Option<PathBuf>) -> Self {
        Self { more, loaded: Mutex::default() }
    }

    async fn roots(&self) -> Arc<RootCertStore> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((when, roots)) = loaded
            && when.elapsed() < FRESH
        {
            return roots;
        }
        let more = self.more.clone();
        let read = tokio::task::spawn_blocking(move || Arc::new(read_roots(more))).await;
        let roots = read.unwrap_or_else(|_| Arc::new(RootCertStore::empty()));
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), roots.clone()));
        roots
    }

    /// The sealed connection to a host, whose certificate is one that the host's system would believe.
    pub async fn connect(
        &self,
        host: &Host,
        protocols: Vec<Vec<u8>>,
        stream: Counted<TcpStream>,
    ) -> Result<TlsStream<Counted<TcpStream>>, Reason> {
        let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let config = config.map_err(|_| Reason::TlsFailed)?.with_root_certificates(self.roots().await);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = protocols;
        // What one environment has agreed upon is of no use to another.
        config.resumption = Resumption::disabled();
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.as_str().to_owned()).map_err(|_| Reason::TlsFailed)?,
            Host::Address(address) => ServerName::IpAddress(IpAddr::from(*address)),
        };
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| failure(&error))
    }
}

fn failure(error: &io::Error) -> Reason {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(_)) => Reason::CertificateUntrusted,
        _ => Reason::TlsFailed,
    }
}

fn read_roots(more: Option<PathBuf>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in found.errors {
        tracing::warn!(%error, "some of the system's root certificates cannot be read");
    }
    roots.add_parsable_certificates(found.certs);
    let Some(path) = more else { return roots };
    let read = CertificateDer::pem_file_iter(&path).and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>());
    match read {
        Ok(certificates) => _ = roots.add_parsable_certificates(certificates),
        Err(error) => tracing::warn!(%error, path = %path.display(), "the operator's root certificates cannot be read"),
    }
    roots
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

#[derive(Debug)]
struct Only(Arc<CertifiedKey>);

impl ResolvesServerCert for Only {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// As the host that `certified` names.
pub fn server(certified: Arc<CertifiedKey>, protocols: Vec<Vec<u8>>) -> Result<Arc<ServerConfig>, Reason> {
    let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = config.map_err(|_| Reason::TlsFailed)?.with_no_client_auth();
    let mut config = config.with_cert_resolver(Arc::new(Only(certified)));
    config.alpn_protocols = protocols;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
