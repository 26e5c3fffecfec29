//! A connection that is no longer one of HTTP.

use std::io;

use bytes::Bytes;
use hyper::upgrade::{Parts, Upgraded};
use hyper_util::rt::TokioIo;
use stead_tunnel::End;
use tokio::net::{TcpStream, UnixStream};

pub struct Tunnel {
    end: End,
    /// What came with the answer already.
    early: Bytes,
}

impl Tunnel {
    pub(crate) fn new(upgraded: Upgraded) -> Self {
        let upgraded = match upgraded.downcast::<TokioIo<TcpStream>>() {
            Ok(Parts { io, read_buf, .. }) => return Self { end: io.into_inner().into(), early: read_buf },
            Err(upgraded) => upgraded,
        };
        match upgraded.downcast::<TokioIo<UnixStream>>() {
            Ok(Parts { io, read_buf, .. }) => Self { end: io.into_inner().into(), early: read_buf },
            Err(upgraded) => Self { end: End::Other(Box::new(TokioIo::new(upgraded))), early: Bytes::new() },
        }
    }

    /// Passes everything on between it and another connection, until both directions have ended or one broke.
    pub async fn join(self, other: TcpStream) -> io::Result<()> {
        stead_tunnel::join((other.into(), Bytes::new()), (self.end, self.early)).await
    }
}
