//! Events as they come, over a connection of its own that is opened again when it breaks.

use std::time::Duration;

use http_body_util::BodyExt;
use stead_domain::error::ErrorBody;
use stead_domain::file_watch::FileEvent;

use crate::client::Opened;
use crate::{Client, ClientError, Request, Result};

/// The server sends a sign of life every fifteen seconds.
const SILENCE: Duration = Duration::from_secs(45);
const PAUSE: Duration = Duration::from_millis(250);
/// No event of this API comes near it.
const LONGEST_EVENT: usize = 16 << 20;

pub struct Watch<'c> {
    client: &'c Client,
    request: Request,
    opened: Option<Opened>,
    buffer: Vec<u8>,
}

impl<'c> Watch<'c> {
    pub(crate) async fn open(client: &'c Client, request: Request) -> Result<Self> {
        let opened = client.open_patiently(&request).await?;
        Ok(Self { client, request, opened: Some(opened), buffer: Vec::new() })
    }

    /// The next event. What happened while the connection was broken nobody knows: [`FileEvent::Overflow`] says so. None when what was
    /// watched is gone.
    pub async fn next(&mut self) -> Result<Option<FileEvent>> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let text: Vec<u8> = self.buffer.drain(..end + 2).collect();
                match self.understand(&String::from_utf8_lossy(&text))? {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            let Some(opened) = &mut self.opened else {
                match self.client.open_patiently(&self.request).await {
                    Ok(opened) => self.opened = Some(opened),
                    Err(ClientError::Reply { status: 404, .. }) => return Ok(None),
                    Err(error) => return Err(error),
                }
                return Ok(Some(FileEvent::Overflow));
            };
            match tokio::time::timeout(SILENCE, opened.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                    if self.buffer.len() > LONGEST_EVENT {
                        return Err(self.misshapen("an event that never ends".to_owned()));
                    }
                }
                // It ended, broke, or is silent. Whether there is still something to watch, the next attempt shows.
                Ok(Some(Err(_)) | None) | Err(_) => {
                    self.opened = None;
                    self.buffer.clear();
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// None for a sign of life, and for what a later version may send.
    fn understand(&self, text: &str) -> Result<Option<FileEvent>> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
        let data = field("data:").unwrap_or_default();
        match field("event:") {
            Some("error") => {
                let body: ErrorBody = serde_json::from_str(data).map_err(|error| self.misshapen(error.to_string()))?;
                Err(ClientError::Reply { status: 502, body: Box::new(body) })
            }
            Some(_) => Ok(serde_json::from_str(data).ok()),
            None => Ok(None),
        }
    }

    fn misshapen(&self, cause: String) -> ClientError {
        ClientError::Shape { address: self.client.endpoint().to_string(), cause }
    }
}
