//! The server's end of the spawner. It is started again when it is gone.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::fs::MemfdFlags;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socketpair};

use crate::blueprint::{Blueprint, ENCLOSED, Order};

/// What surely fits into the buffer of a socket.
const LONGEST_MESSAGE: usize = 64 << 10;

pub struct Spawner {
    program: PathBuf,
    arguments: Vec<OsString>,
    running: Mutex<Option<Running>>,
}

struct Running {
    child: Child,
    socket: OwnedFd,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It ends by itself when its socket does; if it hangs, it is of no use either.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Spawner {
    /// What to start, and how: this very program in its role as spawner.
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { program, arguments, running: Mutex::new(None) }
    }

    /// Starts it now, so that the first command need not wait for it.
    pub fn prepare(&self) -> io::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            *running = Some(self.launch()?);
        }
        Ok(())
    }

    /// Has a steward started without waiting for anything; none when that is not to be had now. To say it costs less than to wake somebody
    /// who may wait.
    pub fn spawn_now(&self, blueprint: &Blueprint) -> Option<UnixStream> {
        let bytes = serde_json::to_vec(&Order::Wake(Box::new(blueprint.clone()))).ok().filter(|bytes| bytes.len() <= LONGEST_MESSAGE)?;
        let running = self.running.try_lock().ok()?;
        let (ours, theirs) = UnixStream::pair().ok()?;
        // What is wrong with it is found out, and mended, by who may wait.
        send(&running.as_ref()?.socket, &bytes, &[theirs.as_fd()], SendFlags::DONTWAIT).ok().map(|()| ours)
    }

    /// Has a steward started; gives our end of the stream to it. Blocks for a moment.
    pub fn spawn(&self, blueprint: Blueprint) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        self.order(&Order::Wake(Box::new(blueprint)), Some(&theirs)).map(|()| ours)
    }

    /// Has removed what a killed steward left in its directory and elsewhere; the directory goes last. Blocks for a moment.
    pub fn clear(&self, run: PathBuf) -> io::Result<()> {
        self.order(&Order::Clear(run), None)
    }

    fn order(&self, order: &Order, descriptor: Option<&UnixStream>) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(order)?;
        let mut descriptors: Vec<BorrowedFd<'_>> = descriptor.iter().map(|descriptor| descriptor.as_fd()).collect();
        let enclosed = if bytes.len() > LONGEST_MESSAGE { Some(enclose(&mem::replace(&mut bytes, ENCLOSED.to_vec()))?) } else { None };
        descriptors.extend(enclosed.as_ref().map(AsFd::as_fd));
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..2 {
            let there = match running.take() {
                Some(there) => there,
                None => self.launch()?,
            };
            match send(&there.socket, &bytes, &descriptors, SendFlags::empty()) {
                Ok(()) => {
                    *running = Some(there);
                    return Ok(());
                }
                // Somebody ended it: once more with a new one.
                Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {}
                Err(error) => {
                    *running = Some(there);
                    return Err(error);
                }
            }
        }
        Err(io::Error::other("the spawner ends as soon as it is started"))
    }

    fn launch(&self) -> io::Result<Running> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // Nothing of the server's surroundings is for those who come after it.
        let child = Command::new(&self.program)
            .arg0("stead")
            .args(&self.arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Running { child, socket: ours })
    }
}

/// A file in memory that holds what does not fit into a message.
fn enclose(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("order", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

fn send(socket: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>], flags: SendFlags) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL | flags) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome.map(drop).map_err(io::Error::from),
        }
    }
}
