//! The root that the inside sees: a system that is read-only or the place's own, and a few places to write.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, statat, symlinkat};
use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{fchdir, pivot_root};

use crate::devices::Devices;
use crate::error::{Error, Result, Step};
use crate::identity::{Identity, Translations};
use crate::layers::LowerIdentity;
use crate::mounts::Tree;
use crate::plan::{Access, Plan, RootView, Source};
use crate::skeleton::USER;
use crate::{layers, protect, secrets, targets, users};

/// Directories of the system that are shown whole, where they are directories; links are copied as links.
const SYSTEM: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt"];

/// What of a root is always the place's own.
const OWN: &[&str] = &["dev", "proc", "sys", "tmp", "run"];

/// Files and directories of /proc that tell about the kernel or the machine.
const MASKED: &[&str] = &[
    "kallsyms",
    "kcore",
    "keys",
    "key-users",
    "timer_list",
    "interrupts",
    "cmdline",
    "sysrq-trigger",
    "config.gz",
    "kmsg",
    "latency_stats",
    "sched_debug",
    "iomem",
    "ioports",
    "modules",
    "pressure",
    "vmallocinfo",
    "slabinfo",
    "kpagecount",
    "kpageflags",
    "kpagecgroup",
    "acpi",
    "asound",
    "bus",
    "driver",
    "fs",
    "irq",
    "scsi",
    "tty",
];

/// Where the new root is put together: any directory that is surely there does, because the old root is gone in a moment and all sources are
/// held already.
const WORKSHOP: &str = "/tmp";

/// What is cloned before the root is gone: the sources of every mount.
pub struct Sources {
    root: Option<Tree>,
    system: Vec<(String, Shown)>,
    etc: Option<Tree>,
    devices: Devices,
    trees: Trees,
}

