//! From one environment into another, through here and without keeping anything.

use stead_client::{Client, Upload};

use super::bar::bar;
use super::channel::channel;
use super::side::{There, name};
use super::{BEGINNINGS, Copied, down};
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::session::patience::{is_absence, patiently};

pub async fn copy(invocation: &Invocation<'_>, client: &Client, source: &There, target: &There) -> Result<Copied> {
    let to = target.place(client, name(source.path.as_bytes())).await?;
    let (shown, is_tree) = (target.shown(&to), source.is_directory(client).await?);
    let bar = bar(invocation, &shown, None);
    let mut beginnings = 0;
    let copied = loop {
        bar.reset();
        let (sender, pieces) = channel(&bar);
        let attempt = async {
            if is_tree {
                let sent = client.upload_archive(target.environment.id, &to, Upload::new(pieces, None));
                let (received, sent) = tokio::join!(down::receive(client, source, sender), sent);
                received?;
                return sent.map(|written| (written.size, Some(written.entries)));
            }
            let mut download = client.download_file(source.environment.id, &source.path).await?;
            let upload = Upload::new(pieces, download.size());
            let sent = client.write_file(target.environment.id, &to, download.mode().map(|mode| mode & 0o777), upload);
            let receive = async {
                while let Some(bytes) = download.next().await? {
                    if sender.send(Ok(Some(bytes.to_vec()))).await.is_err() {
                        return Ok(());
                    }
                }
                let _ = sender.send(Ok(None)).await;
                drop(sender);
                Ok(())
            };
            let (received, sent) = tokio::join!(receive, sent);
            received?;
            sent.map(|written| (written.size, None))
        };
        match attempt.await {
            Err(error) if is_absence(&error) && beginnings < BEGINNINGS => beginnings += 1,
            outcome => break outcome,
        }
        patiently(async || client.get_environment(target.environment.id).await).await?;
    };
    bar.finish_and_clear();
    let (size, entries) = copied?;
    Ok(Copied { to: shown, size, entries, name: to.as_bytes().to_vec() })
}
