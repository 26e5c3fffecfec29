//! The side of a keeper that has no runtime: it hands its environment's ways out over, and is told by the end of the stream when the relay is
//! gone.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use zeroize::Zeroizing;

use super::protocol::{Failure, LAST, PROTOCOL, Reply, Request, Socket};
use super::wire::{AT_ONCE, LONGEST_FRAME};
use crate::broker::BrokerText;
use crate::policy::PolicyText;

/// A relay that does not answer by then is as good as none.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to the relay.
pub struct BlockingClient {
    stream: UnixStream,
    protocol: u32,
}

impl BlockingClient {
    /// `directory` is the one that the relay was started with.
    pub fn connect(directory: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(super::socket_path(directory))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut client = Self { stream, protocol: PROTOCOL };
        let mut hello = client.ask(&Request::Hello { protocol: PROTOCOL }, &[])?;
        // One that was started before this program was updated goes on, without what it does not know.
        if matches!(hello, Reply::Failed { code: Failure::Protocol, .. }) {
            hello = client.ask(&Request::Hello { protocol: LAST }, &[])?;
        }
        match hello {
            Reply::Hello { protocol, .. } => Ok(Self { protocol, ..client }),
            _ => Err(unexpected()),
        }
    }

    /// For polling: readable only when the relay is gone, because it says nothing by itself.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub fn add(&mut self, environment: &str, policy: &PolicyText, sockets: &[(Socket, BorrowedFd<'_>)]) -> io::Result<()> {
        let (sockets, descriptors): (Vec<_>, Vec<_>) = sockets.iter().copied().unzip();
        self.done(&Request::Add { environment: environment.to_owned(), policy: policy.clone(), sockets }, &descriptors)
    }

    /// Connections that it no longer allows are closed.
    pub fn update(&mut self, environment: &str, policy: &PolicyText) -> io::Result<()> {
        self.done(&Request::Update { environment: environment.to_owned(), policy: policy.clone() }, &[])
    }

    /// Replaces what is brokered for the environment. `Unsupported` is said by a relay that was started before it could do so.
    pub fn broker(&mut self, environment: &str, broker: &BrokerText) -> io::Result<()> {
        if self.protocol < PROTOCOL {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the relay is of an older version, which cannot broker secrets"));
        }
        self.done(&Request::Broker { environment: environment.to_owned(), broker: broker.clone() }, &[])
    }

    pub fn remove(&mut self, environment: &str) -> io::Result<()> {
        self.done(&Request::Remove { environment: environment.to_owned() }, &[])
    }

    fn done(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match self.ask(request, descriptors)? {
            Reply::Done => Ok(()),
            Reply::Failed { message, .. } => Err(io::Error::other(message)),
            _ => Err(unexpected()),
        }
    }

    fn ask(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<Reply> {
        let body = Zeroizing::new(serde_json::to_vec(request)?);
        let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= LONGEST_FRAME && descriptors.len() <= AT_ONCE);
        let Some(length) = length else { return Err(io::Error::new(io::ErrorKind::InvalidInput, "the frame is too long")) };
        self.send_first(length.to_be_bytes()[0], descriptors)?;
        self.stream.write_all(&length.to_be_bytes()[1..])?;
        self.stream.write_all(&body)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > LONGEST_FRAME {
            return Err(unexpected());
        }
        let mut reply = vec![0; length];
        self.stream.read_exact(&mut reply)?;
        Ok(serde_json::from_slice(&reply)?)
    }

    /// Descriptors travel with the first byte.
    fn send_first(&self, byte: u8, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        loop {
            match sendmsg(&self.stream, &[IoSlice::new(&[byte])], &mut ancillary, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                outcome => return outcome.map(drop).map_err(io::Error::from),
            }
        }
    }
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the relay answered something else than was asked")
}
