//! Redis: `SET key value NX PX` to take a lock, and a script that deletes the key only if the value is still ours to let go.
//!
//! There is no queue: whoever finds it taken asks again after a while, and whoever lets go may be the next.

use std::cell::Cell;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::program::Program;
use super::session::{Service, Session};

/// When somebody asks again. Clients in use wait for 100 ms and more; less only helps it here.
pub const ASK_AGAIN: Duration = Duration::from_millis(5);
const COMPARE_AND_DELETE: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In memory, with a snapshot now and then: what it does by itself.
    AsItComes,
    /// Each write is on the disk before it is answered.
    Durably,
}

pub struct Redis {
    program: Program,
    serial: Cell<usize>,
}

impl Redis {
    pub async fn start(root: &Path, kept: Kept) -> Result<Self> {
        let mut program = Program::start("redis-server", root, |directory| {
            let (socket, directory) = (socket(directory), directory.display().to_string());
            let mut arguments = vec!["--port".to_owned(), "0".to_owned(), "--unixsocket".to_owned(), socket.display().to_string()];
            arguments.extend(["--dir".to_owned(), directory]);
            if kept == Kept::Durably {
                arguments.extend(["--appendonly", "yes", "--appendfsync", "always"].map(str::to_owned));
            }
            arguments
        })?;
        let path = socket(program.directory());
        program.until(|| async { Connection::open(&path).await?.call(&["PING"]).await }).await?;
        Ok(Self { program, serial: Cell::new(0) })
    }
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("redis.sock")
}

impl Service for Redis {
    type Session = Holder;

    async fn session(&self, lock: usize) -> Result<Holder> {
        let mut connection = Connection::open(&socket(self.program.directory())).await?;
        let Reply::Text(script) = connection.call(&["SCRIPT", "LOAD", COMPARE_AND_DELETE]).await? else {
            return Err(Error::other("the script was not taken"));
        };
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        Ok(Holder { connection, script, key: format!("lock-{lock}"), value: format!("holder-{serial}") })
    }
}

pub struct Holder {
    connection: Connection,
    script: String,
    key: String,
    value: String,
}

impl Session for Holder {
    async fn acquire(&mut self) -> Result<()> {
        loop {
            match self.connection.call(&["SET", &self.key, &self.value, "NX", "PX", "60000"]).await? {
                Reply::Text(said) if said == "OK" => return Ok(()),
                Reply::Nothing => tokio::time::sleep(ASK_AGAIN).await,
                other => return Err(Error::other(format!("{other:?}"))),
            }
        }
    }

    async fn release(&mut self) -> Result<()> {
        match self.connection.call(&["EVALSHA", &self.script, "1", &self.key, &self.value]).await? {
            Reply::Number(1) => Ok(()),
            other => Err(Error::other(format!("it was not ours any more: {other:?}"))),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Text(String),
    Number(i64),
    Nothing,
}

struct Connection(BufReader<UnixStream>);

impl Connection {
    async fn open(path: &Path) -> Result<Self> {
        Ok(Self(BufReader::new(UnixStream::connect(path).await?)))
    }

    async fn call(&mut self, words: &[&str]) -> Result<Reply> {
        let mut message = format!("*{}\r\n", words.len());
        for word in words {
            message += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(message.as_bytes()).await?;
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        let unknown = || Error::other(format!("no reply that is known: {line:?}"));
        let (kind, rest) = line.trim_end().split_at_checked(1).ok_or_else(unknown)?;
        match (kind, rest.parse::<i64>()) {
            ("+", _) => Ok(Reply::Text(rest.to_owned())),
            (":", Ok(number)) => Ok(Reply::Number(number)),
            ("$", Ok(-1)) => Ok(Reply::Nothing),
            ("$", Ok(length)) => {
                let mut text = vec![0; length as usize + 2];
                self.0.read_exact(&mut text).await?;
                text.truncate(length as usize);
                Ok(Reply::Text(String::from_utf8(text).map_err(Error::other)?))
            }
            _ => Err(unknown()),
        }
    }
}
