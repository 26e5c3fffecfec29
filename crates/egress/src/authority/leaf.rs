//! Certificates of hosts, as programs inside are shown them.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
    date_time_ymd,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use stead_domain::{Randomness, Timestamp};

use super::AuthorityError;
use super::key::AuthorityKey;
use crate::host::Host;

/// Clocks differ; a place may have slept.
const BEFORE: Duration = Duration::from_secs(24 * 60 * 60);
const AFTER: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// Then another is made, long before this one ends.
const FRESH: Duration = Duration::from_secs(12 * 60 * 60);
/// The longest common name there may be. It says nothing that the alternative names do not.
const LONGEST_NAME: usize = 64;

/// The key that all hosts of an environment share. It lives as long as the authority does.
pub struct LeafKey {
    pair: KeyPair,
    signing: Arc<dyn rustls::sign::SigningKey>,
}

impl LeafKey {
    pub fn generate() -> Result<Self, AuthorityError> {
        let failed = || AuthorityError("a key cannot be made");
        let pair = KeyPair::generate().map_err(|_| failed())?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.serialized_der()));
        let signing = rustls::crypto::aws_lc_rs::sign::any_ecdsa_type(&der).map_err(|_| failed())?;
        Ok(Self { pair, signing })
    }
}

pub struct Leaf {
    pub certified: Arc<CertifiedKey>,
    issued: Timestamp,
}

impl Leaf {
    pub fn issue(
        issuer: &Issuer<'static, AuthorityKey>,
        key: &LeafKey,
        host: &Host,
        now: Timestamp,
        randomness: &dyn Randomness,
    ) -> Result<Self, AuthorityError> {
        let mut params = CertificateParams::default();
        let mut name = DistinguishedName::new();
        let text = host.to_string();
        if text.len() <= LONGEST_NAME {
            name.push(DnType::CommonName, text.clone());
        }
        params.distinguished_name = name;
        params.subject_alt_names = vec![match host {
            Host::Address(address) => SanType::IpAddress(*address),
            Host::Name(_) => SanType::DnsName(text.try_into().map_err(|_| AuthorityError("a host has no certificate"))?),
        }];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = date_time_ymd(1970, 1, 1) + since_epoch(now.minus(BEFORE));
        params.not_after = date_time_ymd(1970, 1, 1) + since_epoch(now.plus(AFTER));
        let mut serial = [0; 16];
        randomness.fill(&mut serial);
        serial[0] = serial[0] & 0x7f | 0x40;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let certificate = params.signed_by(&key.pair, issuer).map_err(|_| AuthorityError("a certificate cannot be signed"))?;
        let certified = CertifiedKey::new(vec![certificate.der().clone()], key.signing.clone());
        Ok(Self { certified: Arc::new(certified), issued: now })
    }

    /// Also when the clock went back.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        now.since(self.issued) < FRESH && self.issued.since(now) < BEFORE / 2
    }
}

fn since_epoch(time: Timestamp) -> Duration {
    // Whole seconds, as certificates count.
    Duration::from_secs(time.since(Timestamp::EPOCH).as_secs())
}
