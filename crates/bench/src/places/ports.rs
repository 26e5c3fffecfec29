//! What passes through a port, against a connection to the same program without anything between.

use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::samples::Samples;
use super::stead::Stead;
use crate::load::ENVIRONMENTS;

/// The word that makes this program the one behind the port.
pub const SOURCE: &str = "--serve-for-another";
const INSIDE: u16 = 8080;
const PIECE: usize = 256 << 10;

#[derive(Serialize)]
pub struct PortSpeed {
    pub bytes: u64,
    pub rounds: usize,
    pub direct_megabytes_per_second: f64,
    /// By HTTP, under the name of the port.
    pub http_megabytes_per_second: f64,
    /// Through the API, as bytes.
    pub tunnel_megabytes_per_second: f64,
    /// Through `stead port forward` and the API.
    pub forward_megabytes_per_second: f64,
    /// Of the fastest rounds of each.
    pub http_share: f64,
    pub tunnel_share: f64,
    /// A request and its answer over a connection that is there.
    pub direct_request_milliseconds: f64,
    pub http_request_milliseconds: f64,
    /// The same with a new connection into the place.
    pub new_connection_milliseconds: f64,
}

impl PortSpeed {
    pub fn said(&self) -> String {
        format!(
            "ports: {:.0} MB/s direct, {:.0} by HTTP, {:.0} through a tunnel, {:.0} through `port forward`; \
             a request {:.3} ms direct, {:.3} by HTTP, {:.3} with a new connection",
            self.direct_megabytes_per_second,
            self.http_megabytes_per_second,
            self.tunnel_megabytes_per_second,
            self.forward_megabytes_per_second,
            self.direct_request_milliseconds,
            self.http_request_milliseconds,
            self.new_connection_milliseconds,
        )
    }
}

/// Answers each `GET /BYTES` with so many bytes.
pub fn serve(port: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?.port())?;
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || answer(stream));
    }
    Ok(())
}

fn answer(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let piece = vec![b'x'; PIECE];
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let mut stream = stream;
    while let Some(first) = lines.next().transpose()? {
        while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        let wanted = first.split(['/', ' ']).nth(2).and_then(|number| number.parse::<u64>().ok());
        let mut left = wanted.ok_or_else(|| Error::other("no number"))?;
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n").as_bytes())?;
        while left > 0 {
            let part = left.min(PIECE as u64);
            stream.write_all(&piece[..part as usize])?;
            left -= part;
        }
    }
    Ok(())
}

/// Somebody who asks the program, by whatever way.
struct Asker {
    stream: TcpStream,
    head: String,
    buffer: Vec<u8>,
}

impl Asker {
    fn connect(address: &str, head: String) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, head, buffer: vec![0; PIECE] }
    }

    /// Asks for so many bytes, and takes them.
    fn ask(&mut self, bytes: u64) -> Duration {
        let started = Instant::now();
        self.stream.write_all(format!("GET /{bytes} HTTP/1.1\r\n{}\r\n", self.head).as_bytes()).unwrap();
        let (mut held, mut body) = (0, None);
        let mut left = bytes;
        loop {
            if body.is_some() && left == 0 {
                return started.elapsed();
            }
            let got = self.stream.read(&mut self.buffer[held..]).unwrap();
            assert!(got > 0, "the answer was cut off");
            if body.is_some() {
                left -= got as u64;
                continue;
            }
            held += got;
            if let Some(end) = self.buffer[..held].windows(4).position(|part| part == b"\r\n\r\n") {
                assert!(self.buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&self.buffer[..end]));
                left -= (held - end - 4) as u64;
                (body, held) = (Some(()), 0);
            }
        }
    }
}

struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first line that a program says.
fn start(mut command: Command) -> (Beside, String) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Beside(child), line.trim().to_owned())
}

pub async fn speed(stead: &Stead, binary: &Path, bytes: u64, rounds: usize) -> PortSpeed {
    let own = std::env::current_exe().unwrap();
    let mut caller = stead.caller().await;
    let (id, workspace) = caller.create().await;
    std::fs::copy(&own, workspace.join("source")).unwrap();
    caller.start(&id, &["./source", SOURCE, &INSIDE.to_string()]).await;
    let ports = loop {
        let ports = caller.ports(&id).await;
        if ports["items"][0]["listening"] == true {
            break ports;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let host = ports["items"][0]["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
    let (key, api) = (stead.key().to_owned(), stead.address());
    let authorized = format!("Authorization: Bearer {key}\r\n");

    let mut command = Command::new(&own);
    command.args([SOURCE, "0"]);
    let (_direct, port) = start(command);
    let mut command = Command::new(binary);
    command.args(["port", "forward", &id, &format!("0:{INSIDE}"), "--quiet", "--data-dir"]).arg(stead.data());
    let (_forward, forwarded) = start(command);

    let listener = format!("127.0.0.1:{}", host.rsplit(':').next().unwrap());
    let http = || Asker::connect(&listener, format!("Host: {host}\r\n{authorized}"));
    let tunnel = || {
        let mut asker = Asker::connect(&api, "Host: x\r\n".to_owned());
        let opened = format!(
            "GET {ENVIRONMENTS}/{id}/ports/{INSIDE}/tunnel HTTP/1.1\r\nHost: x\r\n{authorized}Connection: upgrade\r\nUpgrade: stead-tcp\r\n\r\n"
        );
        asker.stream.write_all(opened.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            asker.stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        asker
    };
    let direct = || Asker::connect(&format!("127.0.0.1:{port}"), "Host: x\r\n".to_owned());
    let forward = || Asker::connect(&forwarded, "Host: x\r\n".to_owned());
    let mut large: [Samples; 4] = Default::default();
    for _ in 0..rounds {
        for (samples, mut asker) in large.iter_mut().zip([direct(), http(), tunnel(), forward()]) {
            samples.add(asker.ask(bytes));
        }
    }
    let mut small: [Samples; 3] = Default::default();
    let (mut kept_direct, mut kept_http) = (direct(), http());
    for _ in 0..rounds * 100 {
        small[0].add(kept_direct.ask(1));
        small[1].add(kept_http.ask(1));
    }
    for _ in 0..rounds * 20 {
        let started = Instant::now();
        tunnel().ask(1);
        small[2].add(started.elapsed());
    }
    // The connection from before has been idle for longer than the server waits.
    let mut caller = stead.caller().await;
    caller.tell(&id, "stop").await;
    caller.delete(&id).await;
    let [direct, http, tunnel, forward] = large.map(|samples| bytes as f64 / 1e3 / samples.at(0.0));
    PortSpeed {
        bytes,
        rounds,
        direct_megabytes_per_second: direct,
        http_megabytes_per_second: http,
        tunnel_megabytes_per_second: tunnel,
        forward_megabytes_per_second: forward,
        http_share: http / direct,
        tunnel_share: tunnel / direct,
        direct_request_milliseconds: small[0].at(0.5),
        http_request_milliseconds: small[1].at(0.5),
        new_connection_milliseconds: small[2].at(0.5),
    }
}
