//! Nothing inside holds a capability but in a system of its own, and nothing can get one back.

use std::io;

use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets, set_capabilities};

/// The newest capability that a kernel may know; asking for one that it does not know ends the walk.
const NEWEST: u32 = 63;

/// What it takes to install packages into a system of one's own; each of them is worth something only there.
pub const OF_SYSTEM: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SYS_CHROOT);

/// Drops all but these from the bounding set and from what is held, and locks the door behind.
pub fn drop_all_but(kept: CapabilitySet) -> io::Result<()> {
    for number in (0..=NEWEST).filter(|number| kept.bits() >> number & 1 == 0) {
        // SAFETY: prctl(PR_CAPBSET_DROP) takes a number and touches no memory of ours.
        let outcome = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) };
        if outcome != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EINVAL) && number > 0 {
                break;
            }
            return Err(error);
        }
    }
    let mut locked = CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    if kept.is_empty() {
        // Being root means nothing, should anybody become it.
        locked |= CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED;
    }
    rustix::thread::set_capabilities_secure_bits(locked)?;
    rustix::thread::clear_ambient_capability_set()?;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() })?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}
