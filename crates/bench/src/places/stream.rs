//! Bodies that are not there at once: sent and taken in pieces over the unix socket, as long as it takes.

use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::os::unix::net::UnixStream;

use super::stead::Stead;

const PIECE: usize = 256 << 10;

fn open(stead: &Stead, method: &str, path: &str, more: &str) -> Result<UnixStream> {
    let mut socket = UnixStream::connect(stead.data().join("stead.sock"))?;
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n{more}\r\n", stead.key());
    socket.write_all(head.as_bytes())?;
    Ok(socket)
}

/// What is said to a request without a body goes to `to`, and how many bytes it was is the answer.
pub fn download(stead: &Stead, path: &str, to: &mut impl Write) -> Result<u64> {
    body(open(stead, "GET", path, "")?, to)
}

/// Sends everything that `from` has, and takes the answer.
pub fn upload(stead: &Stead, path: &str, from: &mut impl Read) -> Result<u64> {
    let mut socket = open(stead, "PUT", path, "Content-Type: application/x-tar\r\nTransfer-Encoding: chunked\r\n")?;
    let mut buffer = vec![0; PIECE];
    loop {
        let length = from.read(&mut buffer)?;
        write!(socket, "{length:x}\r\n")?;
        socket.write_all(&buffer[..length])?;
        socket.write_all(b"\r\n")?;
        if length == 0 {
            return body(socket, &mut std::io::sink());
        }
    }
}

fn body(socket: UnixStream, to: &mut impl Write) -> Result<u64> {
    let mut reader = BufReader::with_capacity(PIECE, socket);
    let (status, length) = head(&mut reader)?;
    if status != 200 {
        let mut said = String::new();
        let _ = reader.read_to_string(&mut said);
        return Err(Error::other(format!("{status}: {said}")));
    }
    if let Some(length) = length {
        return pass(&mut reader, length, to).map(|()| length);
    }
    let mut whole = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16).map_err(|_| Error::other("the answer was cut off"))?;
        pass(&mut reader, length, to)?;
        reader.read_exact(&mut [0; 2])?;
        whole += length;
        if length == 0 {
            return Ok(whole);
        }
    }
}

/// The status, and how long the body is unless it comes in pieces.
fn head(reader: &mut impl BufRead) -> Result<(u16, Option<u64>)> {
    let (mut status, mut length) = (None, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match (line.trim_end(), status) {
            ("", Some(status)) => return Ok((status, length)),
            (first, None) => {
                status = Some(first.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(|| Error::other("no status"))?);
            }
            (header, Some(_)) => {
                let value = header.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
                length = value.and_then(|(_, value)| value.trim().parse().ok()).or(length);
            }
        }
    }
}

/// From one buffer to the other without a third between them.
fn pass(reader: &mut impl BufRead, mut left: u64, to: &mut impl Write) -> Result<()> {
    while left > 0 {
        let held = reader.fill_buf()?;
        if held.is_empty() {
            return Err(Error::other("the answer was cut off"));
        }
        let taken = held.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        to.write_all(&held[..taken])?;
        reader.consume(taken);
        left -= taken as u64;
    }
    Ok(())
}