/// What a plan names of the host.
pub struct Trees {
    root: Option<Tree>,
    etc: Option<Tree>,
    /// Where they were prepared.
    devices: Option<Devices>,
    /// What is put over the settings of a system of its own: names of files in /etc.
    names: Vec<(&'static str, Tree)>,
    /// What a system of its own shows, where the plan names one.
    shown: Vec<(String, Shown)>,
    /// Parts of the host's system that are the place's own, with where they belong.
    parts: Vec<(&'static str, Tree)>,
    binds: Vec<Bound>,
}

pub struct Bound {
    /// Relative to the root.
    pub target: String,
    is_directory: bool,
    may_make: bool,
    pub writable: bool,
    /// What is made in it is the place's own.
    pub layered: bool,
    tree: Tree,
}

enum Shown {
    Tree(Tree, bool),
    Link(PathBuf),
}

impl Trees {
    /// Clones what the plan names; with an identity, the owner of each is seen as the place's own user.
    pub fn of(plan: &Plan, identity: Option<Identity>) -> Result<Self> {
        let (mut parts, mut shown) = (Vec::new(), Vec::new());
        let translations = &mut Translations::default();
        let root = match &plan.root {
            RootView::Overlay(overlay) => Some(layers::mount(overlay, &[], identity, translations)?),
            RootView::HostCopy { layers, below, volatile } => {
                parts = own_parts(plan, layers, below, *volatile, identity, translations)?;
                None
            }
            RootView::Directory(directory) => {
                shown = shown_of(directory, identity, translations)?;
                None
            }
            RootView::Host => None,
        };
        // What is no system belongs to one user on the host.
        let identity = identity.map(Identity::of_one);
        let mut binds = Vec::new();
        for bind in &plan.binds {
            let target = targets::relative(&bind.target)?;
            let (tree, is_directory, writable, layered) = match &bind.source {
                Source::Host { path, access } => {
                    let tree = Tree::clone_settled(path)?;
                    let is_directory = targets::is_directory(tree.as_fd())?;
                    if let Some(identity) = identity {
                        tree.translate_from(tree.as_fd(), identity, translations)?;
                    }
                    tree.harden(*access)?;
                    (tree, is_directory, *access == Access::ReadWrite, false)
                }
                Source::Overlay { overlay, access } => {
                    let reserved = plan.protected.iter().filter_map(|path| path.strip_prefix(&bind.target).ok());
                    let reserved = reserved.map(targets::relative).collect::<Result<Vec<_>>>()?;
                    let tree = layers::mount(overlay, &reserved, identity, translations)?;
                    if *access == Access::ReadOnly {
                        tree.harden(Access::ReadOnly)?;
                    }
                    (tree, true, *access == Access::ReadWrite, true)
                }
            };
            binds.push(Bound { target, is_directory, may_make: bind.make_target, writable, layered, tree });
        }
        // Those above first, so that they do not cover those below.
        binds.sort_by_key(|bound| bound.target.split('/').count());
        // Out here as well: what keeps it may be open to its owner alone.
        let settings = |path: &Path| {
            let tree = Tree::clone_of(path)?;
            tree.harden_data().map(|()| tree)
        };
        let (mut etc, mut names) = (None, Vec::new());
        if matches!(plan.root, RootView::Directory(_) | RootView::Overlay(_)) {
            for name in ["resolv.conf", "hosts"] {
                names.push((name, settings(&plan.skeleton.etc().join(name))?));
            }
        } else {
            etc = Some(settings(plan.skeleton.etc())?);
        }
        let devices = plan.skeleton.devices().map(|directory| Devices::whole(&directory)).transpose()?;
        Ok(Self { root, etc, devices, names, shown, parts, binds })
    }
}

/// The host's system with a layer on each part of it.
fn own_parts(
    plan: &Plan,
    layers: &Path,
    below: &[PathBuf],
    volatile: bool,
    identity: Option<Identity>,
    translations: &mut Translations,
) -> Result<Vec<(&'static str, Tree)>> {
    let mut trees = Vec::new();
    if identity.is_none_or(|identity| identity.count == 1) {
        return Err(Error::Inside("a copy of the host's system is only for a place with a system of its own".to_owned()));
    }
    for part in plan.skeleton.system() {
        let own = layers.join(part.name);
        let (upper, work) = (own.join("upper"), own.join("work"));
        for directory in [&own, &upper, &work] {
            std::fs::create_dir_all(directory).step(format!("make {}", directory.display()))?;
            // Seen by ids that do not own it, whatever the mask is that it is made under; what holds all of it is closed to others.
            std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).step(format!("open {}", directory.display()))?;
        }
        let overlay = crate::plan::Overlay { lower: part.lower, upper, work, volatile };
        // A part that was never written to while a layer was made is not in it.
        let sealed: Vec<PathBuf> = below.iter().map(|layer| layer.join(part.name).join("upper")).filter(|layer| layer.is_dir()).collect();
        let host = LowerIdentity(identity.filter(|_| part.owned));
        trees.push((part.target, layers::mount_over(&overlay, &[], identity, &sealed, host, translations)?));
    }
    Ok(trees)
}

impl Sources {
    /// Clones what every place shows of the system.
    pub fn collect(plan: &Plan, mut trees: Trees) -> Result<Self> {
        let root = trees.root.take();
        let etc = trees.etc.take();
        let devices = match trees.devices.take() {
            Some(devices) => devices,
            None => Devices::each()?,
        };
        let mut sources = Self { root, system: std::mem::take(&mut trees.shown), etc, devices, trees };
        match &plan.root {
            RootView::Host | RootView::HostCopy { .. } => {
                let own = |name: &str| sources.trees.parts.iter().any(|(target, _)| *target == name);
                for name in SYSTEM.iter().filter(|name| !own(name)).copied().collect::<Vec<_>>() {
                    sources.system.extend(shown(Path::new("/"), name)?.map(|shown| (name.to_owned(), shown)));
                }
            }
            RootView::Directory(_) | RootView::Overlay(_) => {}
        }
        Ok(sources)
    }
}

/// What a directory that holds a system shows of it, name by name. With an identity, its owner is seen as the place's own user, who can
/// so read what only that owner can.
fn shown_of(directory: &Path, identity: Option<Identity>, translations: &mut Translations) -> Result<Vec<(String, Shown)>> {
    let step = || format!("read {}", directory.display());
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held =
        openat2(CWD, directory, flags, Mode::empty(), how).step(format!("open {}, of which no step may be a link", directory.display()))?;
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(&held).step(step())? {
        let entry = entry.step(step())?;
        let Some(name) = entry.file_name().to_str().ok().filter(|name| !OWN.contains(name) && !matches!(*name, "." | "..")) else {
            continue;
        };
        let status = statat(&held, name, AtFlags::SYMLINK_NOFOLLOW).step(step())?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&held, name, Vec::new()).step(format!("read the link /{name}"))?;
                found.push((name.to_owned(), Shown::Link(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))));
            }
            kind @ (FileType::Directory | FileType::RegularFile) => {
                let tree = Tree::clone_whole(held.as_fd(), name)?;
                if let Some(identity) = identity {
                    tree.translate_from(held.as_fd(), identity, translations)?;
                }
                tree.harden(Access::ReadOnly)?;
                found.push((name.to_owned(), Shown::Tree(tree, kind.is_dir())));
            }
            _ => {}
        }
    }
    Ok(found)
}

