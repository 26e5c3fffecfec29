//! The server's side of the control socket.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use tokio::net::UnixStream;

use super::protocol::{Failure, LAST, Listed, PROTOCOL, Reply, Request, Socket};
use super::wire;
use crate::broker::BrokerText;
use crate::policy::PolicyText;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the relay cannot be reached")]
    Unreachable(#[source] io::Error),
    #[error("the relay has broken off")]
    Broken(#[source] io::Error),
    #[error("the relay refused: {message}")]
    Refused { code: Failure, message: String },
    #[error("the relay is of an older version, which cannot broker secrets")]
    TooOld,
    #[error("the relay answered something else than was asked")]
    Unexpected,
}

/// A connection to the relay. What was added stays when it is dropped.
pub struct Client {
    stream: UnixStream,
    /// Of the relay, which may be of another version.
    pub version: String,
    pub pid: u32,
    protocol: u32,
}

impl Client {
    /// `directory` is the one that the relay was started with.
    pub async fn connect(directory: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(super::socket_path(directory)).await.map_err(ClientError::Unreachable)?;
        let mut client = Self { stream, version: String::new(), pid: 0, protocol: PROTOCOL };
        let mut hello = client.ask(&Request::Hello { protocol: PROTOCOL }, &[]).await;
        // One that was started before this program was updated goes on, without what it does not know.
        if matches!(hello, Err(ClientError::Refused { code: Failure::Protocol, .. })) {
            hello = client.ask(&Request::Hello { protocol: LAST }, &[]).await;
        }
        match hello? {
            Reply::Hello { version, pid, protocol } => Ok(Self { version, pid, protocol, ..client }),
            _ => Err(ClientError::Unexpected),
        }
    }

    pub async fn add(&mut self, environment: &str, policy: PolicyText, sockets: Vec<(Socket, BorrowedFd<'_>)>) -> Result<(), ClientError> {
        let (sockets, descriptors): (Vec<_>, Vec<_>) = sockets.into_iter().unzip();
        self.done(&Request::Add { environment: environment.to_owned(), policy, sockets }, &descriptors).await
    }

    /// Returns when the new policy is in force; connections that it denies are being closed.
    pub async fn update(&mut self, environment: &str, policy: PolicyText) -> Result<(), ClientError> {
        self.done(&Request::Update { environment: environment.to_owned(), policy }, &[]).await
    }

    /// Returns when requests that come now are brokered so; connections that nothing is brokered for any more are being closed.
    pub async fn broker(&mut self, environment: &str, broker: BrokerText) -> Result<(), ClientError> {
        if self.protocol < PROTOCOL {
            return Err(ClientError::TooOld);
        }
        self.done(&Request::Broker { environment: environment.to_owned(), broker }, &[]).await
    }

    /// Returns when everything of it is closed.
    pub async fn remove(&mut self, environment: &str) -> Result<(), ClientError> {
        self.done(&Request::Remove { environment: environment.to_owned() }, &[]).await
    }

    pub async fn list(&mut self) -> Result<Vec<Listed>, ClientError> {
        match self.ask(&Request::List, &[]).await? {
            Reply::List { environments } => Ok(environments),
            _ => Err(ClientError::Unexpected),
        }
    }

    pub async fn ping(&mut self) -> Result<(), ClientError> {
        self.done(&Request::Ping, &[]).await
    }

    /// Ends the relay if it has no environment.
    pub async fn retire(&mut self) -> Result<(), ClientError> {
        self.done(&Request::Retire, &[]).await
    }

    async fn done(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        match self.ask(request, descriptors).await? {
            Reply::Done => Ok(()),
            _ => Err(ClientError::Unexpected),
        }
    }

    async fn ask(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<Reply, ClientError> {
        wire::send(&self.stream, request, descriptors).await.map_err(ClientError::Broken)?;
        match wire::receive(&self.stream).await.map_err(ClientError::Broken)? {
            Some((Reply::Failed { code, message }, _)) => Err(ClientError::Refused { code, message }),
            Some((reply, _)) => Ok(reply),
            None => Err(ClientError::Broken(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}
