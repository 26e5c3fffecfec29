//! Another protocol after HTTP, such as a WebSocket: bytes pass, and what comes back is redacted.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use stead_redaction::Redactor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::timeout;

use super::redacted::{PATIENCE, SHOWN};
use super::secrets::Broker;
use crate::relay::stream::Interrupted;

const CHUNK: usize = 16 * 1024;

pub struct Tunnel {
    pub inside: OnUpgrade,
    pub outside: OnUpgrade,
    pub broker: Arc<Broker>,
}

impl Tunnel {
    pub async fn run(self) -> Result<(), Interrupted> {
        let (inside, outside) = tokio::try_join!(self.inside, self.outside).map_err(|_| Interrupted::Broken)?;
        let (mut from_inside, mut to_inside) = split(TokioIo::new(inside));
        let (mut from_outside, mut to_outside) = split(TokioIo::new(outside));
        let upward = async {
            tokio::io::copy(&mut from_inside, &mut to_outside).await?;
            to_outside.shutdown().await
        };
        let downward = redacted(&mut from_outside, &mut to_inside, Redactor::new(self.broker.known.clone()));
        tokio::try_join!(upward, downward)?;
        Ok(())
    }
}

async fn redacted(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    mut redactor: Redactor,
) -> std::io::Result<()> {
    let (mut buffer, mut out) = (vec![0; CHUNK], Vec::new());
    let mut released = false;
    loop {
        let length = if redactor.held() > 0 && !released {
            match timeout(PATIENCE, reader.read(&mut buffer)).await {
                Ok(read) => read?,
                Err(_) => {
                    released = true;
                    redactor.release(SHOWN, &mut out);
                    writer.write_all(&out).await?;
                    writer.flush().await?;
                    out.clear();
                    continue;
                }
            }
        } else {
            reader.read(&mut buffer).await?
        };
        released = false;
        if length == 0 {
            redactor.finish(&mut out);
            writer.write_all(&out).await?;
            return writer.shutdown().await;
        }
        redactor.push(&buffer[..length], &mut out);
        writer.write_all(&out).await?;
        writer.flush().await?;
        out.clear();
    }
}
