//! What a signed URL carries: until when it is good and who made it, signed together with the port that it is for.
//!
//! It says nothing else and gives nothing else. Whoever made it is looked at again at every use, so that a URL ends with the key or the
//! membership that it was made with.

use std::time::Duration;

use stead_domain::ids::{ApiKeyId, PrincipalId};
use stead_domain::port_origin::PortName;
use stead_domain::principal::{Caller, Credential};
use stead_domain::{Code, Error, Result, Timestamp};

use crate::Sealer;

const VERSION: u8 = 1;
const HEAD: usize = 1 + 8 + 16;
const SIGNATURE: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Seconds since 1970.
    until: u64,
    pub(super) principal: PrincipalId,
    /// The key that it was made with; none for the operator's socket.
    pub(super) key: Option<ApiKeyId>,
}

impl Token {
    pub(super) fn new(until: Timestamp, caller: &Caller) -> Result<Self> {
        let key = match caller.credential {
            Credential::Key { id, .. } => Some(id),
            Credential::Socket => None,
            // It ends with the lease, and a URL would not.
            Credential::Lease { .. } => {
                return Err(Error::new(Code::Forbidden, "the token of a lease signs no URL").suggestion("ask for it with an API key"));
            }
        };
        Ok(Self { until: u64::try_from(until.microseconds() / 1_000_000).unwrap_or(0), principal: caller.principal, key })
    }

    pub(super) fn expires_at(&self) -> Timestamp {
        Timestamp::from_microseconds(i64::try_from(self.until).unwrap_or(0).saturating_mul(1_000_000))
    }

    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at() <= now
    }

    pub(super) fn left(&self, now: Timestamp) -> Duration {
        if self.is_over(now) { Duration::ZERO } else { self.expires_at().since(now) }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.until.to_be_bytes());
        bytes.extend(self.principal.as_bytes());
        bytes.extend(self.key.iter().flat_map(|key| *key.as_bytes()));
        bytes
    }

    /// As it stands in a URL.
    pub(super) fn write(&self, sealer: &dyn Sealer, name: PortName) -> Result<String> {
        let mut bytes = self.bytes();
        let signature = sealer.sign(&signed(name, &bytes))?;
        bytes.extend(signature);
        Ok(stead_domain::hexadecimal::write(&bytes))
    }

    /// None for what was not signed here, or for another port.
    pub(super) fn read(sealer: &dyn Sealer, name: PortName, text: &str) -> Option<Self> {
        // Longer ones are not ours, and are not worth the reading.
        let bytes = Some(text).filter(|text| text.len() <= 2 * (HEAD + 16 + SIGNATURE)).and_then(stead_domain::hexadecimal::read)?;
        let (content, signature) = bytes.split_at_checked(bytes.len().checked_sub(SIGNATURE)?)?;
        if !sealer.is_signed(&signed(name, content), signature) {
            return None;
        }
        let (head, key) = content.split_at_checked(HEAD)?;
        let until = u64::from_be_bytes(head.get(1..9)?.try_into().ok()?);
        let principal = PrincipalId::from_bytes(head.get(9..HEAD)?.try_into().ok()?);
        let key = if key.is_empty() { None } else { Some(ApiKeyId::from_bytes(key.try_into().ok()?)) };
        (head[0] == VERSION).then_some(Self { until, principal, key })
    }
}

/// Nothing that is signed for one purpose reads as something for another.
fn signed(name: PortName, content: &[u8]) -> Vec<u8> {
    let mut bytes = b"stead port\0".to_vec();
    bytes.extend(name.environment.as_bytes());
    bytes.extend(name.port.to_be_bytes());
    bytes.extend(content);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds up, which is enough to tell one text from another here; the real one has tests of its own.
    struct Sum;

    impl Sealer for Sum {
        fn seal(&self, _: &[u8], value: &[u8]) -> Result<Vec<u8>> {
            Ok(value.to_vec())
        }

        fn open(&self, _: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
            Ok(sealed.to_vec())
        }

        fn sign(&self, content: &[u8]) -> Result<[u8; 32]> {
            let mut sum = [7_u8; 32];
            for (at, byte) in content.iter().enumerate() {
                sum[at % 32] = sum[at % 32].wrapping_mul(31).wrapping_add(*byte).wrapping_add(at as u8);
            }
            Ok(sum)
        }

        fn is_signed(&self, content: &[u8], signature: &[u8]) -> bool {
            self.sign(content).is_ok_and(|own| own == signature)
        }

        fn key_id(&self) -> String {
            "sum".to_owned()
        }

        fn rewrap(&self, _: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
            Ok(sealed.to_vec())
        }

        fn use_key(&self, _: &str) -> Result<bool> {
            Ok(true)
        }

        fn next_key(&self) -> Result<()> {
            Ok(())
        }

        fn forget_older_keys(&self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_token_is_read_for_its_own_port_and_unchanged() {
        let name = PortName { environment: "env_0123456789abcdef0123456789abcdef".parse().unwrap(), port: 80 };
        let principal = PrincipalId::from_bytes([3; 16]);
        for key in [None, Some(ApiKeyId::from_bytes([4; 16]))] {
            let token = Token { until: 1_000, principal, key };
            let text = token.write(&Sum, name).unwrap();
            assert_eq!(Token::read(&Sum, name, &text), Some(token));
            assert!(
                token.is_over(Timestamp::from_microseconds(1_000_000_000)) && !token.is_over(Timestamp::from_microseconds(999_999_999))
            );
            assert_eq!(Token::read(&Sum, PortName { port: 81, ..name }, &text), None);
            let other = "env_0123456789abcdef0123456789abcdee".parse().unwrap();
            assert_eq!(Token::read(&Sum, PortName { environment: other, ..name }, &text), None);
            for at in 0..text.len() {
                let mut changed = text.clone().into_bytes();
                changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
                assert_eq!(Token::read(&Sum, name, std::str::from_utf8(&changed).unwrap()), None, "digit {at}");
                assert_eq!(Token::read(&Sum, name, &text[..at]), None, "cut at {at}");
            }
            assert_eq!(Token::read(&Sum, name, &format!("{text}00")), None);
        }
    }
}
