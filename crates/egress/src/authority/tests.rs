use std::time::Duration;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::{ServerName, UnixTime};
use stead_domain::Timestamp;

use super::*;

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn authority(seed: u8, environment: &str) -> Authority {
    Authority::new(&Seed::new([seed; 32]), environment).unwrap()
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

fn now() -> Timestamp {
    Timestamp::EPOCH.plus(NOW)
}

fn certified(authority: &Authority, name: &str) -> Arc<CertifiedKey> {
    authority.certified(&host(name), now(), &*stead_testing::context(1).0.randomness).unwrap()
}

/// As a client does it.
fn verifies(trusted: &Authority, shown: &CertifiedKey, name: &str, at: Duration) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.certificate().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    use rustls::client::danger::ServerCertVerifier;
    verifier.verify_server_cert(&shown.cert[0], &[], &name, &[], UnixTime::since_unix_epoch(at)).is_ok()
}

#[test]
fn what_one_authority_signs_is_trusted_where_another_of_the_same_seed_is_known() {
    let (relay, place) = (authority(1, "env_1"), authority(1, "env_1"));
    let shown = certified(&relay, "api.example");
    assert!(verifies(&place, &shown, "api.example", NOW));
    assert!(!verifies(&place, &shown, "other.example", NOW));
    assert!(!verifies(&place, &shown, "sub.api.example", NOW));
    assert!(verifies(&place, &certified(&relay, "10.0.0.5"), "10.0.0.5", NOW));
    let long = format!("{}.example", ["a"; 40].join("."));
    assert!(verifies(&place, &certified(&relay, &long), &long, NOW), "a name that is too long to be a common name");
}

#[test]
fn neither_another_environment_nor_another_seed_is_trusted() {
    let shown = certified(&authority(1, "env_1"), "api.example");
    for other in [authority(1, "env_2"), authority(2, "env_1")] {
        assert!(!verifies(&other, &shown, "api.example", NOW));
    }
}

#[test]
fn certificates_are_short_lived_cached_and_bear_with_clocks() {
    let authority = authority(1, "env_1");
    let shown = certified(&authority, "api.example");
    let day = Duration::from_secs(24 * 60 * 60);
    assert!(verifies(&authority, &shown, "api.example", NOW - day / 2));
    assert!(verifies(&authority, &shown, "api.example", NOW + day));
    assert!(!verifies(&authority, &shown, "api.example", NOW + 4 * day));
    let again = |at: Timestamp| authority.certified(&host("api.example"), at, &*stead_testing::context(2).0.randomness).unwrap();
    assert!(Arc::ptr_eq(&shown, &again(now().plus(day / 4))));
    let later = again(now().plus(day));
    assert!(!Arc::ptr_eq(&shown, &later));
    assert!(verifies(&authority, &later, "api.example", NOW + 3 * day));
    assert!(!Arc::ptr_eq(&later, &again(now().minus(day))), "a clock that went back");
}

#[test]
fn any_number_of_names_takes_a_bounded_number_of_certificates() {
    let authority = authority(1, "env_1");
    for number in 0..2 * MOST_LEAVES {
        certified(&authority, &format!("n{number}.example"));
    }
    assert!(authority.leaves.lock().unwrap().len() <= MOST_LEAVES);
}

#[test]
fn the_certificate_is_written_as_bundles_have_it() {
    let text = authority(1, "env_1").certificate_pem();
    assert!(text.starts_with("-----BEGIN CERTIFICATE-----\n") && text.ends_with("\n-----END CERTIFICATE-----\n"));
    assert!(text.lines().all(|line| line.len() <= 64));
}