fn shown(directory: &Path, name: &str) -> Result<Option<Shown>> {
    let path = directory.join(name);
    let Ok(metadata) = std::fs::symlink_metadata(&path) else { return Ok(None) };
    if metadata.is_symlink() {
        let target = std::fs::read_link(&path).step(format!("read the link {}", path.display()))?;
        return Ok(Some(Shown::Link(target)));
    }
    if !metadata.is_dir() && !metadata.is_file() {
        return Ok(None);
    }
    let tree = Tree::clone_of(&path)?;
    tree.harden(Access::ReadOnly)?;
    Ok(Some(Shown::Tree(tree, metadata.is_dir())))
}

/// What is needed of a root once it was entered.
pub struct Entered {
    /// Paths below which something can be written.
    pub writable: Vec<String>,
    pub secrets: Option<secrets::Directory>,
}

/// Builds the root and goes into it. Runs in the new namespaces, with their capabilities still held.
pub fn enter(plan: &Plan, sources: Sources) -> Result<Entered> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).step("make mounts private")?;
    let Sources { root, system, etc, devices, trees } = sources;
    let Trees { binds, parts, names, .. } = trees;
    // One filesystem in memory for everything that is written outside the binds: one bound, and little to make and to take down.
    let memory = Tree::temporary("0755", plan.memory_for_files())?;
    memory.attach(CWD, WORKSHOP)?;
    let memory = memory.into_fd();
    for (name, mode) in [("tmp", 0o1777), ("var-tmp", 0o1777), ("shm", 0o1777), ("run", 0o755), ("home", 0o755), ("root", 0o755)] {
        make_directory(memory.as_fd(), name, mode)?;
    }
    make_directory(memory.as_fd(), "empty", 0o555)?;
    openat(&memory, "nothing", OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o444)).step("make an empty file")?;
    for name in ["empty", "nothing"] {
        // Hardened once: the copies are too.
        let tree = Tree::clone_below(memory.as_fd(), name)?;
        tree.harden_data()?;
        tree.attach(memory.as_fd(), name)?;
    }
    make_directory(memory.as_fd(), &format!("home/{USER}"), 0o755)?;

    let own_root = root.is_some();
    match root {
        Some(root) => root,
        None => Tree::clone_below(memory.as_fd(), "root")?,
    }
    .attach(memory.as_fd(), "root")?;
    let base = openat(&memory, "root", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).step("open the new root")?;
    // What may get new names: everything in memory, and the layers of the place's own.
    let mut own = vec![targets::status(memory.as_fd())?.st_dev, targets::status(base.as_fd())?.st_dev];

    let is_image = matches!(plan.root, RootView::Directory(_));
    let has_etc = own_root || system.iter().any(|(name, _)| name == "etc");
    for (name, shown) in system {
        match shown {
            Shown::Link(target) => symlinkat(&target, &base, &name).step(format!("link /{name}"))?,
            Shown::Tree(tree, directory) => tree.attach_on(targets::make(base.as_fd(), &name, directory, |_| true)?.as_fd())?,
        }
    }
    let mut writable = Vec::new();
    for (target, tree) in &parts {
        let point = targets::make(base.as_fd(), target, true, |_| true)?;
        tree.attach_on(point.as_fd())?;
        writable.push(format!("/{target}"));
    }
    if is_image {
        make_directory(base.as_fd(), "etc", 0o755).or_else(|error| if has_etc { Ok(()) } else { Err(error) })?;
    } else if !has_etc {
        for name in ["etc", "var", "root", "mnt", "srv"] {
            make_directory(base.as_fd(), name, 0o755)?;
        }
    }
    // A system of its own keeps its own settings, but is told where names are resolved.
    attach_names(base.as_fd(), names, &own)?;
    if is_image {
        users::attach(memory.as_fd(), base.as_fd(), &own)?;
    }
    if let Some(etc) = etc.filter(|_| parts.is_empty()) {
        make_directory(base.as_fd(), "var/log", 0o755)?;
        etc.attach(base.as_fd(), "etc")?;
    }
    devices.attach(memory.as_fd(), base.as_fd(), own_root, &own)?;
    attach_processes(memory.as_fd(), base.as_fd(), &own)?;
    let mut places = vec![("tmp", "tmp"), ("run", "run")];
    if is_image {
        // Those who live in the image are nobody here; its own user has a home that can be written.
        places.push(("home", "home"));
        places.extend(targets::find(base.as_fd(), "var/tmp").ok().flatten().map(|_| ("var-tmp", "var/tmp")));
    } else if !has_etc {
        places.extend([("var-tmp", "var/tmp"), ("home", "home")]);
    }
    if !parts.is_empty() {
        make_directory(memory.as_fd(), "root-home", 0o700)?;
        places.push(("root-home", "root"));
    }
    own.extend(parts.iter().map(|(_, tree)| targets::status(tree.as_fd()).map(|status| status.st_dev)).collect::<Result<Vec<_>>>()?);
    for (name, path) in places {
        writable.push(format!("/{path}"));
        let target = targets::make(base.as_fd(), path, true, |device| own.contains(&device))?;
        Tree::clone_below(memory.as_fd(), name)?.attach_on(target.as_fd())?;
    }
    attach_binds(base.as_fd(), &mut own, &binds)?;
    protect::protect(base.as_fd(), plan, &binds, &own)?;
    protect::hide(memory.as_fd(), base.as_fd(), plan)?;
    // Last of all, so that nothing lies over it.
    let secrets = plan.secrets.as_deref().map(|path| secrets::Directory::make(path, memory.as_fd(), base.as_fd(), &own)).transpose()?;
    if !own_root {
        // The root itself holds only mount points; nobody writes beside them.
        crate::kernel::set_one_mount_attributes(base.as_fd(), libc::MOUNT_ATTR_RDONLY).step("make the root read-only")?;
    }
    fchdir(&base).step("go to the new root")?;
    pivot_root(".", ".").step("change the root")?;
    unmount(".", UnmountFlags::DETACH).step("leave the old root")?;
    std::env::set_current_dir("/").step("go to the root")?;
    if own_root {
        writable = vec!["/".to_owned()];
    } else {
        writable.extend(binds.iter().filter(|bound| bound.writable).map(|bound| format!("/{}", bound.target)));
    }
    // Init's own way is not below any other path.
    writable.extend(plan.secrets.as_ref().map(|path| path.display().to_string()));
    Ok(Entered { writable, secrets })
}

