//! From here into an environment.

use std::fs::Metadata;
use std::io::SeekFrom;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use indicatif::ProgressBar;
use sha2::{Digest, Sha256};
use stead_client::{Client, ClientError, Upload};
use stead_domain::Code;
use stead_domain::files::FilePath;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::bar::bar;
use super::channel::{Counted, channel};
use super::side::{There, name};
use super::{BEGINNINGS, Copied, here};
use crate::failure::{Failure, Result, file_error};
use crate::invocation::Invocation;
use crate::session::patience::{Attempts, is_absence, patiently};

/// What is sent in one request. A file that is longer goes up in parts, under a name of its own, and gets its name when it is whole.
const PART: u64 = 32 << 20;

pub async fn copy(invocation: &Invocation<'_>, client: &Client, source: &Path, target: &There) -> Result<Copied> {
    let metadata = std::fs::metadata(source).map_err(|error| file_error("read", source, &error))?;
    let to = target.place(client, name(source.as_os_str().as_bytes())).await?;
    let shown = target.shown(&to);
    if metadata.is_dir() {
        let bar = bar(invocation, &shown, None);
        let written = tree(client, source, target, &to, &bar).await;
        bar.finish_and_clear();
        let written = written?;
        return Ok(Copied { to: shown, size: written.size, entries: Some(written.entries), name: to.as_bytes().to_vec() });
    }
    let bar = bar(invocation, &shown, metadata.is_file().then_some(metadata.len()));
    let size = file(client, source, &metadata, target, &to, &bar).await;
    bar.finish_and_clear();
    Ok(Copied { to: shown, size: size?, entries: None, name: to.as_bytes().to_vec() })
}

async fn tree(
    client: &Client,
    source: &Path,
    target: &There,
    to: &FilePath,
    bar: &ProgressBar,
) -> Result<stead_domain::files::TreeWritten> {
    let mut beginnings = 0;
    loop {
        bar.reset();
        let (sender, pieces) = channel(bar);
        let sent = client.upload_archive(target.environment.id, to, Upload::new(pieces, None));
        let (packed, sent) = tokio::join!(here::pack(source, sender), sent);
        match (sent, packed) {
            (Ok(written), _) => return Ok(written),
            // What went wrong here is the cause of what went wrong there.
            (Err(ClientError::Source { .. }), Err(failure)) => return Err(failure),
            (Err(error), _) if is_absence(&error) && beginnings < BEGINNINGS => beginnings += 1,
            (Err(error), _) => return Err(error.into()),
        }
        // Until somebody answers again.
        patiently(async || client.get_environment(target.environment.id).await).await?;
    }
}

async fn file(client: &Client, source: &Path, metadata: &Metadata, target: &There, to: &FilePath, bar: &ProgressBar) -> Result<u64> {
    let failed = |error: std::io::Error| file_error("read", source, &error);
    let (size, mode) = (metadata.len(), metadata.permissions().mode() & 0o777);
    if metadata.is_file() && size > PART {
        return parts(client, source, metadata, target, to, bar).await;
    }
    let attempts = Attempts::new();
    loop {
        let reader = Counted { reader: File::open(source).await.map_err(failed)?, bar: bar.clone() };
        let upload = Upload::new(reader, metadata.is_file().then_some(size));
        match client.write_file(target.environment.id, to, Some(mode), upload).await {
            Err(error) if metadata.is_file() && is_absence(&error) && attempts.once_more().await => bar.reset(),
            outcome => return Ok(outcome?.size),
        }
    }
}

async fn parts(client: &Client, source: &Path, metadata: &Metadata, target: &There, to: &FilePath, bar: &ProgressBar) -> Result<u64> {
    let failed = |error: std::io::Error| file_error("read", source, &error);
    let (id, size, mode) = (target.environment.id, metadata.len(), metadata.permissions().mode() & 0o777);
    let part = part_of(source, metadata, to).map_err(failed)?;
    if let Some(parent) = parent(to) {
        patiently(async || client.make_directory(id, &parent, None, true).await).await?;
    }
    let mut file = File::open(source).await.map_err(failed)?;
    let mut attempts = Attempts::new();
    // What an earlier attempt, of this command or another one, has brought there.
    let mut at = there(client, target, &part).await?.filter(|there| *there <= size).unwrap_or(0);
    while at < size {
        bar.set_position(at);
        file.seek(SeekFrom::Start(at)).await.map_err(failed)?;
        let length = (size - at).min(PART);
        let reader = Counted { reader: file.try_clone().await.map_err(failed)?.take(length), bar: bar.clone() };
        match client.append_file(id, &part, at, Some(mode), Upload::new(reader, Some(length))).await {
            Ok(_) => {
                at += length;
                attempts = Attempts::new();
            }
            Err(error) if is_absence(&error) && attempts.once_more().await => {
                let reached = there(client, target, &part).await?.unwrap_or(0).min(size);
                if reached > at {
                    attempts = Attempts::new();
                }
                at = reached;
            }
            Err(ClientError::Reply { body, .. }) if body.error.code == Code::WrongOffset.as_str() && attempts.once_more().await => {
                at = there(client, target, &part).await?.unwrap_or(0).min(size);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let moved = patiently(async || client.move_file(id, &part, to, true).await).await.map_err(Failure::from);
    match moved {
        // Moved by a request whose answer was lost.
        Err(Failure::Reply { body, .. })
            if body.error.code == Code::FileNotFound.as_str() && there(client, target, to).await? == Some(size) =>
        {
            Ok(size)
        }
        outcome => outcome.map(|()| size),
    }
}

/// How many bytes something has; none when it is not there.
async fn there(client: &Client, target: &There, path: &FilePath) -> Result<Option<u64>> {
    match patiently(async || client.stat_file(target.environment.id, path).await).await {
        Ok(entry) => Ok(Some(entry.size)),
        Err(ClientError::Reply { body, .. }) if body.error.code == Code::FileNotFound.as_str() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn parent(path: &FilePath) -> Option<FilePath> {
    let at = path.as_bytes().iter().rposition(|byte| *byte == b'/')?;
    Some(FilePath::found(if at == 0 { b"/".as_slice() } else { &path.as_bytes()[..at] }))
}

/// The name under which this very file, as it is now, goes to that path.
fn part_of(source: &Path, metadata: &Metadata, to: &FilePath) -> std::io::Result<FilePath> {
    let mut digest = Sha256::new();
    digest.update(source.canonicalize()?.as_os_str().as_bytes());
    for number in [metadata.len(), metadata.mtime() as u64, metadata.mtime_nsec() as u64, metadata.ino()] {
        digest.update(number.to_le_bytes());
    }
    digest.update(to.as_bytes());
    let name: String = digest.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    let name = format!(".stead-cp-{name}.part");
    Ok(parent(to).map_or_else(|| FilePath::found(name.as_bytes()), |parent| parent.join(name.as_bytes())))
}
