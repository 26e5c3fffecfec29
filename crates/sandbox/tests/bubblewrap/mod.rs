//! The same probes under bubblewrap, as its manual and its example start it.

use std::path::Path;
use std::process::{Command, Stdio};

const OPTIONS: &str = "--unshare-all --die-with-parent --new-session --clearenv --setenv PATH /usr/bin:/bin
--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib --symlink usr/lib64 /lib64
--ro-bind-try /etc/ld.so.cache /etc/ld.so.cache --ro-bind-try /etc/alternatives /etc/alternatives
--ro-bind /etc/passwd /etc/passwd --ro-bind /etc/group /etc/group --ro-bind-try /etc/resolv.conf /etc/resolv.conf
--dir /var --dir /run --proc /proc --dev /dev --tmpfs /tmp --bind WORKSPACE /workspace --chdir /workspace";

/// As the page shows it.
pub fn shown() -> String {
    format!("bwrap {} PROGRAM", OPTIONS.replace('\n', " \\\n  "))
}

/// Which one there is, on which kernel.
pub fn version() -> Option<String> {
    let said = Command::new("bwrap").arg("--version").output().ok().filter(|output| output.status.success())?;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let kernel: Vec<&str> = kernel.split('.').take(2).collect();
    Some(format!("{} on Linux {}", String::from_utf8_lossy(&said.stdout).trim(), kernel.join(".")))
}

/// How it ended, if it did, and what it said.
pub fn run(workspace: &Path, script: &str) -> (Option<i32>, String) {
    let workspace = workspace.display().to_string();
    // Its first process can be stopped from inside: only from outside is it ended then.
    let output = Command::new("timeout")
        .args(["-s", "KILL", "10", "bwrap"])
        .args(OPTIONS.split_whitespace().map(|word| if word == "WORKSPACE" { &workspace } else { word }))
        .args(["python3", "-S", "-c", script])
        .env("HOST_SECRET", "in the environment")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}
