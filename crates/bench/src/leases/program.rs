//! A program of somebody else's that answers over a socket: started in a directory of its own, ended with what is measured.

use std::fs::File;
use std::future::Future;
use std::io::{Error, Result};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long one may take until it answers.
const PATIENCE: Duration = Duration::from_secs(20);
const INTERVAL: Duration = Duration::from_millis(50);

pub struct Program {
    name: &'static str,
    child: Child,
    directory: TempDir,
}

impl Program {
    /// Starts it with arguments that may depend on its directory.
    pub fn start(name: &'static str, root: &Path, arguments: impl FnOnce(&Path) -> Vec<String>) -> Result<Self> {
        let Some(path) = find(name) else {
            return Err(Error::other(format!("{name} is not installed (`scripts/dependencies bench` installs it)")));
        };
        let directory = tempfile::Builder::new().prefix("stead-bench-").tempdir_in(root)?;
        let log = File::create(directory.path().join("log"))?;
        // It ends with us, however we end. An interruption from the terminal is ours to pass on.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(path).args(arguments(directory.path())).process_group(0);
        let child = command.current_dir(directory.path()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        Ok(Self { name, child, directory })
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Tries until it works: it answers by then.
    pub async fn until<T, F: Future<Output = Result<T>>>(&mut self, attempt: impl Fn() -> F) -> Result<T> {
        let limit = Instant::now() + PATIENCE;
        loop {
            let failure = match attempt().await {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() > limit {
                let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                let last = log.trim().lines().last().unwrap_or_default().to_owned();
                return Err(Error::other(format!("{} does not answer: {failure}; it said: {last}", self.name)));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_says_how_to_get_it() {
        let missing = Program::start("no-such-program", &std::env::temp_dir(), |_| Vec::new());
        let reason = missing.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(reason.starts_with("no-such-program is not installed") && reason.contains("scripts/dependencies bench"), "{reason}");
    }

    #[tokio::test]
    async fn what_ends_instead_of_answering_is_told_with_its_last_words() {
        let mut program =
            Program::start("sh", &std::env::temp_dir(), |_| ["-c", "echo why >&2; exit 3"].map(str::to_owned).to_vec()).unwrap();
        let directory = program.directory().to_owned();
        let reason = program.until(|| async { Err::<(), _>(Error::other("nobody there")) }).await.unwrap_err().to_string();
        assert_eq!(reason, "sh does not answer: nobody there; it said: why");
        drop(program);
        assert!(!directory.exists());
    }
}
