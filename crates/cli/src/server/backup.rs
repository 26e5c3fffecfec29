//! `stead backup` and `stead restore`: the store in a file, with or without a running server.

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stead_domain::{Code, Context, Error, Result};
use stead_store::backup::{self, BackupError};
use stead_store::{Store, hosts, settings};

use super::configuration::Configuration;
use super::directory::DataDirectory;
use super::start::{INSTALLATION, open_store, open_store_as_it_is};
use super::{ServeOptions, runtime};
use crate::world;

/// Writes the whole store, as it is at one moment. A running server goes on.
pub fn backup(options: ServeOptions, file: &Path) -> Result<()> {
    let configuration = Configuration::settle(options)?;
    if configuration.database.is_none() && !configuration.data_dir.join("stead.db").exists() {
        return Err(Error::new(Code::NotFound, format!("there is no store in {}", configuration.data_dir.display()))
            .suggestion("give --data-dir or --database of the server to back up"));
    }
    runtime()?.block_on(async {
        let store = open_store_as_it_is(&configuration).await?;
        let failed = |error: std::io::Error| file_error(file, &error);
        let (out, unfinished) = begin(file, &world::context())?;
        let handle = out.try_clone().map_err(failed)?;
        let written = backup::write(&store, BufWriter::new(out), world::context().now()).await;
        store.close().await;
        let finished = written.map_err(|error| explain(error, file)).and_then(|_| {
            handle.sync_all().map_err(failed)?;
            fs::rename(&unfinished, file).map_err(failed)
        });
        if finished.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        finished
    })
}

/// A new file beside the one that is to be written. Nobody can know its name beforehand, so nobody's file is in the way or is taken for it.
fn begin(file: &Path, context: &Context) -> Result<(File, PathBuf)> {
    // What takes the place of a device or a pipe is of no use to whoever reads from it.
    let in_the_way = fs::symlink_metadata(file).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_symlink());
    let Some(name) = file.file_name().filter(|_| !in_the_way) else { return Err(not_a_file(file)) };
    let random: [u8; 16] = context.random();
    let suffix: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut unfinished = name.to_owned();
    unfinished.push(format!(".{suffix}.unfinished"));
    let unfinished = file.with_file_name(unfinished);
    let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished).map_err(|error| file_error(file, &error))?;
    Ok((out, unfinished))
}

/// Opens a backup to read. A pipe would hold the data directory for as long as nobody writes to it.
fn open_backup(file: &Path) -> Result<File> {
    let failed = |error: std::io::Error| file_error(file, &error);
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let input = OpenOptions::new().read(true).custom_flags(flags).open(file).map_err(failed)?;
    if !input.metadata().map_err(failed)?.is_file() {
        return Err(not_a_file(file));
    }
    Ok(input)
}

fn not_a_file(file: &Path) -> Error {
    Error::new(Code::LocalFile, format!("{} is not a regular file", file.display())).suggestion("give the path of a file")
}

/// Puts a backup in place. No server may use the store meanwhile, and every fence jumps far ahead.
pub fn restore(options: ServeOptions, file: &Path, replace: bool) -> Result<()> {
    let configuration = Configuration::settle(options)?;
    let input = open_backup(file)?;
    let directory = DataDirectory::open(&configuration.data_dir)?;
    runtime()?.block_on(async {
        let store = open_store(&configuration).await?;
        let outcome = restore_into(&store, &directory, input, file, replace, &world::context()).await;
        store.close().await;
        outcome
    })
}

async fn restore_into(store: &Store, directory: &DataDirectory, input: File, file: &Path, replace: bool, context: &Context) -> Result<()> {
    // The lock on the directory says nothing about other servers on the same PostgreSQL; their heartbeats do.
    let recently = context.now().minus(Duration::from_secs(60));
    let running = store.read(|unit| Box::pin(async move { Ok::<_, Error>(hosts::list(unit).await?) })).await?;
    if store.dialect() == stead_store::Dialect::Postgres
        && let Some(host) = running.iter().find(|host| host.heartbeat_at > recently)
    {
        return Err(Error::new(Code::StoreInUse, format!("a server at {} uses this database, or did a minute ago", host.address))
            .suggestion("end it, wait a minute, and try again"));
    }
    backup::restore(store, BufReader::new(input), replace).await.map_err(|error| explain(error, file))?;
    // What was made since the backup has no record now; this keeps the janitor from taking it for rubbish.
    let now = context.now().to_string();
    store.write(move |unit| Box::pin(async move { Ok::<_, Error>(settings::set(unit, settings::RESTORED_AT, &now).await?) })).await?;
    let installation = store.read(|unit| Box::pin(async move { Ok::<_, Error>(settings::get(unit, INSTALLATION).await?) })).await?;
    forget_empty_directory(directory, installation.as_deref());
    Ok(())
}

/// An empty directory of workspaces may change hands; one that holds some keeps its owner, and the server says so at its start.
fn forget_empty_directory(directory: &DataDirectory, installation: Option<&str>) {
    let marker = directory.join("sandboxes").join(".installation");
    let owner = fs::read_to_string(&marker).unwrap_or_default();
    let entries = fs::read_dir(directory.join("sandboxes")).map(Iterator::count).unwrap_or(0);
    if Some(owner.trim()) != installation && entries <= 1 {
        let _ = fs::remove_file(marker);
    }
}

fn file_error(file: &Path, error: &std::io::Error) -> Error {
    Error::new(Code::LocalFile, format!("{}: {error}", file.display())).suggestion("check the path, and that there is space and permission")
}

fn explain(error: BackupError, file: &Path) -> Error {
    let message = format!("{}: {error}", file.display());
    match error {
        BackupError::Store(error) => error.into(),
        BackupError::File(error) => file_error(file, &error),
        BackupError::NotEmpty => Error::new(Code::Conflict, "the store is not empty, and a backup replaces everything in it")
            .suggestion("say --replace if that is what you want; back up what is there first"),
        BackupError::OtherVersion { .. } => {
            Error::new(Code::Conflict, message).suggestion("restore it with the stead that wrote it, then upgrade")
        }
        BackupError::Malformed { .. } | BackupError::Damaged => {
            Error::new(Code::BadRequest, message).suggestion("nothing was changed; use another backup")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unfinished_has_a_name_of_its_own() {
        let directory = tempfile::TempDir::new().unwrap();
        let file = directory.path().join("stead.backup");
        let neighbour = directory.path().join("stead.unfinished");
        fs::write(&neighbour, "somebody's").unwrap();
        let (_, first) = begin(&file, &world::context()).unwrap();
        let (_, second) = begin(&file, &world::context()).unwrap();
        assert_ne!(first, second);
        assert_eq!(first.parent(), file.parent());
        assert_eq!(fs::read_to_string(neighbour).unwrap(), "somebody's");
        for path in [Path::new("/dev/null"), directory.path(), Path::new("/")] {
            assert_eq!(begin(path, &world::context()).unwrap_err().code(), Code::LocalFile);
        }
    }

    #[test]
    fn only_a_regular_file_is_restored() {
        let directory = tempfile::TempDir::new().unwrap();
        let (file, pipe) = (directory.path().join("file"), directory.path().join("pipe"));
        fs::write(&file, "").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        open_backup(&file).unwrap();
        for path in [pipe.as_path(), directory.path(), Path::new("/dev/zero"), &directory.path().join("missing")] {
            assert_eq!(open_backup(path).unwrap_err().code(), Code::LocalFile);
        }
    }
}
