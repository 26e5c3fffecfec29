//! `stead env export --archive`: an environment into a file, or to stdout.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::Serialize;
use stead_client::{Client, ClientError};
use stead_domain::archive::ExportRequest;
use stead_domain::checkpoint::OnRunning;
use stead_domain::environment::Environment;

use super::export::is_there;
use crate::atomic_file;
use crate::commands::copy::bar::bar;
use crate::failure::{Failure, Result, file_error};
use crate::invocation::Invocation;
use crate::printer::human;
use crate::session::patience::{Attempts, is_absence};

/// What was written.
#[derive(Debug, Serialize)]
struct Exported {
    archive: String,
    /// Bytes.
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_id: Option<String>,
}

pub async fn write(invocation: &Invocation<'_>, client: &Client, environment: &Environment, path: &Path, stop: bool) -> Result<()> {
    let request = ExportRequest { on_running: stop.then_some(OnRunning::Stop) };
    let shown = path.display().to_string();
    let bar = bar(invocation, &shown, Some(0));
    let written = if path == Path::new("-") {
        to_stdout(invocation, client, environment, &request, &bar).await
    } else {
        to_file(client, environment, &request, path, &bar).await
    };
    bar.finish_and_clear();
    let exported = written?;
    if path == Path::new("-") {
        return Ok(());
    }
    invocation.printer.record(&exported, &shown, |printer| {
        printer.note(&format!("wrote {} ({})", exported.archive, human::bytes(exported.size)));
        printer.note(&format!("on another machine: stead env import --archive {}", exported.archive));
        Ok(())
    })
}

async fn to_stdout(
    invocation: &Invocation<'_>,
    client: &Client,
    environment: &Environment,
    request: &ExportRequest,
    bar: &ProgressBar,
) -> Result<Exported> {
    if io::stdout().is_terminal() {
        return Err(Failure::usage("an archive is not for a terminal: name a file, or send it through a pipe"));
    }
    if invocation.printer.is_json() {
        return Err(Failure::usage("with --json there is no room for an archive on stdout: name a file"));
    }
    Ok(download(client, environment, request, bar, "-", &mut io::stdout()).await?)
}

/// Beside it under another name until it is whole and on the disk. A server that restarts is waited for, and then it is made anew.
async fn to_file(client: &Client, environment: &Environment, request: &ExportRequest, path: &Path, bar: &ProgressBar) -> Result<Exported> {
    atomic_file::check_directory(path)?;
    if path.symlink_metadata().is_ok() {
        return Err(is_there(path));
    }
    let part = Part(part_of(path));
    let failed = |error: io::Error| file_error("write", &part.0, &error);
    let attempts = Attempts::new();
    let mut exported = loop {
        // Everything in it is the environment's: nobody else reads it.
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&part.0).map_err(failed)?;
        match download(client, environment, request, bar, &part.0.display().to_string(), &mut file).await {
            Err(Broken::There(error)) if is_absence(&error) && attempts.once_more().await => bar.reset(),
            outcome => {
                file.sync_all().map_err(failed)?;
                break outcome?;
            }
        }
    };
    match renameat_with(CWD, &part.0, CWD, path, RenameFlags::NOREPLACE) {
        // Some file systems do not know the flag; a link never replaces either.
        Err(Errno::INVAL | Errno::NOSYS) => fs::hard_link(&part.0, path).map_err(|error| file_error("write", path, &error))?,
        Err(Errno::EXIST) => return Err(is_there(path)),
        outcome => outcome.map_err(|error| file_error("write", path, &error.into()))?,
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(|error| file_error("write", path, &error))?;
    exported.archive = path.display().to_string();
    Ok(exported)
}

async fn download(
    client: &Client,
    environment: &Environment,
    request: &ExportRequest,
    bar: &ProgressBar,
    shown: &str,
    output: &mut (dyn Write + Send),
) -> Result<Exported, Broken> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::BrokenPipe => Broken::Here(Failure::OutputClosed),
        _ => Broken::Here(file_error("write", Path::new(shown), &error)),
    };
    let mut archive = client.export_environment(environment.id, request).await?;
    bar.set_length(archive.size().unwrap_or(0));
    let checkpoint_id = archive.checkpoint().map(str::to_owned);
    let mut size = 0;
    while let Some(bytes) = archive.next().await? {
        output.write_all(&bytes).map_err(failed)?;
        size += bytes.len() as u64;
        bar.set_position(size);
    }
    output.flush().map_err(failed)?;
    Ok(Exported { archive: shown.to_owned(), size, checkpoint_id })
}

/// Which side an archive broke off on.
enum Broken {
    Here(Failure),
    There(ClientError),
}

impl From<ClientError> for Broken {
    fn from(error: ClientError) -> Self {
        Self::There(error)
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Here(failure) => failure,
            Broken::There(error) => error.into(),
        }
    }
}

/// What is not whole goes.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}
