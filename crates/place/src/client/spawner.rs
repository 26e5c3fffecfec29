//! The server's end of the spawner. It is started again when it is gone.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socketpair};

use crate::blueprint::{Blueprint, Order};

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
        let bytes = serde_json::to_vec(order)?;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..2 {
            let there = match running.take() {
                Some(there) => there,
                None => self.launch()?,
            };
            match send(&there.socket, &bytes, descriptor) {
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

fn send(socket: &OwnedFd, bytes: &[u8], descriptor: Option<&UnixStream>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.iter().map(|descriptor| descriptor.as_fd()).collect();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome.map(drop).map_err(io::Error::from),
        }
    }
}
