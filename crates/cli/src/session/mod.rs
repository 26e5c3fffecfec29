//! One command inside, as if it ran here: its output on our descriptors, our input and signals on its own.

mod control;
mod input;
mod output;
pub mod patience;
mod progress;
mod signals;
mod stopping;
pub mod terminal;

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use stead_client::{ClientError, Heard};
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::process::{OutputStream, Process, ProcessExit};
use stead_domain::signal::Signal;
use tokio::sync::{mpsc, watch};

use crate::connection;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::settings::Settings;

use control::Order;
use input::Keyboard;
pub use input::keys;
use output::Output;
pub use progress::Progress;
pub use signals::{Received, Signals};
use stopping::{Step, Stopping};
use terminal::RawMode;

/// How long a program that keeps on writing to nobody is given to notice it.
const GRACE: Duration = Duration::from_millis(500);
/// So many interruptions are for the program; one more is for us.
const INTERRUPTIONS: u32 = 2;

/// How a session ended.
pub enum End {
    /// With how many bytes of its output were no longer kept when we came to them.
    Exit(ProcessExit, u64),
    /// There was never a program.
    Failed(String),
    /// The program goes on without us; its output was shown up to here.
    Detached(u64),
}

pub struct Session<'run> {
    pub invocation: &'run Invocation<'run>,
    pub settings: &'run Settings,
    pub environment: EnvironmentId,
    pub process: ProcessId,
    /// Where in the stored output to begin.
    pub offset: u64,
    /// Whether our stdin is its stdin, and how much of that has been written before.
    pub stdin: Option<u64>,
    /// Whether ours is a terminal, and so is its own.
    pub terminal: bool,
    /// Signals that came before there was a program to pass them on to.
    pub early: Vec<Signal>,
    /// Stops the program when it says so, because whoever runs it may no longer.
    pub stop: Option<watch::Receiver<bool>>,
}

impl<'run> Session<'run> {
    /// A process that was just started.
    pub fn fresh(invocation: &'run Invocation<'run>, settings: &'run Settings, process: &Process, stdin: bool) -> Self {
        Self {
            invocation,
            settings,
            environment: process.environment_id,
            process: process.id,
            offset: 0,
            stdin: stdin.then_some(0),
            terminal: process.terminal.is_some(),
            early: Vec::new(),
            stop: None,
        }
    }

    /// Stays until the program is over or the user leaves.
    pub async fn run(&self, signals: &mut Signals) -> Result<End> {
        // Three connections: neither a full pipe inside nor a flood of output holds up a signal.
        let connect = || connection::client(self.settings, &self.invocation.context);
        let (listening, writing, ordering) = (connect(), connect(), connect());
        let raw = if self.terminal { RawMode::enter()? } else { None };
        let (orders, received) = mpsc::unbounded_channel();
        let (left, mut leaving) = watch::channel(false);
        let mut obeying = pin!(control::obey(&ordering, self.environment, self.process, received));
        let mut typing = pin!(async {
            match self.stdin {
                Some(from) => {
                    let keyboard = Keyboard::open(self.terminal.then_some(left))?;
                    input::forward(&writing, self.environment, self.process, from, keyboard, self.terminal).await
                }
                None => Ok(()),
            }
        });
        let (mut is_obeying, mut is_typing) = (true, true);
        let (output, mut unread) = Output::open().map_err(|error| stead_domain::Error::internal(&error))?;
        let mut follow = listening.follow_logs(self.environment, self.process, self.offset, None).holding();
        let mut waiting: Option<(OutputStream, Bytes)> = None;
        let (mut interruptions, mut missed) = (0, 0);
        let mut unheard: Option<tokio::time::Instant> = None;
        let mut stopping = Stopping::new(self.stop.clone());
        let order = |order: Order| drop(orders.send(order));
        self.early.iter().for_each(|signal| order(Order::Signal(*signal)));
        let end = loop {
            tokio::select! {
                heard = follow.next(), if waiting.is_none() => match heard {
                    Ok(Some(Heard::Output { stream, bytes, .. })) => waiting = Some((stream, bytes)),
                    Ok(Some(Heard::Gap { from, to })) => missed += to - from,
                    Ok(Some(Heard::Exit(exit))) => break End::Exit(exit, missed),
                    Ok(Some(Heard::Failed { error })) => break End::Failed(error),
                    Ok(None) => break End::Detached(follow.offset()),
                    Err(error) => {
                        drop(raw);
                        return Err(self.lost(error, follow.offset()));
                    }
                },
                permit = output.room(), if waiting.is_some() => {
                    if let (Some(permit), Some(piece)) = (permit, waiting.take()) {
                        permit.send(piece);
                    }
                },
                stream = unread.next() => {
                    // What a program hears that writes into a pipe without a reader. What it wrote until then may be much: it is passed over.
                    order(Order::Signal(Signal::PIPE));
                    let other = if stream == OutputStream::Stdout { OutputStream::Stderr } else { OutputStream::Stdout };
                    follow = listening.follow_logs(self.environment, self.process, follow.offset(), Some(other)).holding();
                    unheard = Some(tokio::time::Instant::now() + GRACE);
                },
                () = async { tokio::time::sleep_until(unheard.unwrap_or_else(tokio::time::Instant::now)).await }, if unheard.is_some() => {
                    unheard = None;
                    order(Order::Signal(Signal::TERM));
                },
                step = stopping.next() => match step {
                    Step::Ask => order(Order::Signal(Signal::TERM)),
                    Step::Kill => order(Order::Signal(Signal::KILL)),
                    Step::Leave => break End::Detached(follow.offset()),
                },
                received = signals.next() => match received {
                    Received::Interrupt if interruptions >= INTERRUPTIONS => break End::Detached(follow.offset()),
                    Received::Interrupt => {
                        interruptions += 1;
                        order(Order::Signal(Signal::INT));
                    }
                    Received::End(signal) => order(Order::Signal(signal)),
                    Received::Resized => {
                        if let Some(size) = self.terminal.then(terminal::size).flatten() {
                            order(Order::Resize(size));
                        }
                    }
                    Received::Continued => raw.iter().for_each(RawMode::again),
                },
                // Also when the end of the keyboard, which goes with it, was seen first.
                Ok(()) = leaving.changed(), if self.terminal => break End::Detached(follow.offset()),
                typed = &mut typing, if is_typing => {
                    is_typing = false;
                    typed?;
                }
                () = &mut obeying, if is_obeying => is_obeying = false,
            }
        };
        if !matches!(end, End::Detached(_)) {
            // What was heard is shown, unless whoever reads it does not, and the user has enough of that.
            tokio::select! {
                () = output.finish(unread) => {}
                () = signals.interrupted() => {}
            }
        }
        drop(raw);
        Ok(end)
    }

    fn lost(&self, error: ClientError, offset: u64) -> crate::failure::Failure {
        if !matches!(error, ClientError::Reply { .. }) {
            self.invocation.printer.hint(&come_back(self.process, offset));
        }
        error.into()
    }
}

/// How to see the rest of a program that goes on without us.
pub fn come_back(process: ProcessId, offset: u64) -> String {
    format!("{process} goes on; come back with: stead attach {process} --since {offset}")
}
