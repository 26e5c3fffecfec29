//! What others tell this command while it runs.

use stead_domain::signal::Signal as Number;
use stead_domain::{Error, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub enum Received {
    Interrupt,
    /// One that usually ends a program, and is passed on.
    End(Number),
    Resized,
    Continued,
}

/// From when this is made on, none of them ends this command by itself.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    quit: Signal,
    resized: Signal,
    continued: Signal,
}

impl Signals {
    pub fn listen() -> Result<Self> {
        let heard = |kind: SignalKind| signal(kind).map_err(Error::internal);
        Ok(Self {
            interrupt: heard(SignalKind::interrupt())?,
            terminate: heard(SignalKind::terminate())?,
            hang_up: heard(SignalKind::hangup())?,
            quit: heard(SignalKind::quit())?,
            resized: heard(SignalKind::window_change())?,
            continued: heard(SignalKind::from_raw(Number::CONT.number()))?,
        })
    }

    pub async fn next(&mut self) -> Received {
        tokio::select! {
            _ = self.interrupt.recv() => Received::Interrupt,
            _ = self.terminate.recv() => Received::End(Number::TERM),
            _ = self.hang_up.recv() => Received::End(Number::HUP),
            _ = self.quit.recv() => Received::End(Number::QUIT),
            _ = self.resized.recv() => Received::Resized,
            _ = self.continued.recv() => Received::Continued,
        }
    }

    /// Waits for one that asks this command to end, before there is a program that it could be passed on to.
    pub async fn ended(&mut self) -> Number {
        loop {
            match self.next().await {
                Received::Interrupt => return Number::INT,
                Received::End(signal) => return signal,
                Received::Resized | Received::Continued => {}
            }
        }
    }

    pub async fn interrupted(&mut self) {
        self.ended().await;
    }
}
