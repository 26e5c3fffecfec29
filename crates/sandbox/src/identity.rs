//! Who the inside is on the outside.

use std::os::fd::OwnedFd;

use rustix::process::geteuid;

use crate::error::{Result, Step};
use crate::kernel::Holder;

/// The one user inside.
pub const INSIDE: u32 = 1000;

/// Where the ids of places begin on a host whose root runs us: far above those of people and of other tools' ranges.
const FIRST: u32 = 0x6000_0000;

/// One user inside is this user outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub outside_uid: u32,
    pub outside_gid: u32,
}

impl Identity {
    /// As an ordinary user: that user. As root: a user that owns nothing on the host, so that a process that gets out is nobody.
    pub fn of_caller() -> Self {
        let (uid, gid) = (geteuid().as_raw(), rustix::process::getegid().as_raw());
        if uid == 0 { Self { outside_uid: FIRST, outside_gid: FIRST } } else { Self { outside_uid: uid, outside_gid: gid } }
    }

    pub fn by_root() -> bool {
        geteuid().is_root()
    }

    /// Writes the maps of a new user namespace, from outside.
    pub fn write_maps(self, pid: i32) -> Result<()> {
        write_maps(pid, INSIDE, self.outside_uid, INSIDE, self.outside_gid)
    }
}

fn write_maps(pid: i32, inside_uid: u32, outside_uid: u32, inside_gid: u32, outside_gid: u32) -> Result<()> {
    let write = |name: &str, text: String| std::fs::write(format!("/proc/{pid}/{name}"), text).step(format!("write {name}"));
    // Without this an ordinary user may not map a group; with it nobody inside changes groups.
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{inside_uid} {outside_uid} 1"))?;
    write("gid_map", format!("{inside_gid} {outside_gid} 1"))
}

/// A user namespace that only serves to translate the owner of a tree: on the disk `owner`, seen as the place's own user.
pub fn translation(owner_uid: u32, owner_gid: u32, identity: Identity) -> Result<OwnedFd> {
    let holder = Holder::new().step("make a user namespace for a mount")?;
    write_maps(holder.pid, owner_uid, identity.outside_uid, owner_gid, identity.outside_gid)?;
    let namespace = std::fs::File::open(format!("/proc/{}/ns/user", holder.pid)).step("open the user namespace of a mount")?;
    Ok(namespace.into())
}
