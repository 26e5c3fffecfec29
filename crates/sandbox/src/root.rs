//! The root that the inside sees: the host's system read-only, without homes, secrets or sockets, and a few places to write.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, symlinkat};
use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{fchdir, pivot_root};

use crate::error::{Result, Step};
use crate::identity::{self, Identity};
use crate::mounts::Tree;
use crate::plan::{Access, Plan};
use crate::skeleton::USER;

/// Directories of the system that are shown whole, where they are directories; links are copied as links.
const SYSTEM: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt"];

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Files of /proc that tell about the kernel or the machine, and what hides them.
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
    "vmallocinfo",
    "slabinfo",
    "kpagecount",
    "kpageflags",
    "kpagecgroup",
];
const MASKED_DIRECTORIES: &[&str] = &["acpi", "asound", "bus", "driver", "fs", "irq", "scsi", "tty", "sysvipc"];

/// What is cloned before the root is gone: the sources of every mount.
pub struct Sources {
    system: Vec<(&'static str, Source)>,
    etc: Tree,
    devices: Vec<(&'static str, Tree)>,
    binds: Vec<Bound>,
}

/// A tree of the plan, ready to be put in place: where, whether it is a directory, and the tree.
pub type Bound = (PathBuf, bool, Tree);

enum Source {
    Tree(Tree),
    Link(PathBuf),
}

impl Sources {
    /// Clones the binds of a plan; with an identity, the owner of each is seen as the place's own user.
    pub fn bound(plan: &Plan, identity: Option<Identity>) -> Result<Vec<Bound>> {
        plan.binds
            .iter()
            .map(|bind| {
                let tree = Tree::clone_of(&bind.source)?;
                let metadata =
                    rustix::fs::statat(tree.as_fd(), "", AtFlags::EMPTY_PATH).step(format!("look at {}", bind.source.display()))?;
                if let Some(identity) = identity {
                    let namespace = identity::translation(metadata.st_uid, metadata.st_gid, identity)?;
                    tree.translate(namespace.as_fd())?;
                }
                tree.harden(bind.access)?;
                let is_directory = rustix::fs::FileType::from_raw_mode(metadata.st_mode).is_dir();
                Ok((bind.target.clone(), is_directory, tree))
            })
            .collect()
    }

    /// Clones what every place shows of the system.
    pub fn collect(plan: &Plan, binds: Vec<Bound>) -> Result<Self> {
        let etc = Tree::clone_of(plan.skeleton.etc())?;
        etc.harden_data()?;
        let mut sources = Self { system: Vec::new(), etc, devices: Vec::new(), binds };
        for name in SYSTEM {
            let path = Path::new("/").join(name);
            match std::fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_symlink() => {
                    let target = std::fs::read_link(&path).step(format!("read the link {}", path.display()))?;
                    sources.system.push((name, Source::Link(target)));
                }
                Ok(metadata) if metadata.is_dir() => {
                    let tree = Tree::clone_of(&path)?;
                    tree.harden(Access::ReadOnly)?;
                    sources.system.push((name, Source::Tree(tree)));
                }
                _ => {}
            }
        }
        for name in DEVICES {
            let tree = Tree::clone_of(&Path::new("/dev").join(name))?;
            tree.harden_device()?;
            sources.devices.push((name, tree));
        }
        Ok(sources)
    }
}

/// Builds the root and goes into it. Runs in the new namespaces, with their capabilities still held.
pub fn enter(sources: Sources) -> Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).step("make mounts private")?;
    let Sources { system, etc, devices, binds } = sources;
    let root = Tree::temporary("0755", "16m")?;
    // Any directory does as the place to attach the new root: the old one is gone in a moment, and all sources are cloned already.
    root.attach(CWD, "/tmp")?;
    let base = open_directory(CWD, "/tmp")?;
    for (name, source) in system {
        match source {
            Source::Link(target) => symlinkat(&target, &base, name).step(format!("link /{name}"))?,
            Source::Tree(tree) => {
                make_directory(base.as_fd(), name)?;
                tree.attach(base.as_fd(), name)?;
            }
        }
    }
    for name in ["etc", "dev", "proc", "tmp", "run", "var", "var/tmp", "var/log", "home", "root", "mnt", "srv"] {
        make_directory(base.as_fd(), name)?;
    }
    etc.attach(base.as_fd(), "etc")?;
    attach_devices(base.as_fd(), devices)?;
    attach_processes(base.as_fd())?;
    for (path, mode, size) in [("tmp", "1777", "50%"), ("var/tmp", "1777", "50%"), ("run", "0755", "64m"), ("home", "0755", "50%")] {
        Tree::temporary(mode, size)?.attach(base.as_fd(), path)?;
    }
    for (target, is_directory, tree) in binds {
        let target = inside(&target)?;
        make_target(base.as_fd(), &target, is_directory)?;
        tree.attach(base.as_fd(), &target)?;
    }
    make_directory(base.as_fd(), &format!("home/{USER}"))?;
    fchdir(&base).step("go to the new root")?;
    pivot_root(".", ".").step("change the root")?;
    unmount(".", UnmountFlags::DETACH).step("leave the old root")?;
    std::env::set_current_dir("/").step("go to the root")?;
    make_root_read_only()
}

