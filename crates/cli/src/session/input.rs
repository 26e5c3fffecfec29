//! Our stdin, sent to the program's. Each piece carries its offset, so that one that is sent again is not written again.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stead_client::{Client, ClientError};
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::{Code, Error};
use tokio::sync::{mpsc, watch};

use super::patience::patiently;
use crate::failure::Result;

const PIECE: usize = 64 << 10;
/// How long a program that does not read is left alone.
const PAUSE: Duration = Duration::from_millis(20);
/// Ctrl-\ so many times in a row leaves the program alone. It would end most programs, so it goes inside only when no other follows.
const LEAVING: usize = 3;
const LEAVE: u8 = 0x1c;
const FOLLOWS: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Whoever reads stdin: a thread, because a terminal must not be made non-blocking for everybody else who has it.
pub struct Keyboard {
    pieces: mpsc::Receiver<Vec<u8>>,
    /// Closed when this is dropped, and then the thread ends without having taken what comes after.
    _stop: OwnedFd,
}

impl Keyboard {
    /// With `leaving`, tells it when the user wants to go.
    pub fn open(leaving: Option<watch::Sender<bool>>) -> Result<Self> {
        let failed = |error: io::Error| Error::new(Code::LocalFile, format!("stdin cannot be read: {error}"));
        let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let (sender, pieces) = mpsc::channel(1);
        thread::Builder::new().name("stdin".to_owned()).spawn(move || read(&stopped, &sender, leaving)).map_err(failed)?;
        Ok(Self { pieces, _stop: stop })
    }
}

fn read(stopped: &OwnedFd, sender: &mpsc::Sender<Vec<u8>>, leaving: Option<watch::Sender<bool>>) {
    let (stdin, mut held) = (io::stdin(), 0);
    let mut buffer = vec![0; PIECE];
    loop {
        let mut ready = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut ready, (held > 0).then_some(&FOLLOWS)) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(0) => {
                if sender.blocking_send(vec![LEAVE; std::mem::take(&mut held)]).is_err() {
                    return;
                }
                continue;
            }
            Ok(_) if !ready[1].revents().is_empty() => return,
            Ok(_) => {}
        }
        let length = match rustix::io::read(&stdin, &mut buffer) {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
            Ok(length) if length > 0 => length,
            // The end, or a terminal that is gone.
            _ => return,
        };
        let piece = &buffer[..length];
        if let Some(leaving) = &leaving
            && piece.iter().all(|key| *key == LEAVE)
        {
            held += length;
            if held >= LEAVING {
                let _ = leaving.send(true);
                return;
            }
            continue;
        }
        let typed = [&vec![LEAVE; std::mem::take(&mut held)], piece].concat();
        if sender.blocking_send(typed).is_err() {
            return;
        }
    }
}

/// Keys for a command of ours, when there are any.
pub struct Keys(Option<Keyboard>);

pub fn keys(wanted: bool) -> Result<Keys> {
    Ok(Keys(if wanted { Some(Keyboard::open(None)?) } else { None }))
}

impl Keys {
    /// Waits for one of these.
    pub async fn any_of(&mut self, wanted: &[u8]) {
        while let Some(keyboard) = &mut self.0 {
            match keyboard.pieces.recv().await {
                Some(typed) if typed.iter().any(|key| wanted.contains(key)) => return,
                Some(_) => {}
                None => self.0 = None,
            }
        }
        std::future::pending::<()>().await;
    }
}

/// Sends what is typed until stdin ends, and that end after it.
pub async fn forward(
    client: &Client,
    environment: EnvironmentId,
    process: ProcessId,
    from: u64,
    mut keyboard: Keyboard,
    terminal: bool,
) -> Result<()> {
    let mut offset = from;
    while let Some(piece) = keyboard.pieces.recv().await {
        let mut rest = piece.as_slice();
        while !rest.is_empty() {
            let written = patiently(async || client.write_stdin(environment, process, offset, rest.to_vec(), false).await).await;
            let Some(reached) = unless_over(written)? else { return Ok(()) };
            let taken = usize::try_from(reached.saturating_sub(offset)).unwrap_or(usize::MAX).min(rest.len());
            if taken == 0 {
                tokio::time::sleep(PAUSE).await;
            }
            rest = &rest[taken..];
            offset += taken as u64;
        }
    }
    // A terminal has no end of its own; the user types it.
    if !terminal {
        let ended = patiently(async || client.write_stdin(environment, process, offset, Vec::new(), true).await).await;
        unless_over(ended)?;
    }
    Ok(())
}

/// None for a program that is over or has closed its stdin: it may, and needs no more of it.
fn unless_over(written: stead_client::Result<u64>) -> Result<Option<u64>> {
    match written {
        Ok(reached) => Ok(Some(reached)),
        Err(ClientError::Reply { status: 404 | 409 | 410, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
