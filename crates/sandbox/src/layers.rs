//! Overlays: layers seen as one directory.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen};

use crate::attached;
use crate::error::{Error, Result, Step};
use crate::identity::{self, Identity, Translations};
use crate::kernel;
use crate::mounts::Tree;
use crate::plan::Overlay;

/// Mounts the layers, attached nowhere yet. With an identity, the owner of each layer is seen as the place's own user; that can only be done
/// outside, and needs root. The names in `reserved` are there, empty, if no layer has them.
pub fn mount(overlay: &Overlay, reserved: &[String], identity: Option<Identity>, translations: &mut Translations) -> Result<Tree> {
    mount_over(overlay, reserved, identity, &[], LowerIdentity(identity), translations)
}

/// As whom the owners of lower layers are seen. Not at all if that is none, so that only what everybody may read can be read there.
pub struct LowerIdentity(pub Option<Identity>);

/// The same, with the owners of the lower layers seen in another way, and with layers between that the place wrote itself.
pub fn mount_over(
    overlay: &Overlay,
    reserved: &[String],
    identity: Option<Identity>,
    sealed: &[PathBuf],
    lower_identity: LowerIdentity,
    translations: &mut Translations,
) -> Result<Tree> {
    let (Some(parent), Some(upper), Some(work)) = (overlay.upper.parent(), overlay.upper.file_name(), overlay.work.file_name()) else {
        return Err(Error::Inside(format!("`{}` is no layer", overlay.upper.display())));
    };
    if overlay.work.parent() != Some(parent) {
        return Err(Error::Inside(format!("`{}` must lie beside `{}`", overlay.work.display(), overlay.upper.display())));
    }
    if identity.is_some_and(|identity| identity.count > 1) {
        identity::own_layer(&overlay.upper)?;
        identity::own_layer(&overlay.work)?;
    }
    let own = sealed.iter().map(|path| (path, identity));
    let all = own.chain(overlay.lower.iter().map(|path| (path, lower_identity.0)));
    let as_they_are = attached::is_needless();
    // Where trees must be attached elsewhere for a moment, all must be trees.
    let all_trees = !as_they_are && identity.is_some();
    let mut lower = all.map(|(path, identity)| layer(path, identity, all_trees, translations)).collect::<Result<Vec<_>>>()?;
    if !reserved.is_empty() {
        lower.push(Layer { directory: reserve(reserved, identity)?, is_tree: true });
    }
    let parent = match identity {
        // One tree for both, because the kernel wants them in one mount.
        Some(identity) => {
            let tree = Tree::clone_of(parent)?;
            tree.translate_from(open(CWD, &overlay.upper)?.as_fd(), identity, translations)?;
            Layer { directory: tree.into_fd(), is_tree: true }
        }
        None => Layer { directory: open(CWD, parent)?, is_tree: false },
    };
    let at = parent.directory.as_fd();
    let (upper, work) = (open(at, Path::new(upper))?, open(at, Path::new(work))?);
    let trees: Vec<_> = lower.iter().chain([&parent]).filter(|layer| layer.is_tree).map(|layer| layer.directory.as_fd()).collect();
    let make = || make(&lower, &upper, &work, overlay.volatile, identity);
    match identity {
        _ if as_they_are || trees.is_empty() => make(),
        Some(_) => attached::elsewhere(&trees, make),
        None => attached::here(&trees, make),
    }
}

/// A directory that is part of an overlay.
struct Layer {
    directory: OwnedFd,
    /// The root of a tree that is attached nowhere yet.
    is_tree: bool,
}

fn make(lower: &[Layer], upper: &OwnedFd, work: &OwnedFd, volatile: bool, identity: Option<Identity>) -> Result<Tree> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).step("make an overlay")?;
    let set = |key: &str, value: &str| fsconfig_set_string(context.as_fd(), key, value).step(format!("set {key} of an overlay"));
    // By what is held and not by name, so that nobody puts something else there meanwhile, and the inside is not told the names.
    for layer in lower {
        set("lowerdir+", &held(&layer.directory))?;
    }
    set("upperdir", &held(upper))?;
    set("workdir", &held(work))?;
    fsconfig_set_flag(context.as_fd(), "userxattr").step("set userxattr of an overlay")?;
    // What the inside writes into attributes must never lead a lookup elsewhere.
    for (key, value) in [("redirect_dir", "nofollow"), ("metacopy", "off"), ("index", "off")] {
        set(key, value)?;
    }
    if volatile {
        fsconfig_set_flag(context.as_fd(), "volatile").step("set volatile of an overlay")?;
    }
    let created = match identity {
        // What the kernel makes for itself in the layers must have an owner that they know.
        Some(identity) => kernel::as_owner(identity.outside_uid, identity.outside_gid, || fsconfig_create(context.as_fd())),
        None => fsconfig_create(context.as_fd()).map_err(Into::into),
    };
    created.step("make an overlay")?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).map(Tree::from).step("mount an overlay")
}

fn open(base: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    openat(base, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        .step(format!("open the layer {}", path.display()))
}

fn held(layer: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", layer.as_raw_fd())
}

fn layer(path: &Path, identity: Option<Identity>, always_a_tree: bool, translations: &mut Translations) -> Result<Layer> {
    let directory = open(CWD, path)?;
    if identity.is_none() && !always_a_tree {
        return Ok(Layer { directory, is_tree: false });
    }
    let tree = Tree::clone_at(directory.as_fd())?;
    if let Some(identity) = identity {
        tree.translate_from(directory.as_fd(), identity, translations)?;
    }
    Ok(Layer { directory: tree.into_fd(), is_tree: true })
}

/// A layer below all others that holds nothing but names.
fn reserve(paths: &[String], identity: Option<Identity>) -> Result<OwnedFd> {
    let layer = Tree::temporary("0755", 1 << 20)?.into_fd();
    for path in paths {
        let mut at = String::new();
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        for part in above.split('/').filter(|part| !part.is_empty()) {
            at = if at.is_empty() { part.to_owned() } else { format!("{at}/{part}") };
            match mkdirat(&layer, &at, Mode::from_raw_mode(0o755)) {
                Ok(()) => own(&layer, &at, identity)?,
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error).step("reserve a name"),
            }
        }
        let path = if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        match openat(&layer, &path, flags, Mode::from_raw_mode(0o444)) {
            Ok(_) => own(&layer, &path, identity)?,
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error).step("reserve a name"),
        }
    }
    Ok(layer)
}

fn own(layer: &OwnedFd, path: &str, identity: Option<Identity>) -> Result<()> {
    let Some(identity) = identity else { return Ok(()) };
    let (uid, gid) = (rustix::fs::Uid::from_raw(identity.outside_uid), rustix::fs::Gid::from_raw(identity.outside_gid));
    rustix::fs::chownat(layer, path, Some(uid), Some(gid), rustix::fs::AtFlags::SYMLINK_NOFOLLOW).step("give a reserved name away")
}
