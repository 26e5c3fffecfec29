//! Whom to trust: the machine's certificates, and those of one more file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::OutboundError;

pub(crate) fn config(extra: Option<&Path>) -> Result<Arc<ClientConfig>, OutboundError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if let Some(path) = extra {
        add_file(&mut roots, path)?;
    }
    if roots.is_empty() {
        let cause = found.errors.first().map_or_else(|| "none was found".to_owned(), ToString::to_string);
        return Err(OutboundError::NoCertificates(cause));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| OutboundError::NoCertificates(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), OutboundError> {
    let failed = |cause: String| OutboundError::Certificates { path: path.to_owned(), cause };
    let mut count = 0;
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| failed(in_words(error)))? {
        let certificate = certificate.map_err(|error| failed(in_words(error)))?;
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
        count += 1;
    }
    if count == 0 {
        return Err(failed("it holds no certificate in PEM".to_owned()));
    }
    Ok(())
}

fn in_words(error: rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(cause) => cause.to_string(),
        other => other.to_string(),
    }
}

/// What is wrong with a certificate, when that is what the handshake failed over.
pub(crate) fn problem(cause: &io::Error) -> Option<String> {
    let inner = cause.get_ref()?.downcast_ref::<rustls::Error>()?;
    matches!(inner, rustls::Error::InvalidCertificate(_)).then(|| inner.to_string())
}