pub fn make_directory(base: BorrowedFd<'_>, path: &str, mode: u32) -> Result<()> {
    match mkdirat(base, path, Mode::from_raw_mode(mode & 0o755)) {
        // The mask of the process does not let the rest through.
        Ok(()) if mode & !0o755 != 0 => {
            rustix::fs::chmodat(base, path, Mode::from_raw_mode(mode), rustix::fs::AtFlags::empty()).step(format!("open up /{path}"))
        }
        Err(rustix::io::Errno::EXIST) => Ok(()),
        outcome => outcome.step(format!("make /{path}")),
    }
}

fn attach_binds(base: BorrowedFd<'_>, own: &mut Vec<u64>, binds: &[Bound]) -> Result<()> {
    for bound in binds {
        let may_make = |device| bound.may_make || own.contains(&device);
        let target = targets::make(base, &bound.target, bound.is_directory, may_make)?;
        bound.tree.attach_on(target.as_fd())?;
        if bound.layered {
            own.push(targets::status(bound.tree.as_fd())?.st_dev);
        }
    }
    Ok(())
}

/// Something empty to cover what is not to be seen.
pub fn empty(memory: BorrowedFd<'_>, directory: bool) -> Result<Tree> {
    Tree::clone_below(memory, if directory { "empty" } else { "nothing" })
}

/// Which names there are and who answers for others: the host's say, also in a system of its own.
fn attach_names(base: BorrowedFd<'_>, names: Vec<(&'static str, Tree)>, own: &[u64]) -> Result<()> {
    for (name, ours) in names {
        // A link there is left alone: it leads to what the system of its own would run. One that is missing is made where that is ours.
        if let Ok(theirs) = targets::make(base, &format!("etc/{name}"), false, |device| own.contains(&device)) {
            ours.attach_on(theirs.as_fd())?;
        }
    }
    Ok(())
}

fn attach_processes(memory: BorrowedFd<'_>, base: BorrowedFd<'_>, own: &[u64]) -> Result<()> {
    let plain = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let target = targets::make(base, "proc", true, |device| own.contains(&device))?;
    let processes = Tree::new("proc", &[], plain)?;
    processes.attach_on(target.as_fd())?;
    // Settings of the kernel may be read, not set.
    let settings = Tree::clone_below(processes.as_fd(), "sys")?;
    settings.make_read_only()?;
    settings.attach(processes.as_fd(), "sys")?;
    for name in MASKED {
        match statat(processes.as_fd(), *name, AtFlags::SYMLINK_NOFOLLOW) {
            // What only the host's root may open needs no mask: nobody inside is that.
            Ok(status) if status.st_mode & 0o077 != 0 => {
                empty(memory, FileType::from_raw_mode(status.st_mode).is_dir())?.attach(processes.as_fd(), name)?;
            }
            Ok(_) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error).step(format!("look at /proc/{name}")),
        }
    }
    Ok(())
}
