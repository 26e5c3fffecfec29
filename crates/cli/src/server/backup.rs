//! `stead backup` and `stead restore`: the store in a file, with or without a running server.

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use stead_domain::{Code, Context, Error, Result};
use stead_store::backup::{self, BackupError};
use stead_store::{Store, hosts, settings};

use super::configuration::Configuration;
use super::directory::DataDirectory;
use super::start::{INSTALLATION, open_store};
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
        let store = open_store(&configuration).await?;
        let unfinished = file.with_extension("unfinished");
        let _ = fs::remove_file(&unfinished);
        let failed = |error: std::io::Error| file_error(file, &error);
        let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished).map_err(failed)?;
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

/// Puts a backup in place. No server may use the store meanwhile, and every fence jumps far ahead.
pub fn restore(options: ServeOptions, file: &Path, replace: bool) -> Result<()> {
    let configuration = Configuration::settle(options)?;
    let input = File::open(file).map_err(|error| file_error(file, &error))?;
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
