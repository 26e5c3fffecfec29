//! What the doctor can mend by itself.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stead_domain::{Code, Error};

use crate::atomic_file;
use crate::failure::{Result, file_error};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    SetMode {
        path: PathBuf,
        mode: u32,
    },
    RemoveSocket {
        path: PathBuf,
    },
    Install(Install),
    /// A command that the user may run.
    Run(Vec<String>),
}

/// A setting of the machine, which is root's to write, and what makes it hold at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    path: PathBuf,
    text: String,
    commands: Vec<Vec<String>>,
}

impl Install {
    pub fn new(path: PathBuf, text: String) -> Self {
        Self { path, text, commands: Vec::new() }
    }

    #[must_use]
    pub fn then_run(mut self, command: &[&str]) -> Self {
        self.commands.push(command.iter().map(|word| (*word).to_owned()).collect());
        self
    }

    /// The same with a path at its end.
    #[must_use]
    pub fn then(self, command: &[&str], path: &Path) -> Self {
        let path = path.display().to_string();
        self.then_run(&[command, &[path.as_str()]].concat())
    }

    pub fn write(&self) -> Result<()> {
        atomic_file::replace(&self.path, self.text.as_bytes(), 0o644)
    }

    #[cfg(test)]
    pub fn commands(&self) -> &[Vec<String>] {
        &self.commands
    }
}

impl Repair {
    /// Whether an ordinary user would only be refused.
    pub fn needs_root(&self) -> bool {
        matches!(self, Self::Install(_))
    }

    pub fn carry_out(&self) -> Result<()> {
        match self {
            Self::SetMode { path, mode } => {
                fs::set_permissions(path, Permissions::from_mode(*mode)).map_err(|error| file_error("change the mode of", path, &error))
            }
            Self::RemoveSocket { path } => {
                // A server may have come up since the check; its socket is not stale.
                let refused = UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
                if refused { fs::remove_file(path).map_err(|error| file_error("remove", path, &error)) } else { Ok(()) }
            }
            Self::Install(install) => {
                install.write()?;
                install.commands.iter().try_for_each(|command| run(command))
            }
            Self::Run(command) => run(command),
        }
    }

    /// What to type in a shell, for those who are not root.
    pub fn by_sudo(&self) -> String {
        let Self::Install(install) = self else { return self.to_string() };
        let directory = install.path.parent().unwrap_or(Path::new("/"));
        let mut lines = format!("sudo mkdir -p {}\n", quoted(&directory.display().to_string()));
        lines += &format!("sudo tee {} >/dev/null <<'END'\n{}END\n", quoted(&install.path.display().to_string()), install.text);
        for command in &install.commands {
            lines += &format!("sudo {}\n", typed(command));
        }
        lines.trim_end().to_owned()
    }
}

fn run(command: &[String]) -> Result<()> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let failed = |why: String| Error::new(Code::LocalFile, format!("`{}` {why}", typed(command))).suggestion("run it by hand to see more");
    let status = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("ended with {status}")).into()),
        Err(error) => Err(failed(format!("cannot be run: {error}")).into()),
    }
}

fn typed(command: &[String]) -> String {
    command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._+-@:=".contains(character);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

impl fmt::Display for Repair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetMode { path, mode } => write!(formatter, "chmod {mode:04o} {}", path.display()),
            Self::RemoveSocket { path } => write!(formatter, "rm {}", path.display()),
            Self::Install(install) => {
                write!(formatter, "write {}:", install.path.display())?;
                install.text.lines().try_for_each(|line| write!(formatter, "\n    {line}"))?;
                install.commands.iter().try_for_each(|command| write!(formatter, "\n{}", typed(command)))
            }
            Self::Run(command) => formatter.write_str(&typed(command)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_root_is_told_what_to_type() {
        let install = Install::new("/etc/a b/stead.conf".into(), "one\ntwo\n".to_owned()).then_run(&["sysctl", "-p"]);
        let repair = Repair::Install(install);
        assert!(repair.needs_root());
        assert_eq!(
            repair.by_sudo(),
            "sudo mkdir -p '/etc/a b'\nsudo tee '/etc/a b/stead.conf' >/dev/null <<'END'\none\ntwo\nEND\nsudo sysctl -p"
        );
        assert_eq!(repair.to_string(), "write /etc/a b/stead.conf:\n    one\n    two\nsysctl -p");
    }

    #[test]
    fn a_command_that_is_not_there_is_said() {
        let error = Repair::Run(vec!["/nonexistent/loginctl".to_owned(), "enable-linger".to_owned()]).carry_out().unwrap_err();
        assert!(error.body().unwrap().error.message.contains("/nonexistent/loginctl enable-linger"));
        Repair::Run(vec!["true".to_owned()]).carry_out().unwrap();
    }
}
