//! Output as it comes: an event stream over a connection of its own, taken up again where it broke off.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt;
use stead_domain::error::ErrorBody;
use stead_domain::process::{OutputStream, ProcessExit};
use stead_domain::process_request::{Encoding, OutputFrame};

use crate::client::Opened;
use crate::{Client, ClientError, Request, Result};

/// The server sends a sign of life every fifteen seconds.
const SILENCE: Duration = Duration::from_secs(45);
const PAUSE: Duration = Duration::from_millis(250);
/// No event of this API comes near it.
const LONGEST_EVENT: usize = 16 << 20;

/// What one who follows hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Output {
        stream: OutputStream,
        offset: u64,
        bytes: Vec<u8>,
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
    offset: u64,
    opened: Option<Opened>,
    buffer: Vec<u8>,
    over: bool,
}

impl<'c> Follow<'c> {
    pub(crate) fn new(client: &'c Client, path: String, offset: u64, stream: Option<OutputStream>) -> Self {
        Self { client, path, stream, offset, opened: None, buffer: Vec::new(), over: false }
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
            while let Some(text) = self.take_event() {
                if let Some(heard) = self.understand(&text)? {
                    self.over = matches!(heard, Heard::Exit(_) | Heard::Failed { .. });
                    return Ok(Some(heard));
                }
            }
            if self.opened.is_none() {
                self.open().await?;
            }
            let Some(opened) = &mut self.opened else { continue };
            match tokio::time::timeout(SILENCE, opened.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                    if self.buffer.len() > LONGEST_EVENT {
                        return Err(self.misshapen("an event that never ends".to_owned()));
                    }
                }
                // Broken, ended before the process did, or silent: taken up from where it was. Half an event is heard again as a whole.
                Ok(Some(Err(_)) | None) | Err(_) => {
                    self.opened = None;
                    self.buffer.clear();
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
            .header("accept", "text/event-stream")?;
        self.opened = Some(self.client.open_patiently(&request).await?);
        Ok(())
    }

    /// The text of the next whole event.
    fn take_event(&mut self) -> Option<String> {
        let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
        let text: Vec<u8> = self.buffer.drain(..end + 2).collect();
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// None for a sign of life, and for what a later version may send.
    fn understand(&mut self, text: &str) -> Result<Option<Heard>> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
        let data = field("data:").unwrap_or_default();
        let heard = match field("event:") {
            Some("output") => {
                let frame: OutputFrame = self.parse(data)?;
                let bytes = match frame.encoding {
                    Encoding::Utf8 => frame.data.into_bytes(),
                    Encoding::Base64 => STANDARD.decode(&frame.data).map_err(|error| self.misshapen(error.to_string()))?,
                };
                Heard::Output { stream: frame.stream, offset: frame.offset, bytes }
            }
            Some("gap") => {
                #[derive(serde::Deserialize)]
                struct Gap {
                    from: u64,
                    to: u64,
                }
                let Gap { from, to } = self.parse(data)?;
                Heard::Gap { from, to }
            }
            Some("exit") => Heard::Exit(self.parse(data)?),
            Some("failed") => {
                #[derive(serde::Deserialize)]
                struct Failed {
                    error: String,
                }
                let Failed { error } = self.parse(data)?;
                Heard::Failed { error }
            }
            Some("error") => {
                let body: ErrorBody = self.parse(data)?;
                return Err(ClientError::Reply { status: 502, body: Box::new(body) });
            }
            _ => return Ok(None),
        };
        if let Some(next) = field("id:").and_then(|id| id.parse().ok()) {
            self.offset = next;
        }
        Ok(Some(heard))
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, data: &str) -> Result<T> {
        serde_json::from_str(data).map_err(|error| self.misshapen(error.to_string()))
    }

    fn misshapen(&self, cause: String) -> ClientError {
        ClientError::Shape { address: self.client.endpoint().to_string(), cause }
    }
}
