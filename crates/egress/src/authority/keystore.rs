//! Certificates as Java keeps those that it trusts. The format is an old one that every version of it reads.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

const MAGIC: u32 = 0xfeed_feed;
const VERSION: u32 = 2;
const TRUSTED: u32 = 2;
/// What such a file is sealed with everywhere. It keeps no secret.
const PASSWORD: &str = "changeit";

/// A store of all certificates of a bundle.
pub fn keystore(bundle: &[u8]) -> Vec<u8> {
    let certificates: Vec<CertificateDer<'_>> = CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect();
    let mut store = Vec::new();
    for number in [MAGIC, VERSION, certificates.len() as u32] {
        store.extend(number.to_be_bytes());
    }
    for (number, certificate) in certificates.iter().enumerate() {
        store.extend(TRUSTED.to_be_bytes());
        text(&mut store, &format!("certificate-{number}"));
        // When it was put in, which nobody asks for.
        store.extend(0_u64.to_be_bytes());
        text(&mut store, "X.509");
        store.extend((certificate.len() as u32).to_be_bytes());
        store.extend_from_slice(certificate);
    }
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(&PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>());
    digest.update(b"Mighty Aphrodite");
    digest.update(&store);
    store.extend_from_slice(digest.finish().as_ref());
    store
}

fn text(store: &mut Vec<u8>, text: &str) {
    store.extend((text.len() as u16).to_be_bytes());
    store.extend_from_slice(text.as_bytes());
}
