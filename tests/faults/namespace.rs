//! A server whose data directory is a mount of its own, in a mount namespace of its own: nothing of it is seen or left outside.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use crate::support::{Http, Server};

/// The command that makes such a namespace here: as root, or as an ordinary user where the kernel lets one.
pub fn way_in() -> Option<Vec<&'static str>> {
    let ways: [&[&str]; 2] = [&["unshare", "--mount"], &["unshare", "--user", "--map-root-user", "--mount"]];
    let works = |way: &&[&str]| {
        let mut command = Command::new(way[0]);
        command.args(&way[1..]).args(["sh", "-c", "mount -t tmpfs tmpfs /mnt"]);
        command.output().is_ok_and(|output| output.status.success())
    };
    ways.into_iter().find(works).map(<[&str]>::to_vec)
}

pub struct Enclosed {
    pub server: Server,
}

/// Starts one after these shell commands, in which `$DIR` is its data directory; what it said when it did not start.
pub fn start(way: &[&'static str], directory: Arc<TempDir>, prepare: &str) -> Result<Enclosed, (i32, String)> {
    let script = format!("DIR='{}'; {prepare} && exec \"$@\"", directory.path().display());
    let wrapper: Vec<&str> = way.iter().copied().chain(["sh", "-c", &script, "sh"]).collect();
    let server = Server::builder().on(directory).through(&wrapper).try_start()?;
    Ok(Enclosed { server })
}

impl Enclosed {
    /// A path in its data directory, as the server sees it.
    pub fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}/{name}", self.server.pid(), self.server.path().display()))
    }

    pub fn http(&self) -> Http {
        let key = std::fs::read_to_string(self.path("owner.key")).unwrap();
        Http::new(&self.server.address, Some(key.trim().to_owned()))
    }

    /// Runs shell commands where the server is.
    pub fn shell(&self, script: &str) {
        let script = format!("DIR='{}'; {script}", self.server.path().display());
        let pid = self.server.pid().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid, "--mount"]);
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        let output = command.args(["sh", "-c", &script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
