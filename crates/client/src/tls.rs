//! TLS: whom to trust, and what a failed handshake means.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connection::within;
use crate::error::CertificateProblem;
use crate::{ClientError, Endpoint, Result};

const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Trusts the certificates of a file and no others, or else the machine's, read when they are needed and not before.
pub(crate) fn connector(trusted: Option<&Path>) -> Result<TlsConnector> {
    let roots = match trusted {
        Some(path) => of_file(path)?,
        None => of_machine()?,
    };
    trusting(roots)
}

fn trusting(roots: RootCertStore) -> Result<TlsConnector> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::Tls { cause: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn of_machine() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let cause = found.errors.first().map_or_else(|| "none was found".to_owned(), ToString::to_string);
        return Err(ClientError::Tls { cause: format!("this machine has no certificates to trust: {cause}") });
    }
    Ok(roots)
}

fn of_file(path: &Path) -> Result<RootCertStore> {
    let failed = |cause: String| ClientError::CertificateFile { path: path.display().to_string(), cause };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| failed(in_words(error)))? {
        let certificate = certificate.map_err(|error| failed(in_words(error)))?;
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(failed("it holds no certificate in PEM".to_owned()));
    }
    Ok(roots)
}

fn in_words(error: rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(cause) => cause.to_string(),
        other => other.to_string(),
    }
}

/// What is wrong with the certificate, when it is the certificate that the handshake failed over.
pub(crate) fn problem(cause: &io::Error) -> Option<CertificateProblem> {
    let inner = cause.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(problem) = inner else { return None };
    Some(match problem {
        CertificateError::UnknownIssuer => CertificateProblem::UnknownIssuer,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => CertificateProblem::OtherName,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertificateProblem::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => CertificateProblem::NotYetValid,
        // Known to the verifier alone, by its name.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => CertificateProblem::IsAuthority,
        other => CertificateProblem::Other(other.to_string()),
    })
}

/// Whether the other scheme is spoken at an address that did not answer as it should: asked only once something has gone wrong.
pub(crate) async fn wrong_scheme(endpoint: &Endpoint) -> Option<ClientError> {
    let Endpoint::Tcp { secure, host, port, base } = endpoint else { return None };
    let other = within(PROBE_LIMIT, async { if *secure { speaks_http(host, *port).await } else { speaks_tls(host, *port).await } }).await;
    if other != Some(true) {
        return None;
    }
    let instead = Endpoint::Tcp { secure: !secure, host: host.clone(), port: *port, base: base.clone() };
    Some(ClientError::Scheme { address: endpoint.to_string(), secure: *secure, instead: instead.to_string() })
}

async fn speaks_http(host: &str, port: u16) -> bool {
    let mut beginning = [0; 5];
    let answer = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.write_all(format!("HEAD /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
        stream.read_exact(&mut beginning).await
    };
    answer.await.is_ok() && &beginning == b"HTTP/"
}

/// A handshake that fails over the certificate is one that was answered; nobody is trusted, so it always does.
async fn speaks_tls(host: &str, port: u16) -> bool {
    let (Ok(connector), Ok(name)) = (trusting(RootCertStore::empty()), ServerName::try_from(host.to_owned())) else { return false };
    let Ok(stream) = TcpStream::connect((host, port)).await else { return false };
    match connector.connect(name, stream).await {
        Ok(_) => true,
        Err(cause) => problem(&cause).is_some(),
    }
}
