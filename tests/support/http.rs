//! Plain HTTP/1.1 over a socket, so that tests can also send what no client would.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

#[derive(Clone)]
pub struct Http {
    address: String,
    key: Option<String>,
}

/// A request whose body is still to come.
pub struct Unfinished(TcpStream);

impl Unfinished {
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// The same, when nobody may listen any more.
    pub fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }
}

#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The code of an error body; empty for any other.
    pub fn code_or_empty(&self) -> String {
        if self.status < 400 { String::new() } else { self.code() }
    }

    /// The code of an error body.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Http {
    pub fn new(address: &str, key: Option<String>) -> Self {
        Self { address: address.trim_start_matches("http://").to_owned(), key }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// The same caller at another server.
    pub fn at(&self, address: &str) -> Self {
        Self::new(address, self.key.clone())
    }

    /// Sends the head of a request and leaves the body to the caller.
    pub fn begin(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Unfinished {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        if let Some(key) = &self.key {
            head.push_str(&format!("Authorization: Bearer {key}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut unfinished = Unfinished(TcpStream::connect(&self.address).unwrap());
        unfinished.send(head.as_bytes());
        unfinished
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], None)
    }

    pub fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, &[], Some(body.to_string().as_bytes()))
    }

    pub fn patch(&self, path: &str, body: Value) -> Reply {
        self.send("PATCH", path, &[], Some(body.to_string().as_bytes()))
    }

    pub fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], None)
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Reply {
        self.try_send(method, path, headers, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    pub fn try_send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> std::io::Result<Reply> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        if let Some(key) = &self.key {
            head.push_str(&format!("Authorization: Bearer {key}\r\n"));
        }
        if let Some(body) = body {
            head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        } else if method == "POST" {
            head.push_str("Content-Length: 0\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.raw(&[head.as_bytes(), body.unwrap_or_default()].concat())
    }

    /// Sends these very bytes and reads one reply.
    pub fn raw(&self, bytes: &[u8]) -> std::io::Result<Reply> {
        let mut socket = TcpStream::connect(&self.address)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        // The server may answer and close before it has read all.
        let sent = socket.write_all(bytes);
        let reply = read(&mut BufReader::new(&socket));
        if reply.is_err() {
            sent?;
        }
        reply
    }
}

fn read(input: &mut impl BufRead) -> std::io::Result<Reply> {
    let gone = || std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "no reply");
    let mut line = String::new();
    input.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(gone)?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.trim_end().split_once(':') {
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length")).and_then(|(_, value)| value.parse().ok());
    let chunked = headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("transfer-encoding") && value.contains("chunked"));
    let mut body = Vec::new();
    match length {
        Some(length) => {
            body = vec![0; length];
            input.read_exact(&mut body)?;
        }
        None if chunked => loop {
            let mut size = String::new();
            input.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(|_| gone())?;
            let mut chunk = vec![0; size + 2];
            input.read_exact(&mut chunk)?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        },
        None => drop(input.read_to_end(&mut body)?),
    }
    Ok(Reply { status, headers, body })
}
