//! What a place needs where secrets are brokered for it: the way to their hosts, and trust in who stands before them.

use std::path::Path;

use stead_app::{PlaceError, Premises};
use stead_domain::definition::{SecretDelivery, Spec};
use stead_egress::authority::Authority;
use stead_egress::broker::Seed;
use stead_place::blueprint::{TRUST_AUTHORITY, TRUST_BUNDLE, TRUST_KEYSTORE, Trusted};

/// What programs read to find everybody that they are to believe: OpenSSL and Go, curl, git, Python, cargo, the tools of AWS and Google, gRPC,
/// Ruby, Nix, npm.
const BUNDLE: &[&str] = &[
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "HTTPLIB2_CA_CERTS",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "BUNDLE_SSL_CA_CERT",
    "NIX_SSL_CERT_FILE",
    "npm_config_cafile",
];
/// What programs read to add to those that they know by themselves.
const AUTHORITY: &[&str] = &["NODE_EXTRA_CA_CERTS", "DENO_CERT"];
/// Where Java looks by itself on Debian; then nothing has to be said.
const KEYSTORE: &str = "/etc/ssl/certs/java/cacerts";
const KEYTOOL: &str = "/usr/bin/keytool";

/// The hosts that secrets are brokered for, as a list of allowed hosts says it: with a port.
pub fn hosts(spec: &Spec) -> Vec<String> {
    let bindings = spec.secret_bindings.iter().flatten().filter(|binding| binding.delivery == SecretDelivery::Broker);
    bindings.flat_map(|binding| &binding.hosts).map(|host| with_port(host)).collect()
}

fn with_port(host: &str) -> String {
    match (host.rsplit_once(']'), host.matches(':').count()) {
        (Some((_, rest)), _) if rest.starts_with(':') => host.to_owned(),
        (None, 1) => host.to_owned(),
        (None, 2..) => format!("[{host}]:443"),
        _ => format!("{host}:443"),
    }
}

pub fn with_hosts(mut allowed: Vec<String>, hosts: Vec<String>) -> Vec<String> {
    for host in hosts {
        if !allowed.contains(&host) {
            allowed.push(host);
        }
    }
    allowed
}

/// The certificate of the environment's authority, if it has one.
pub fn trusted(premises: &Premises) -> Result<Option<Trusted>, PlaceError> {
    let Some(seed) = &premises.authority else { return Ok(None) };
    let authority = Authority::new(&Seed::new(*seed.bytes()), &premises.environment.to_string());
    let authority = authority.map_err(|error| PlaceError::Failed(error.to_string()))?;
    Ok(Some(Trusted { certificate: authority.certificate_pem(), fingerprint: authority.fingerprint() }))
}

/// What names the bundle inside. A definition's own variables come after these, and count.
pub fn variables(is_image: bool) -> Vec<(String, String)> {
    let named = |names: &[&str], path: &str| names.iter().map(|name| ((*name).to_owned(), path.to_owned())).collect::<Vec<_>>();
    let mut variables = named(BUNDLE, TRUST_BUNDLE);
    variables.extend(named(AUTHORITY, TRUST_AUTHORITY));
    if !is_image && Path::new(KEYTOOL).exists() && !Path::new(KEYSTORE).is_file() {
        variables.push(("JAVA_TOOL_OPTIONS".to_owned(), format!("-Djavax.net.ssl.trustStore={TRUST_KEYSTORE}")));
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broker_hosts_are_let_through_on_the_port_that_is_bound() {
        let spec: Spec = serde_json::from_value(serde_json::json!({"secret_bindings": [
            {"name": "A", "delivery": "broker", "hosts": ["api.example", "*.wide.example:8443", "[2001:db8::1]:444", "10.0.0.1:80"]},
            {"name": "B"},
        ]}))
        .unwrap();
        let all = with_hosts(vec!["api.example:443".to_owned(), "other.example".to_owned()], hosts(&spec));
        assert_eq!(all, ["api.example:443", "other.example", "*.wide.example:8443", "[2001:db8::1]:444", "10.0.0.1:80"]);
    }
}
