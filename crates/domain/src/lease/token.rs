//! What a holder shows: `stl_`, the lease's own digits, and a signature that only the server can make. So it can be made again for whoever
//! repeats a request, while the store keeps its hash alone.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::hexadecimal;
use crate::ids::LeaseId;

pub const TOKEN_PREFIX: &str = "stl_";

/// A token. It is never printed by accident.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct LeaseToken(pub String);

impl std::fmt::Debug for LeaseToken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("LeaseToken(…)")
    }
}

/// What is signed for the token of a lease.
pub fn signed_content(lease: LeaseId) -> Vec<u8> {
    format!("lease token\n{lease}").into_bytes()
}

pub fn token(lease: LeaseId, signature: &[u8; 32]) -> LeaseToken {
    LeaseToken(format!("{TOKEN_PREFIX}{}{}", lease.digits(), hexadecimal::write(signature)))
}

/// The lease that a token says it is of; none for what is no token.
pub fn lease_of(token: &str) -> Option<LeaseId> {
    let digits = token.strip_prefix(TOKEN_PREFIX)?;
    if digits.len() != 96 || !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    format!("{}_{}", LeaseId::PREFIX, &digits[..32]).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_which_lease_it_is_of_and_nothing_else_is_one() {
        let lease = LeaseId::from_bytes([7; 16]);
        let made = token(lease, &[0xab; 32]);
        assert_eq!(lease_of(&made.0), Some(lease));
        assert!(!format!("{made:?}").contains("abab"));
        for wrong in ["", "stl_", "stk_07", &made.0[..made.0.len() - 1], &made.0.to_uppercase(), &format!("{}.main", made.0)] {
            assert_eq!(lease_of(wrong), None, "{wrong}");
        }
    }
}
