//! PostgreSQL's advisory locks: held by a session, kept in memory, gone with it. As much of its protocol as that needs.

use std::io::{Error, Result};

use stead_testing::PrivatePostgres;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::session::{Service, Session};

/// Its own, and those that it keeps for its administrator.
const SPARE: usize = 10;

pub struct Advisory(PrivatePostgres);

impl Advisory {
    pub fn start(clients: usize) -> Result<Self> {
        if !PrivatePostgres::is_installed() {
            return Err(Error::other("PostgreSQL is not installed (`make deps` installs it)"));
        }
        Ok(Self(PrivatePostgres::start_durable_for(clients + SPARE)))
    }
}

impl Service for Advisory {
    type Session = Holder;

    async fn session(&self, lock: usize) -> Result<Holder> {
        let socket = UnixStream::connect(self.0.sockets().join(".s.PGSQL.5432")).await?;
        let mut connection = Connection(BufReader::new(socket));
        let mut hello = 196_608_u32.to_be_bytes().to_vec();
        hello.extend(b"user\0stead\0database\0postgres\0\0");
        connection.send(None, &hello).await?;
        connection.reply().await?;
        Ok(Holder { connection, lock })
    }
}

pub struct Holder {
    connection: Connection,
    lock: usize,
}

impl Session for Holder {
    async fn acquire(&mut self) -> Result<()> {
        self.connection.ask(&format!("SELECT pg_advisory_lock({})", self.lock)).await.map(drop)
    }

    async fn release(&mut self) -> Result<()> {
        let row = self.connection.ask(&format!("SELECT pg_advisory_unlock({})", self.lock)).await?;
        // One column of one byte: true.
        if row.ends_with(b"t") { Ok(()) } else { Err(Error::other("it was not held")) }
    }
}

struct Connection(BufReader<UnixStream>);

impl Connection {
    async fn send(&mut self, kind: Option<u8>, content: &[u8]) -> Result<()> {
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend((content.len() as u32 + 4).to_be_bytes());
        message.extend(content);
        self.0.get_mut().write_all(&message).await
    }

    /// The last row that it says, when it is ready for the next request.
    async fn ask(&mut self, statement: &str) -> Result<Vec<u8>> {
        self.send(Some(b'Q'), format!("{statement}\0").as_bytes()).await?;
        self.reply().await
    }

    async fn reply(&mut self) -> Result<Vec<u8>> {
        let mut row = Vec::new();
        loop {
            let kind = self.0.read_u8().await?;
            let length = self.0.read_u32().await?.saturating_sub(4);
            let mut content = vec![0; length as usize];
            self.0.read_exact(&mut content).await?;
            match kind {
                b'D' => row = content,
                b'E' => return Err(Error::other(String::from_utf8_lossy(&content).replace('\0', " "))),
                b'Z' => return Ok(row),
                _ => {}
            }
        }
    }
}