/// The tmpfs of the root itself holds only mount points; nobody writes beside them.
fn make_root_read_only() -> Result<()> {
    rustix::mount::mount_remount(
        "/",
        rustix::mount::MountFlags::RDONLY
            | rustix::mount::MountFlags::BIND
            | rustix::mount::MountFlags::NOSUID
            | rustix::mount::MountFlags::NODEV,
        c"",
    )
    .step("make the root read-only")
}

fn open_directory(base: BorrowedFd<'_>, path: &str) -> Result<OwnedFd> {
    openat(base, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).step(format!("open {path}"))
}

fn make_directory(base: BorrowedFd<'_>, path: &str) -> Result<()> {
    match mkdirat(base, path, Mode::from_raw_mode(0o755)) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        outcome => outcome.step(format!("make /{path}")),
    }
}

/// A path of the plan, relative to the root: no step of it leads anywhere else.
fn inside(path: &Path) -> Result<String> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(part) => parts.push(part.to_str().ok_or_else(|| bad_path(path))?),
            _ => return Err(bad_path(path)),
        }
    }
    if parts.is_empty() { Err(bad_path(path)) } else { Ok(parts.join("/")) }
}

fn bad_path(path: &Path) -> crate::Error {
    crate::Error::Inside(format!("`{}` is not a place to mount something", path.display()))
}

/// Makes the point that something is mounted on, with the directories above it.
fn make_target(base: BorrowedFd<'_>, path: &str, directory: bool) -> Result<()> {
    let mut at = String::new();
    let parts: Vec<&str> = path.split('/').collect();
    let above = if directory { parts.len() } else { parts.len() - 1 };
    for part in &parts[..above] {
        if !at.is_empty() {
            at.push('/');
        }
        at.push_str(part);
        make_directory(base, &at)?;
    }
    if !directory {
        openat(base, path, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::from_raw_mode(0o644))
            .step(format!("make /{path}"))?;
    }
    Ok(())
}

fn attach_devices(base: BorrowedFd<'_>, devices: Vec<(&'static str, Tree)>) -> Result<()> {
    Tree::new("tmpfs", &[("mode", "0755"), ("size", "64k")], MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC)?
        .attach(base, "dev")?;
    for (name, tree) in devices {
        let target = format!("dev/{name}");
        make_target(base, &target, false)?;
        tree.attach(base, &target)?;
    }
    for name in ["dev/pts", "dev/shm"] {
        make_directory(base, name)?;
    }
    Tree::new(
        "devpts",
        &[("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620")],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
    )?
    .attach(base, "dev/pts")?;
    Tree::temporary("1777", "50%")?.attach(base, "dev/shm")?;
    for (name, target) in [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlinkat(target, base, format!("dev/{name}")).step(format!("link /dev/{name}"))?;
    }
    Ok(())
}

fn attach_processes(base: BorrowedFd<'_>) -> Result<()> {
    let plain = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Tree::new("proc", &[], plain)?.attach(base, "proc")?;
    // Settings of the kernel may be read, not set.
    let settings = Tree::clone_of(Path::new("/tmp/proc/sys"))?;
    settings.harden_data()?;
    settings.attach(base, "proc/sys")?;
    for name in MASKED {
        let path = format!("/tmp/proc/{name}");
        if Path::new(&path).exists() {
            let null = Tree::clone_of(Path::new("/tmp/dev/null"))?;
            null.attach(base, &format!("proc/{name}"))?;
        }
    }
    // One empty directory hides them all.
    let mut empty: Option<PathBuf> = None;
    for name in MASKED_DIRECTORIES {
        let path = PathBuf::from(format!("/tmp/proc/{name}"));
        if path.is_dir() {
            let tree = match &empty {
                Some(first) => Tree::clone_of(first)?,
                None => Tree::new("tmpfs", &[("mode", "0555"), ("size", "4k")], plain | MountAttrFlags::MOUNT_ATTR_RDONLY)?,
            };
            tree.attach(base, &format!("proc/{name}"))?;
            empty.get_or_insert(path);
        }
    }
    Ok(())
}
