//! A small process that starts the programs of others and tells how long each took.
//!
//! It may stand in a mount namespace of its own: without the unified cgroups, which crun and podman of some versions do not take beside the
//! older ones, or with file systems that nobody else is to see. Timing there leaves out what a wrapper around each command would cost.

use std::io::{BufRead, BufReader, Error, Result, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The word that makes this program the helper.
pub const HELPER: &str = "--run-for-another";
const UNIFIED: &str = "/sys/fs/cgroup/unified";

#[derive(Serialize, Deserialize)]
struct Answer {
    nanoseconds: u64,
    /// What it printed.
    output: String,
    /// Why it is no success.
    failure: Option<String>,
}

/// Whether what a command prints is read, which takes pipes and time, or goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    Read,
    Nowhere,
}

/// Runs a command to its end, and gives the time that it took and what it printed.
pub fn run_here(argv: &[String], output: Output) -> Result<(Duration, String)> {
    let (program, arguments) = argv.split_first().ok_or_else(|| Error::other("no program"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let failed = |error: Error| Error::new(error.kind(), format!("{program}: {error}"));
    if output == Output::Nowhere {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let started = Instant::now();
        let status = command.status().map_err(failed)?;
        let took = started.elapsed();
        // Once more for the reason.
        return if status.success() { Ok((took, String::new())) } else { run_here(argv, Output::Read) };
    }
    let started = Instant::now();
    let output = command.output().map_err(failed)?;
    let took = started.elapsed();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::other(format!("{}: {}", output.status, said.trim().lines().last().unwrap_or_default())));
    }
    Ok((took, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The helper itself: a line of JSON is a command, another is how it went.
pub fn serve() -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        let (argv, output): (Vec<String>, Output) = serde_json::from_str(&line?)?;
        let answer = match run_here(&argv, output) {
            Ok((took, output)) => Answer { nanoseconds: took.as_nanos() as u64, output, failure: None },
            Err(error) => Answer { nanoseconds: 0, output: String::new(), failure: Some(error.to_string()) },
        };
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

pub struct Helper {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Helper {
    pub fn start() -> Result<Self> {
        if Path::new(UNIFIED).exists() {
            return Self::start_after("umount \"$1\"");
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(HELPER);
        Self::begin(command)
    }

    /// One that has its mounts for itself: they go when it ends.
    pub fn start_apart() -> Result<Self> {
        Self::start_after(":")
    }

    fn start_after(first: &str) -> Result<Self> {
        let mut command = Command::new("unshare");
        let script = format!("{first} && exec \"$2\" \"$3\"");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh", UNIFIED]);
        command.arg(std::env::current_exe()?).arg(HELPER);
        Self::begin(command)
    }

    fn begin(mut command: Command) -> Result<Self> {
        // Whoever interrupts us from the terminal must not end it before it has cleared up.
        let mut child = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        Ok(Self { child, to, from: BufReader::new(from.ok_or_else(|| Error::other("no stdout"))?) })
    }

    pub fn run(&mut self, argv: &[String], output: Output) -> Result<(Duration, String)> {
        let to = self.to.as_mut().ok_or_else(|| Error::other("it has ended"))?;
        to.write_all((serde_json::to_string(&(argv, output))? + "\n").as_bytes())?;
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            return Err(Error::other("a mount namespace of its own could not be made"));
        }
        let answer: Answer = serde_json::from_str(&line)?;
        match answer.failure {
            Some(failure) => Err(Error::other(failure)),
            None => Ok((Duration::from_nanos(answer.nanoseconds), answer.output)),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(argv: &[&str]) -> Vec<String> {
        argv.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_fails_says_why() {
        assert_eq!(run_here(&words(&["/bin/echo", "hello"]), Output::Read).unwrap().1, "hello\n");
        assert_eq!(run_here(&words(&["/bin/echo", "hello"]), Output::Nowhere).unwrap().1, "");
        assert!(run_here(&words(&["/does/not/exist"]), Output::Read).unwrap_err().to_string().starts_with("/does/not/exist: "));
        let error = run_here(&words(&["/bin/sh", "-c", "echo first >&2; echo why >&2; exit 3"]), Output::Nowhere).unwrap_err().to_string();
        assert!(error.contains('3') && error.ends_with(": why"), "{error}");
        run_here(&[], Output::Read).unwrap_err();
    }
}
