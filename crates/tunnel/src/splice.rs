//! From one socket to another through a pipe, without the bytes coming here.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::alive;

/// What may be on its way in one direction. A pipe has less where the user has many.
const ROOM: usize = 1 << 20;

#[derive(Clone, Copy)]
pub enum Plain<'s> {
    Tcp(&'s TcpStream),
    Unix(&'s UnixStream),
}

/// Until both directions have ended. When an end is gone, rather than done with sending, so is the tunnel.
pub async fn both(left: &Plain<'_>, right: &Plain<'_>) -> io::Result<()> {
    alive::ask(left);
    alive::ask(right);
    let (left_ended, right_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    tokio::select! {
        passed = async { tokio::try_join!(pass(left, right, &left_ended), pass(right, left, &right_ended)) } => passed.map(drop),
        error = alive::gone(left, &left_ended) => Err(error),
        error = alive::gone(right, &right_ended) => Err(error),
    }
}

/// `ended` is set when everything that was sent has been passed on, and that it was all.
async fn pass(from: &Plain<'_>, to: &Plain<'_>, ended: &AtomicBool) -> io::Result<()> {
    let (output, input) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let _ = fcntl_setpipe_size(&input, ROOM);
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    loop {
        // The pipe is empty here: what is waited for can only be the socket.
        let mut held = from.when(Interest::READABLE, || Ok(splice(from, None, &input, None, ROOM, flags)?)).await?;
        if held == 0 {
            to.end()?;
            ended.store(true, Ordering::Relaxed);
            return Ok(());
        }
        while held > 0 {
            held -= to.when(Interest::WRITABLE, || Ok(splice(&output, None, to, None, held, flags)?)).await?;
        }
    }
}

impl Plain<'_> {
    pub(crate) async fn when<T>(&self, interest: Interest, work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        match self {
            Self::Tcp(stream) => stream.async_io(interest, work).await,
            Self::Unix(stream) => stream.async_io(interest, work).await,
        }
    }

    /// Nothing more is sent; what comes the other way still does.
    fn end(&self) -> io::Result<()> {
        let ended = rustix::net::shutdown(self.as_fd(), rustix::net::Shutdown::Write);
        match ended {
            // Whoever is gone needs not be told.
            Err(rustix::io::Errno::NOTCONN) => Ok(()),
            outcome => Ok(outcome?),
        }
    }
}

impl AsFd for Plain<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}
