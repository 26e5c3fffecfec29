//! What a search by content finds, as it comes.

use std::time::Duration;

use http_body_util::BodyExt;
use stead_domain::file_search::GrepLine;

use crate::client::Opened;
use crate::{Client, ClientError, Request, Result};

/// A search may go on for long without finding anything.
const SILENCE: Duration = Duration::from_secs(600);
/// No line of this API comes near it.
const LONGEST_LINE: usize = 16 << 20;

pub struct Grep<'c> {
    client: &'c Client,
    opened: Opened,
    buffer: Vec<u8>,
    /// Where in the buffer the next line begins.
    at: usize,
    over: bool,
}

impl<'c> Grep<'c> {
    pub(crate) async fn open(client: &'c Client, request: Request) -> Result<Self> {
        let opened = client.open_patiently(&request).await?;
        Ok(Self { client, opened, buffer: Vec::new(), at: 0, over: false })
    }

    /// The next line; none after `end`.
    pub async fn next(&mut self) -> Result<Option<GrepLine>> {
        while !self.over {
            if let Some(length) = self.buffer[self.at..].iter().position(|byte| *byte == b'\n') {
                let line = serde_json::from_slice(&self.buffer[self.at..self.at + length]);
                self.at += length + 1;
                let line = line.map_err(|error| self.misshapen(error.to_string()))?;
                self.over = matches!(line, GrepLine::End { .. });
                return Ok(Some(line));
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            match tokio::time::timeout(SILENCE, self.opened.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                    if self.buffer.len() > LONGEST_LINE {
                        return Err(self.misshapen("a line that never ends".to_owned()));
                    }
                }
                Ok(Some(Err(error))) => return Err(self.client.lost(error.to_string())),
                Ok(None) => return Err(self.client.lost("it ended too early".to_owned())),
                Err(_) => return Err(self.client.lost("nothing came any more".to_owned())),
            }
        }
        Ok(None)
    }

    /// Whether the next line must be waited for.
    pub fn is_waiting(&self) -> bool {
        !self.over && !self.buffer[self.at..].contains(&b'\n')
    }

    fn misshapen(&self, cause: String) -> ClientError {
        ClientError::Shape { address: self.client.endpoint().to_string(), cause }
    }
}
