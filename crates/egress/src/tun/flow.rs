//! One TCP stream of the stack, as any other stream of bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{RecvError, Socket, State};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stack::Stack;

pub struct Flow {
    stack: Stack,
    handle: SocketHandle,
    opened: bool,
    /// Nothing more will be written.
    finished: bool,
}

impl Flow {
    pub fn new(stack: Stack, handle: SocketHandle) -> Self {
        Self { stack, handle, opened: false, finished: false }
    }

    /// The first use completes the handshake: until then the program waits in `connect`.
    fn with<T>(&mut self, work: impl FnOnce(&mut Socket<'static>) -> Poll<T>) -> Poll<T> {
        let mut inner = self.stack.lock();
        let socket = inner.sockets.get_mut::<Socket<'_>>(self.handle);
        socket.pause_synack(false);
        let outcome = work(socket);
        drop(inner);
        if outcome.is_ready() || !self.opened {
            self.opened = true;
            self.stack.notify();
        }
        outcome
    }
}

impl AsyncRead for Flow {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| {
            if socket.state() == State::SynReceived || (socket.may_recv() && !socket.can_recv()) {
                socket.register_recv_waker(context.waker());
                return Poll::Pending;
            }
            match socket.recv_slice(buffer.initialize_unfilled()) {
                Ok(length) => {
                    buffer.advance(length);
                    Poll::Ready(Ok(()))
                }
                Err(RecvError::Finished) => Poll::Ready(Ok(())),
                Err(RecvError::InvalidState) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            }
        })
    }
}

impl AsyncWrite for Flow {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|socket| {
            if socket.state() == State::SynReceived || (socket.may_send() && !socket.can_send()) {
                socket.register_send_waker(context.waker());
                return Poll::Pending;
            }
            Poll::Ready(socket.send_slice(bytes).map_err(|_| io::ErrorKind::BrokenPipe.into()))
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.finished = true;
        self.with(|socket| {
            socket.close();
            Poll::Ready(Ok(()))
        })
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.stack.release(self.handle, self.finished);
    }
}
