//! Out of an environment to here.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use stead_client::{Client, ClientError};
use tokio::sync::mpsc::Sender;

use super::bar::bar;
use super::channel::{Piece, channel};
use super::side::{There, name};
use super::{BEGINNINGS, Copied, here};
use crate::failure::{Result, file_error};
use crate::invocation::Invocation;
use crate::session::patience::{is_absence, patiently};

pub async fn copy(invocation: &Invocation<'_>, client: &Client, source: &There, target: &Path) -> Result<Copied> {
    let is_into = target.as_os_str().as_bytes().ends_with(b"/") || target.is_dir();
    let to = match name(source.path.as_bytes()) {
        Some(name) if is_into => target.join(std::ffi::OsStr::from_bytes(name)),
        _ => target.to_owned(),
    };
    let (shown, own) = (to.display().to_string(), to.as_os_str().as_bytes().to_vec());
    if source.is_directory(client).await? {
        let bar = bar(invocation, &shown, None);
        let moved = tree(client, source, &to, &bar).await;
        bar.finish_and_clear();
        let moved = moved?;
        return Ok(Copied { to: shown, size: moved.size, entries: Some(moved.count), name: own });
    }
    if let Some(parent) = to.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|error| file_error("make", parent, &error))?;
    }
    let mut beginnings = 0;
    loop {
        let bar = bar(invocation, &shown, None);
        let size = file(client, source, &to, &bar).await;
        bar.finish_and_clear();
        match size {
            // It is another one by now: from the beginning.
            Err(Interrupted::Changed) if beginnings < BEGINNINGS => beginnings += 1,
            Err(Interrupted::Changed) => return Err(ClientError::Changed { path: source.path.to_string() }.into()),
            Err(Interrupted::Failed(failure)) => return Err(failure),
            Ok(size) => return Ok(Copied { to: shown, size, entries: None, name: own }),
        }
    }
}

async fn tree(client: &Client, source: &There, to: &Path, bar: &ProgressBar) -> Result<stead_place::tree::Moved> {
    let mut beginnings = 0;
    loop {
        bar.reset();
        let (sender, pieces) = channel(bar);
        let (received, unpacked) = tokio::join!(receive(client, source, sender), here::unpacked(to, pieces));
        match received {
            Ok(()) => return unpacked,
            Err(error) if is_absence(&error) && beginnings < BEGINNINGS => beginnings += 1,
            Err(error) => return Err(error.into()),
        }
        patiently(async || client.get_environment(source.environment.id).await).await?;
    }
}

/// Passes an archive on. Whoever takes it may stop, and says why itself.
pub async fn receive(client: &Client, source: &There, sender: Sender<Piece>) -> stead_client::Result<()> {
    let mut archive = client.download_archive(source.environment.id, &source.path).await?;
    while let Some(bytes) = archive.next().await? {
        if sender.send(Ok(Some(bytes.to_vec()))).await.is_err() {
            return Ok(());
        }
    }
    let _ = sender.send(Ok(None)).await;
    Ok(())
}

enum Interrupted {
    Changed,
    Failed(crate::failure::Failure),
}

impl<E: Into<crate::failure::Failure>> From<E> for Interrupted {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Into a file beside the target that is named for what it is a part of, so that another attempt goes on with it, and then in its place.
async fn file(client: &Client, source: &There, to: &Path, bar: &ProgressBar) -> Result<u64, Interrupted> {
    let mut download = client.download_file(source.environment.id, &source.path).await?;
    if let Some(size) = download.size() {
        bar.set_length(size);
    }
    let part = part_of(to, download.tag());
    let failed = |error: std::io::Error| file_error("write", &part, &error);
    // Nobody else reads it before it is whole.
    let mut options = OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.create(true).append(true), 0o600);
    let mut file = options.open(&part).map_err(failed)?;
    let mut at = file.metadata().map_err(failed)?.len();
    if download.size().is_none_or(|size| at > size) {
        file.set_len(0).map_err(failed)?;
        at = 0;
    }
    download.skip_to(at);
    bar.set_position(at);
    loop {
        match download.next().await {
            Ok(Some(bytes)) => {
                file.write_all(&bytes).map_err(failed)?;
                at += bytes.len() as u64;
                bar.set_position(at);
            }
            Ok(None) => break,
            Err(ClientError::Changed { .. }) => {
                let _ = fs::remove_file(&part);
                return Err(Interrupted::Changed);
            }
            Err(error) => return Err(error.into()),
        }
    }
    file.set_permissions(Permissions::from_mode(download.mode().unwrap_or(0o644) & 0o777)).map_err(failed)?;
    file.sync_data().map_err(failed)?;
    fs::rename(&part, to).map_err(|error| file_error("write", to, &error))?;
    Ok(at)
}

fn part_of(to: &Path, tag: Option<&str>) -> PathBuf {
    let own = to.file_name().unwrap_or_default().as_bytes();
    let tag: String = tag.unwrap_or_default().chars().filter(char::is_ascii_alphanumeric).collect();
    // Names have an end.
    let name = [b".", &own[..own.len().min(180)], b".", tag.as_bytes(), b".part"].concat();
    to.with_file_name(std::ffi::OsString::from_vec(name))
}
