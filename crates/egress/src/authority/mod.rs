//! A certificate authority for one environment, trusted in that place alone. Nothing of it is stored: key and name follow from a seed.

mod key;
mod keystore;
mod leaf;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyUsagePurpose, PublicKeyData, SerialNumber,
    date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use stead_domain::{Randomness, Timestamp, hexadecimal};

use crate::broker::Seed;
use crate::host::Host;
use key::AuthorityKey;
pub use keystore::keystore;
use leaf::{Leaf, LeafKey};

/// A wildcard lets a program ask for any number of names.
const MOST_LEAVES: usize = 256;

#[derive(Debug, thiserror::Error)]
#[error("the certificate authority of the environment cannot be made: {0}")]
pub struct AuthorityError(&'static str);

/// The authority of one environment.
pub struct Authority {
    issuer: Issuer<'static, AuthorityKey>,
    certificate: CertificateDer<'static>,
    key: LeafKey,
    leaves: Mutex<HashMap<Host, Leaf>>,
}

impl Authority {
    /// The same key and the same name each time, so that what one made is trusted where another's certificate is.
    pub fn new(seed: &Seed, environment: &str) -> Result<Self, AuthorityError> {
        let key = AuthorityKey::derive(seed, environment)?;
        let mut params = CertificateParams::default();
        let mut name = DistinguishedName::new();
        name.push(DnType::OrganizationName, "Stead");
        name.push(DnType::CommonName, format!("Stead environment {environment}"));
        params.distinguished_name = name;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // It ends with its environment; these only have to be around that, and are the same each time.
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2049, 12, 31));
        params.serial_number = Some(SerialNumber::from_slice(&key.serial()));
        params.use_authority_key_identifier_extension = true;
        let certificate = params.self_signed(&key).map_err(|_| AuthorityError("its certificate cannot be signed"))?;
        let certificate = certificate.der().clone();
        let leaf = LeafKey::generate()?;
        Ok(Self { issuer: Issuer::new(params, key), certificate, key: leaf, leaves: Mutex::default() })
    }

    /// What the place has to trust; it is no secret.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub fn certificate_pem(&self) -> String {
        pem(&self.certificate)
    }

    /// By what it is known again: every certificate of it is signed anew, and has another signature.
    pub fn fingerprint(&self) -> String {
        hexadecimal::write(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, self.issuer.key().der_bytes()).as_ref())
    }

    /// A certificate of a host and its key, made when it is asked for and kept for some hours.
    pub fn certified(&self, host: &Host, now: Timestamp, randomness: &dyn Randomness) -> Result<Arc<CertifiedKey>, AuthorityError> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leaf) = leaves.get(host).filter(|leaf| leaf.is_fresh(now)) {
            return Ok(leaf.certified.clone());
        }
        if leaves.len() >= MOST_LEAVES {
            leaves.clear();
        }
        let leaf = Leaf::issue(&self.issuer, &self.key, host, now, randomness)?;
        let certified = leaf.certified.clone();
        leaves.insert(host.clone(), leaf);
        Ok(certified)
    }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests;
