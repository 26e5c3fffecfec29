//! The app's private key, and what it signs: that a request is the app's own, for nine minutes.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use stead_domain::Timestamp;

/// Before now, because clocks differ.
const BEFORE: Duration = Duration::from_secs(60);
/// After now. GitHub takes ten minutes, by its own clock.
const AFTER: Duration = Duration::from_secs(540);

/// An RSA key. It is shown by nothing.
pub struct AppKey(RsaKeyPair);

impl fmt::Debug for AppKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AppKey")
    }
}

/// Why a text is no key. It holds nothing of the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    #[error("it holds no private key in PEM")]
    NoPem,
    #[error("the private key in it is no RSA key")]
    NotRsa,
    #[error("the RSA key in it is damaged, or of a size that is not used (2048 to 8192 bits are)")]
    Damaged,
}

impl AppKey {
    /// Reads PEM, of the form that GitHub hands out (PKCS#1) and of the one that most tools write (PKCS#8). Where lines were joined by `\n` as
    /// two characters, as variables often have them, they are taken apart again.
    pub fn from_pem(text: &str) -> Result<Self, InvalidKey> {
        let mut lines = if text.contains('\n') { text.to_owned() } else { text.replace("\\n", "\n") };
        let found = PrivateKeyDer::from_pem_slice(lines.as_bytes());
        zeroize::Zeroize::zeroize(&mut lines);
        let pair = match found.map_err(|_| InvalidKey::NoPem)? {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).map_err(|_| InvalidKey::Damaged)?,
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| InvalidKey::NotRsa)?,
            _ => return Err(InvalidKey::NotRsa),
        };
        Ok(Self(pair))
    }

    /// A JSON web token that says: this is the app.
    pub(crate) fn token(&self, issuer: &str, now: Timestamp) -> Result<String, &'static str> {
        let seconds = |time: Timestamp| time.microseconds().div_euclid(1_000_000);
        let claims = json!({ "iat": seconds(now.minus(BEFORE)), "exp": seconds(now.plus(AFTER)), "iss": issuer });
        let head = URL_SAFE_NO_PAD.encode(br#"{"alg":"RS256","typ":"JWT"}"#);
        let content = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), content.as_bytes(), &mut signature)
            .map_err(|_| "the app's key does not sign")?;
        Ok(format!("{content}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn pem(label: &str, der: &[u8]) -> String {
        let text = STANDARD.encode(der);
        let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
    }

    /// The older form is inside the newer one, after a head of fixed length for keys of this size.
    fn pkcs1(pkcs8: &[u8]) -> &[u8] {
        &pkcs8[26..]
    }

    #[test]
    fn both_forms_are_read_and_sign_the_same() {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
        let newer = pem("PRIVATE KEY", der.as_ref());
        let older = pem("RSA PRIVATE KEY", pkcs1(der.as_ref()));
        let joined = older.trim_end().replace('\n', "\\n");
        let now = Timestamp::from_microseconds(1_700_000_000_000_000);
        for text in [&newer, &older, &joined, &format!("some text\n{older}")] {
            let token = AppKey::from_pem(text).unwrap().token("12345", now).unwrap();
            let (content, signature) = token.rsplit_once('.').unwrap();
            let claims = URL_SAFE_NO_PAD.decode(content.split_once('.').unwrap().1).unwrap();
            let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
            assert_eq!(claims, json!({ "iat": 1_700_000_000 - 60, "exp": 1_700_000_000 + 540, "iss": "12345" }));
            let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
            public.verify(content.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        }
        // Nothing of it is told.
        let key = AppKey::from_pem(&newer).unwrap();
        assert_eq!(format!("{key:?}"), "AppKey");
        let cut = newer.replacen("MII", "AAA", 1);
        let error = AppKey::from_pem(&cut).unwrap_err();
        assert!(!newer.contains(&error.to_string()) && !error.to_string().contains("MII"), "{error}");
    }

    #[test]
    fn what_is_no_key_is_told_apart() {
        assert_eq!(AppKey::from_pem("").unwrap_err(), InvalidKey::NoPem);
        assert_eq!(AppKey::from_pem("/etc/key.pem").unwrap_err(), InvalidKey::NoPem);
        assert_eq!(AppKey::from_pem(&pem("CERTIFICATE", b"abc")).unwrap_err(), InvalidKey::NoPem);
        assert_eq!(AppKey::from_pem(&pem("RSA PRIVATE KEY", b"abc")).unwrap_err(), InvalidKey::Damaged);
        assert_eq!(AppKey::from_pem(&pem("PRIVATE KEY", b"abc")).unwrap_err(), InvalidKey::NotRsa);
        assert_eq!(AppKey::from_pem(&pem("EC PRIVATE KEY", b"abc")).unwrap_err(), InvalidKey::NotRsa);
    }
}
