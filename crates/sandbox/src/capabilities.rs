//! Nothing inside holds a capability, and nothing can get one back.

use std::io;

use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets, set_capabilities};

/// The newest capability that a kernel may know; asking for one that it does not know ends the walk.
const NEWEST: u32 = 63;

/// Drops the bounding set, then everything that is held, and locks the door behind.
pub fn drop_all() -> io::Result<()> {
    for number in 0..=NEWEST {
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
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(locked)?;
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySets { effective: CapabilitySet::empty(), permitted: CapabilitySet::empty(), inheritable: CapabilitySet::empty() };
    set_capabilities(None, none)?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}
