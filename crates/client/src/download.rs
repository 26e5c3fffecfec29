//! A file as it comes, taken up again where it broke off.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use stead_domain::files::FilePath;

use crate::client::Opened;
use crate::{Client, ClientError, Request, Result};

/// How long nothing may come while something should.
const SILENCE: Duration = Duration::from_secs(60);

pub struct Download<'c> {
    client: &'c Client,
    request: Request,
    path: FilePath,
    /// How many bytes it has; unknown for what the kernel makes up while it is read.
    size: Option<u64>,
    tag: Option<String>,
    mode: Option<u32>,
    checkpoint: Option<String>,
    at: u64,
    opened: Option<Opened>,
}

impl<'c> Download<'c> {
    pub(crate) async fn open(client: &'c Client, request: Request, path: FilePath) -> Result<Self> {
        let opened = client.open_patiently(&request).await?;
        let header = |name: &str| opened.headers.get(name).and_then(|value| value.to_str().ok());
        let size = header("content-length").and_then(|length| length.parse().ok());
        let mode = header("stead-file-mode").and_then(|mode| u32::from_str_radix(mode, 8).ok());
        let tag = header("etag").map(str::to_owned);
        let checkpoint = header("stead-checkpoint").map(str::to_owned);
        Ok(Self { client, request, path, size, tag, mode, checkpoint, at: 0, opened: Some(opened) })
    }

    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Another one when the file is.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Of an exported environment, the checkpoint that its files are of.
    pub fn checkpoint(&self) -> Option<&str> {
        self.checkpoint.as_deref()
    }

    pub fn mode(&self) -> Option<u32> {
        self.mode
    }

    /// Goes on from there, for whoever has what comes before.
    pub fn skip_to(&mut self, offset: u64) {
        if offset != self.at {
            self.at = offset;
            self.opened = None;
        }
    }

    /// The next bytes; none at the end. A broken connection is opened again, and nothing comes twice or is missed.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if self.size == Some(self.at) {
                return Ok(None);
            }
            let mut opened = match self.opened.take() {
                Some(opened) => opened,
                None => self.open_again().await?,
            };
            let cause = match tokio::time::timeout(SILENCE, opened.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    self.opened = Some(opened);
                    let Ok(data) = frame.into_data() else { continue };
                    self.at += data.len() as u64;
                    return Ok(Some(data));
                }
                Ok(None) if self.size.is_none() => {
                    self.size = Some(self.at);
                    return Ok(None);
                }
                Ok(None) => "it ended too early".to_owned(),
                Ok(Some(Err(error))) => error.to_string(),
                Err(_) => "nothing came any more".to_owned(),
            };
            // What has no size has no parts either.
            if self.size.is_none() || self.tag.is_none() {
                return Err(self.client.lost(cause));
            }
        }
    }

    async fn open_again(&self) -> Result<Opened> {
        let mut request = self.request.clone().header("range", &format!("bytes={}-", self.at))?;
        if let Some(tag) = &self.tag {
            request = request.header("if-range", tag)?;
        }
        let changed = || ClientError::Changed { path: self.path.to_string() };
        match self.client.open_patiently(&request).await {
            Ok(opened) if opened.status == 206 => Ok(opened),
            // All of it instead of the rest: it is another one.
            Ok(_) => Err(changed()),
            Err(ClientError::Reply { status: 416, .. }) => Err(changed()),
            Err(error) => Err(error),
        }
    }
}
