//! The others: what they are called with, what they need before, and what is removed of them afterwards.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{Error, Result};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::helper::{Helper, Output, run_here};

const IMAGE: &str = "stead-bench:latest";
const HELD: &str = "stead-bench";
const COMMITTED: &str = "stead-bench-committed:latest";
const BUSYBOX: &str = "/bin/busybox";

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A usual call of bubblewrap: everything apart, the host's files to read.
pub fn bwrap(command: &[&str]) -> Result<(Duration, String)> {
    let mut argv =
        words("bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-all --die-with-parent --new-session --cap-drop ALL");
    argv.extend(command.iter().map(|word| (*word).to_owned()));
    run_here(&argv, Output::Nowhere)
}

/// crun and podman, with everything that they keep in one directory of ours.
pub struct Containers {
    directory: PathBuf,
    helper: RefCell<Helper>,
    serial: Cell<usize>,
    /// Whether podman was ever asked for anything.
    podman: Cell<bool>,
    /// Groups of podman that were there before.
    groups: Vec<PathBuf>,
}

impl Containers {
    pub fn prepare(directory: PathBuf) -> Result<Self> {
        rootfs(&directory.join("bundle/rootfs"))?;
        Ok(Self { directory, helper: RefCell::new(Helper::start()?), serial: Cell::new(0), podman: Cell::new(false), groups: groups() })
    }

    fn run(&self, argv: &[String], output: Output) -> Result<(Duration, String)> {
        self.helper.borrow_mut().run(argv, output)
    }

    /// crun's own example of a configuration, without a terminal, for this command.
    pub fn prepare_crun(&self) -> Result<()> {
        let bundle = self.directory.join("bundle");
        self.run(&["sh", "-c", "cd \"$1\" && exec crun spec", "sh", &bundle.display().to_string()].map(str::to_owned), Output::Read)?;
        let path = bundle.join("config.json");
        let mut configuration: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        configuration["process"]["terminal"] = false.into();
        configuration["process"]["args"] = vec!["/bin/true"].into();
        fs::write(path, configuration.to_string())
    }

    pub fn crun(&self) -> Result<(Duration, String)> {
        self.serial.set(self.serial.get() + 1);
        let state = self.directory.join("crun").display().to_string();
        let bundle = self.directory.join("bundle").display().to_string();
        let name = format!("stead-bench-{}-{}", std::process::id(), self.serial.get());
        self.run(&["crun", "--root", &state, "run", "--bundle", &bundle, &name].map(str::to_owned), Output::Nowhere)
    }

    fn podman(&self, rest: &[&str], output: Output) -> Result<(Duration, String)> {
        self.podman.set(true);
        let mut argv = words("podman --cgroup-manager cgroupfs --events-backend file");
        for (option, name) in [("--root", "store"), ("--runroot", "state"), ("--tmpdir", "temporary")] {
            argv.extend([option.to_owned(), self.directory.join(name).display().to_string()]);
        }
        argv.extend(rest.iter().map(|word| (*word).to_owned()));
        self.run(&argv, output)
    }

    pub fn prepare_podman(&self) -> Result<()> {
        let image = self.directory.join("image.tar").display().to_string();
        let rootfs = self.directory.join("bundle/rootfs").display().to_string();
        self.run(&["tar", "-C", &rootfs, "-cf", &image, "."].map(str::to_owned), Output::Read)?;
        self.podman(&["import", "--quiet", &image, IMAGE], Output::Read).map(|_| ())
    }

    /// The limits are such as a root without every capability may set.
    fn podman_run(&self, options: &[&str], command: &[&str], output: Output) -> Result<(Duration, String)> {
        let usual = ["--network=none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
        self.podman(&[&["run"], &usual[..], options, &[IMAGE], command].concat(), output)
    }

    pub fn podman_once(&self, command: &[&str]) -> Result<(Duration, String)> {
        self.podman_run(&["--rm"], command, Output::Nowhere)
    }

    /// A container that stays, for commands in it.
    pub fn hold(&self) -> Result<()> {
        self.podman_run(&["--detach", "--name", HELD], &["/bin/sleep", "1000000"], Output::Read).map(|_| ())
    }

    pub fn podman_exec(&self, command: &[&str]) -> Result<(Duration, String)> {
        self.podman(&[&["exec", HELD], command].concat(), Output::Read)
    }

    /// Puts a tree into the container that stays.
    pub fn fill(&self, tree: &Path) -> Result<()> {
        self.podman(&["cp", &tree.display().to_string(), &format!("{HELD}:/tree")], Output::Read).map(|_| ())
    }

    /// What is in the container that stays, as an image. Nothing runs in it that would have to stand still.
    pub fn podman_commit(&self) -> Result<Duration> {
        let took = self.podman(&["commit", "--quiet", "--pause=false", HELD, COMMITTED], Output::Nowhere)?.0;
        self.podman(&["rmi", "--force", COMMITTED], Output::Nowhere)?;
        Ok(took)
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        if self.podman.get() {
            let _ = self.podman(&["rm", "--all", "--force", "--time", "0"], Output::Nowhere);
            let _ = self.podman(&["rmi", "--all", "--force"], Output::Nowhere);
            for group in groups().into_iter().filter(|group| !self.groups.contains(group)) {
                let _ = fs::remove_dir(group.join("conmon"));
                let _ = fs::remove_dir(group);
            }
        }
    }
}

/// The groups that podman makes above those of its containers, and leaves.
fn groups() -> Vec<PathBuf> {
    let controllers = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    controllers.map(|entry| entry.path().join("libpod_parent")).filter(|group| group.is_dir()).collect()
}

/// As little of a system as the commands need: one static program under several names.
fn rootfs(root: &Path) -> Result<()> {
    for directory in ["bin", "dev", "proc", "sys", "tmp", "etc"] {
        fs::create_dir_all(root.join(directory))?;
    }
    let copied = fs::copy(BUSYBOX, root.join("bin/busybox"));
    copied.map_err(|error| Error::new(error.kind(), format!("{BUSYBOX}, of which the containers' root is made: {error}")))?;
    for name in ["true", "echo", "sleep", "sh"] {
        symlink("busybox", root.join("bin").join(name))?;
    }
    Ok(())
}
