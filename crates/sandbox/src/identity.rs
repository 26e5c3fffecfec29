//! Who the inside is on the outside.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::geteuid;

use crate::error::{Error, Result, Step};
use crate::kernel::Holder;
use crate::plan::Plan;

/// The one user inside, unless the system is its own.
pub const INSIDE: u32 = 1000;

/// Where the ids of places begin on a host whose root runs us: far above those of people and of other tools' ranges.
const FIRST: u32 = 0x6000_0000;

/// As whom what a place with a system of its own writes is kept on disk, whichever ids the place has: nobody on the host, so that no program
/// in there runs as somebody, and the same for all, so that a layer of one can be seen in another.
const ON_DISK: u32 = 0x5fff_0000;

/// How many ids a system has.
const SYSTEM: u32 = 0x1_0000;

/// Ids inside are these ids outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who runs inside; of many, the first.
    pub inside: u32,
    pub outside_uid: u32,
    pub outside_gid: u32,
    pub count: u32,
}

impl Identity {
    /// As an ordinary user: that user. As root: users that own nothing on the host, so that a process that gets out is nobody.
    pub fn of(plan: &Plan) -> Result<Self> {
        let count = if plan.system { SYSTEM } else { 1 };
        let inside = if plan.system { 0 } else { INSIDE };
        if !Self::by_root() {
            if plan.system {
                let why = "only root can give a place the ids of a whole system".to_owned();
                return Err(Error::Unavailable { what: "a system of its own", why });
            }
            let (outside_uid, outside_gid) = (geteuid().as_raw(), rustix::process::getegid().as_raw());
            return Ok(Self { inside, outside_uid, outside_gid, count });
        }
        let first = plan.identity.unwrap_or(FIRST);
        // Never a person or a service of the host, nor a number that means nobody.
        if first < SYSTEM || first.checked_add(count).is_none_or(|end| end > u32::MAX - SYSTEM) {
            let cause = std::io::ErrorKind::InvalidInput.into();
            return Err(Error::Outside { step: format!("use the ids from {first} for a place"), cause });
        }
        Ok(Self { inside, outside_uid: first, outside_gid: first, count })
    }

    pub fn by_root() -> bool {
        geteuid().is_root()
    }

    /// Writes the maps of a new user namespace, from outside.
    pub fn write_maps(self, pid: i32) -> Result<()> {
        let (uid, gid) = (Map { inside: self.inside, outside: self.outside_uid }, Map { inside: self.inside, outside: self.outside_gid });
        write_maps(pid, uid, gid, self.count)
    }

    /// The same, for a tree that belongs to one user.
    pub fn of_one(self) -> Self {
        Self { count: 1, ..self }
    }
}

#[derive(Clone, Copy)]
struct Map {
    inside: u32,
    outside: u32,
}

fn write_maps(pid: i32, uid: Map, gid: Map, count: u32) -> Result<()> {
    let write = |name: &str, text: String| std::fs::write(format!("/proc/{pid}/{name}"), text).step(format!("write {name}"));
    if !Identity::by_root() {
        // Without this an ordinary user may not map a group; with it nobody inside changes groups. As root, init leaves its groups instead.
        write("setgroups", "deny".to_owned())?;
    }
    write("uid_map", format!("{} {} {count}", uid.inside, uid.outside))?;
    write("gid_map", format!("{} {} {count}", gid.inside, gid.outside))
}

/// User namespaces that only serve to translate the owners in trees: on the disk somebody, seen as the place's own user. Trees of one owner
/// share theirs.
#[derive(Default)]
pub struct Translations(Vec<(u32, u32, Identity, OwnedFd)>);

impl Translations {
    /// Of a whole system all owners are translated.
    pub fn of(&mut self, owner_uid: u32, owner_gid: u32, identity: Identity) -> Result<BorrowedFd<'_>> {
        let (uid, gid) = match identity.count {
            1 => (owner_uid, owner_gid),
            _ if owner_uid >= ON_DISK => (ON_DISK, ON_DISK),
            _ => (0, 0),
        };
        let known = self.0.iter().position(|(known_uid, known_gid, of, _)| (*known_uid, *known_gid, *of) == (uid, gid, identity));
        let at = match known {
            Some(at) => at,
            None => {
                self.0.push((uid, gid, identity, translation(uid, gid, identity)?));
                self.0.len() - 1
            }
        };
        Ok(self.0[at].3.as_fd())
    }
}

fn translation(uid: u32, gid: u32, identity: Identity) -> Result<OwnedFd> {
    let holder = Holder::new().step("make a user namespace for a mount")?;
    let (uid, gid) = (Map { inside: uid, outside: identity.outside_uid }, Map { inside: gid, outside: identity.outside_gid });
    write_maps(holder.pid, uid, gid, identity.count)?;
    let namespace = std::fs::File::open(format!("/proc/{}/ns/user", holder.pid)).step("open the user namespace of a mount")?;
    Ok(namespace.into())
}

/// Gives a new layer of a system to whom such layers belong on disk. One that root writes to directly could hold programs that run as root.
pub fn own_layer(path: &std::path::Path) -> Result<()> {
    let step = || format!("use the layer {}", path.display());
    let metadata = std::fs::symlink_metadata(path).step(step())?;
    let owner = std::os::unix::fs::MetadataExt::uid(&metadata);
    if (ON_DISK..ON_DISK + SYSTEM).contains(&owner) {
        return Ok(());
    }
    if std::fs::read_dir(path).step(step())?.next().is_some() {
        let cause = std::io::Error::other(format!("it is not empty and belongs to {owner}, not to a system's owner {ON_DISK}"));
        return Err(Error::Outside { step: step(), cause });
    }
    std::os::unix::fs::lchown(path, Some(ON_DISK), Some(ON_DISK)).step(step())
}
