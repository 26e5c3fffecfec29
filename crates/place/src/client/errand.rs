//! The server's end of an errand: a stream to a process inside. Whatever it says is from where anything may run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use stead_domain::files::FileWord;
use stead_domain::ports::PortWord;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

use super::{Trouble, handed};
use crate::protocol::{Answer, Call, Decoder, Opening, Request, Sent, Task, Word, encode};
use crate::warrant::Warrant;

/// As much as is said at once inside.
const PIECE: usize = 256 << 10;
/// One word about ports.
const SHORT: usize = 16 << 10;

pub struct ErrandStream {
    stream: UnixStream,
    decoder: Decoder,
}

impl ErrandStream {
    /// Has a steward hand its end of the stream to a process inside, and tells that one what to do.
    pub(super) async fn open(stream: UnixStream, warrant: Option<Warrant>, task: &Task) -> Result<Self, Trouble> {
        let writes = matches!(task, Task::Files(errand) if errand.order.writes());
        let mut opened = Self { stream, decoder: Decoder::default() };
        opened.write(&Request { number: 0, call: Call::Errand { warrant, writes } }, &[]).await?;
        loop {
            match opened.take::<Opening>().await?.0 {
                Opening::Inside(FileWord::Ready) => break,
                // What it tells everybody.
                Opening::Steward(Word::Progress(_)) => {}
                Opening::Steward(Word::Answer { answer: Answer::Refused(refusal), .. }) => return Err(Trouble::Refused(refusal)),
                _ => return Err(Trouble::Broken("the keeper spoke out of turn".to_owned())),
            }
        }
        opened.write(task, &[]).await?;
        Ok(opened)
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.write(&Sent::Bytes, bytes).await
    }

    /// Nothing more is sent.
    pub async fn end(&mut self) -> Result<(), Trouble> {
        self.write(&Sent::End, &[]).await
    }

    /// The next thing that is said inside.
    pub async fn next(&mut self) -> Result<(FileWord, Bytes), Trouble> {
        self.take().await
    }

    /// The one answer to a question about ports, with the connection if there is one.
    pub(super) async fn about_ports(mut self) -> Result<(PortWord, Option<OwnedFd>), Trouble> {
        let (mut handed, mut buffer) = (None, vec![0; SHORT]);
        loop {
            if let Some((word, _)) = self.decoder.take().map_err(broken)? {
                return Ok((word, handed));
            }
            let stream = &self.stream;
            let received = stream.async_io(Interest::READABLE, || handed::receive(stream.as_fd(), &mut buffer)).await.map_err(gone)?;
            handed = received.descriptor.or(handed);
            match received.length {
                0 => return Err(Trouble::Gone),
                length => self.decoder.push(&buffer[..length]),
            }
        }
    }

    async fn write(&mut self, header: &impl serde::Serialize, bytes: &[u8]) -> Result<(), Trouble> {
        let message = encode(header, bytes).map_err(broken)?;
        self.stream.write_all(&message).await.map_err(gone)
    }

    async fn take<T: serde::de::DeserializeOwned>(&mut self) -> Result<(T, Bytes), Trouble> {
        loop {
            if let Some(taken) = self.decoder.take().map_err(broken)? {
                return Ok(taken);
            }
            match self.stream.read_buf(self.decoder.room(PIECE)).await {
                Ok(0) => return Err(Trouble::Gone),
                Ok(_) => {}
                Err(error) => return Err(gone(error)),
            }
        }
    }
}

fn gone(error: io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Trouble::Gone,
        _ => broken(error),
    }
}

fn broken(error: io::Error) -> Trouble {
    Trouble::Broken(error.to_string())
}
