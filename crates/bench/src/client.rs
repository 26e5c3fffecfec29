//! As little of an HTTP client as measuring needs: one kept connection, requests as bytes, replies by their length.

use std::io::{Error, Result};
use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

pub struct Client<S = TcpStream> {
    socket: S,
    buffer: Vec<u8>,
}

impl Client {
    pub async fn connect(address: &str) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, buffer: Vec::with_capacity(64 << 10) })
    }
}

impl Client<UnixStream> {
    pub async fn connect_unix(path: &Path) -> Result<Self> {
        Ok(Self { socket: UnixStream::connect(path).await?, buffer: Vec::with_capacity(64 << 10) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Sends one request and gives status and body of its reply.
    pub async fn call(&mut self, request: &[u8]) -> Result<(u16, &[u8])> {
        self.socket.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return Err(Error::other("the server hung up"));
            }
            if let Some(end) = self.buffer.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head]).map_err(Error::other)?;
        let status = text.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(|| Error::other("no status"))?;
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let length = length.ok_or_else(|| Error::other("no length"))?;
        while self.buffer.len() < head + length {
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return Err(Error::other("the server hung up"));
            }
        }
        Ok((status, &self.buffer[head..head + length]))
    }
}

/// A request as it goes over the wire.
pub fn request(method: &str, path: &str, key: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
