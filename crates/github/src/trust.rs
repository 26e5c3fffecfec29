//! Whom to believe that it is GitHub.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_rustls::TlsConnector;

/// The machine's certificates, and those of a file besides, for servers of one's own.
#[derive(Default)]
pub struct Trust {
    more: Vec<CertificateDer<'static>>,
    made: OnceLock<Result<TlsConnector, String>>,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Trust({} more)", self.more.len())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnusableTrust(String);

impl Trust {
    /// What a file in PEM holds is believed as well.
    pub fn and_of_file(path: &Path) -> Result<Self, UnusableTrust> {
        let failed = |why: String| UnusableTrust(format!("the certificates in {} cannot be used: {why}", path.display()));
        let mut more = Vec::new();
        let mut trial = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))? {
            let certificate = certificate.map_err(|error| failed(error.to_string()))?;
            trial.add(certificate.clone()).map_err(|error| failed(error.to_string()))?;
            more.push(certificate);
        }
        if more.is_empty() {
            return Err(failed("it holds none in PEM".to_owned()));
        }
        Ok(Self { more, made: OnceLock::new() })
    }

    /// The machine's certificates are read when they are needed, and then kept.
    pub(crate) fn connector(&self) -> Result<&TlsConnector, String> {
        self.made.get_or_init(|| self.make()).as_ref().map_err(Clone::clone)
    }

    fn make(&self) -> Result<TlsConnector, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(self.more.iter().cloned());
        if roots.is_empty() {
            return Err("this machine has no certificates to trust".to_owned());
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}
