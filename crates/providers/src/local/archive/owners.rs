//! Whose a file is, in words that mean the same on every machine: as it is seen inside, counted from the owner of the part it lies in.
//!
//! A workspace belongs to one user, whoever that is on the host. What was changed of a system belongs to 65,536 ids, which begin at one
//! number on every host.

use std::path::Path;

use rustix::fs::Stat;

/// Where `sandbox` keeps the ids of systems. A layer that begins elsewhere is refused by it, and a test imports one.
const FIRST_OF_SYSTEM: u32 = 0x5fff_0000;
const IDS: u32 = 0x1_0000;
/// Nobody inside.
const NOBODY: u32 = 65_534;

/// The owners in one part of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    One,
    System,
}

impl Owners {
    pub fn of(part: &Path) -> Self {
        if part.starts_with("system") { Self::System } else { Self::One }
    }

    /// As they are written into an archive.
    pub fn inside(self, stat: &Stat) -> (u32, u32) {
        match self {
            // One that is somebody else's was put there from outside, and nobody inside can tell.
            Self::One => (0, 0),
            Self::System => (seen(stat.st_uid), seen(stat.st_gid)),
        }
    }

    /// As they are kept on this host; none for ids that no such part has.
    pub fn on_disk(self, uid: u32, gid: u32) -> Option<(u32, u32)> {
        match self {
            Self::One => ((uid, gid) == (0, 0)).then(|| (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())),
            Self::System => (uid < IDS && gid < IDS).then(|| (FIRST_OF_SYSTEM + uid, FIRST_OF_SYSTEM + gid)),
        }
    }
}

fn seen(id: u32) -> u32 {
    // Layers of a time before there was such a number begin at zero.
    let id = id.checked_sub(FIRST_OF_SYSTEM).unwrap_or(id);
    if id < IDS { id } else { NOBODY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_that_a_part_can_have_are_kept() {
        assert_eq!(Owners::System.on_disk(33, 0), Some((FIRST_OF_SYSTEM + 33, FIRST_OF_SYSTEM)));
        assert_eq!(Owners::System.on_disk(65_536, 0), None);
        assert_eq!(Owners::One.on_disk(0, 1), None);
        assert!(Owners::One.on_disk(0, 0).is_some());
        assert_eq!((seen(FIRST_OF_SYSTEM + 33), seen(33), seen(1_000_000)), (33, 33, NOBODY));
    }
}
