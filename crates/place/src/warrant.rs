//! By what right something is done in a sandbox, and which of two rights is the later one.

use serde::{Deserialize, Serialize};
use stead_domain::ids::LeaseId;

/// The fence of whoever holds a sandbox, and by which lease. A store that came back from a backup may give the same fence to somebody else; the
/// lease tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warrant {
    pub fence: u64,
    /// None where nobody holds it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseId>,
}

impl Warrant {
    /// Whether nothing may happen under this one where the other was heard of.
    pub fn is_overruled_by(self, heard: Self) -> bool {
        let is_somebody_elses = matches!((self.lease, heard.lease), (Some(ours), Some(theirs)) if ours != theirs);
        self.fence < heard.fence || (self.fence == heard.fence && is_somebody_elses)
    }

    /// What is known after both were heard of. This one is not overruled by the other.
    pub fn after(self, heard: Self) -> Self {
        if self.fence > heard.fence { self } else { Self { fence: heard.fence, lease: heard.lease.or(self.lease) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_fence_and_the_same_of_somebody_else_are_overruled() {
        let context = stead_testing::context(1).0;
        let [one, other] = [LeaseId::new(&context), LeaseId::new(&context)].map(Some);
        let warrant = |fence, lease| Warrant { fence, lease };
        let heard = warrant(5, one);
        for (is, presented) in [(true, (4, one)), (true, (5, other)), (false, (5, one)), (false, (5, None)), (false, (6, other))] {
            assert_eq!(warrant(presented.0, presented.1).is_overruled_by(heard), is, "{presented:?}");
        }
        assert!(!warrant(5, other).is_overruled_by(warrant(5, None)), "nobody held it alone");
        assert_eq!(warrant(6, other).after(heard), warrant(6, other));
        assert_eq!(warrant(5, None).after(heard), heard, "whose it is stays known");
        assert_eq!(warrant(5, one).after(warrant(5, None)), heard);
    }
}
