//! Output as it comes: frames over a connection of its own, taken up again where it broke off.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use stead_domain::error::ErrorBody;
use stead_domain::frames::{FrameKind, MEDIA_TYPE};
use stead_domain::process::{OutputStream, ProcessExit};

use crate::arrived::Arrived;
use crate::client::Opened;
use crate::{Client, ClientError, Request, Result};

/// The server sends a sign of life every fifteen seconds.
const SILENCE: Duration = Duration::from_secs(45);
const PAUSE: Duration = Duration::from_millis(250);

/// What one who follows hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Output {
        stream: OutputStream,
        offset: u64,
        bytes: Bytes,
    },
    /// These bytes are no longer kept.
    Gap {
        from: u64,
        to: u64,
    },
    /// It is over, and everything up to then was heard.
    Exit(ProcessExit),
    /// There was never a program.
    Failed {
        error: String,
    },
}

pub struct Follow<'c> {
    client: &'c Client,
    path: String,
    stream: Option<OutputStream>,
    hold: bool,
    offset: u64,
    opened: Option<Opened>,
    arrived: Arrived,
    over: bool,
}

impl<'c> Follow<'c> {
    pub(crate) fn new(client: &'c Client, path: String, offset: u64, stream: Option<OutputStream>) -> Self {
        Self { client, path, stream, hold: false, offset, opened: None, arrived: Arrived::default(), over: false }
    }

    /// A process that was started so waits for us.
    #[must_use]
    pub fn holding(self) -> Self {
        Self { hold: true, ..self }
    }

    /// Where it would go on.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next thing; none after the end. A broken connection is opened again, and nothing is heard twice or missed.
    pub async fn next(&mut self) -> Result<Option<Heard>> {
        loop {
            if self.over {
                return Ok(None);
            }
            if let Some(heard) = self.take()? {
                self.over = matches!(heard, Heard::Exit(_) | Heard::Failed { .. });
                return Ok(Some(heard));
            }
            if self.opened.is_none() {
                self.open().await?;
            }
            let Some(opened) = &mut self.opened else { continue };
            match tokio::time::timeout(SILENCE, opened.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.arrived.push(data);
                    }
                }
                // Broken, ended before the process did, or silent: taken up from where it was. Half a frame is heard again as a whole.
                Ok(Some(Err(_)) | None) | Err(_) => {
                    self.opened = None;
                    self.arrived = Arrived::default();
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn open(&mut self) -> Result<()> {
        let request = Request::get(self.path.clone())
            .query("offset", Some(self.offset))
            .query("stream", self.stream)
            .query("follow", Some(true))
            .query("hold", self.hold.then_some(true))
            .header("accept", MEDIA_TYPE)?;
        self.opened = Some(self.client.open_patiently(&request).await?);
        Ok(())
    }

    /// What can be heard of what has arrived. Output is given on in the pieces in which it comes.
    fn take(&mut self) -> Result<Option<Heard>> {
        while let Some((head, bytes)) = self.arrived.take() {
            let offset = head.offset;
            match head.kind {
                Some(FrameKind::Output(_)) if bytes.is_empty() => {}
                Some(FrameKind::Output(stream)) => {
                    self.offset = offset + bytes.len() as u64;
                    return Ok(Some(Heard::Output { stream, offset, bytes }));
                }
                Some(FrameKind::Gap) => {
                    let to = <[u8; 8]>::try_from(&bytes[..]).map_err(|error| self.misshapen(error.to_string()))?;
                    self.offset = u64::from_le_bytes(to);
                    return Ok(Some(Heard::Gap { from: offset, to: self.offset }));
                }
                Some(FrameKind::Exit) => return Ok(Some(Heard::Exit(self.parse(&bytes)?))),
                Some(FrameKind::Failed) => return Ok(Some(Heard::Failed { error: String::from_utf8_lossy(&bytes).into_owned() })),
                Some(FrameKind::Error) => {
                    let body: ErrorBody = self.parse(&bytes)?;
                    return Err(ClientError::Reply { status: 502, body: Box::new(body) });
                }
                // A sign of life, or what a later version sends.
                Some(FrameKind::Alive) | None => {}
            }
        }
        if self.arrived.is_endless() {
            return Err(self.misshapen("a frame that never ends".to_owned()));
        }
        Ok(None)
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, data: &[u8]) -> Result<T> {
        serde_json::from_slice(data).map_err(|error| self.misshapen(error.to_string()))
    }

    fn misshapen(&self, cause: String) -> ClientError {
        ClientError::Shape { address: self.client.endpoint().to_string(), cause }
    }
}
